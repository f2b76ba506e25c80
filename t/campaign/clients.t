#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Rude clients, which leave off in every state of a request: silent, in the middle of a line, of
# headers or of a body, with an answer that nobody reads, in a stream; then they close, reset, shut
# down half of the connection, or stay. One that behaves gets its answers as ever meanwhile, and
# nothing is left of the others: no request, descriptor or thread, and no memory that grows.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use JSON::PP;
use LlmServer;
use Socket qw(SOL_SOCKET SO_LINGER SO_RCVBUF);
use Streams;
use Test::More;
use Time::HiRes qw(sleep time);

my $end    = Campaign::begin;
my $demo   = Campaign::model();
my $server = LlmServer->serve("read_timeout = 2s\nidle_timeout = 2s\nwrite_timeout = 2s\n[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 16MiB\n[plugins]\nscheduler = sarathi\n");
my $streams = Streams->new($server, clients => 2, tokens => 40, prompts => [[1, 403, 407], [1, 20, 21, 22]]);
$streams->learn;

my $long   = '{"prompt":"Once","max_tokens":200,"ignore_eos":true,"stream":true}';
my $whole  = LlmServer::raw_post('/v1/completions', $long, 'Content-Type: application/json');
my $plain  = LlmServer::raw_post('/v1/completions', $long =~ s/,"stream":true//r, 'Content-Type: application/json');
my ($head) = $whole =~ /\A(.*?\r\n\r\n)/s;
my %state  = (
    silent              => sub { '' },
    'in a line'         => sub { substr $whole, 0, 1 + int rand 20 },
    'in the headers'    => sub { substr $whole, 0, 25 + int rand(length($head) - 26) },
    'before the body'   => sub { $head },
    'in the body'       => sub { substr $whole, 0, length($head) + int rand length $long },
    'in a chunk'        => sub { "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"pro" },
    'before the answer' => sub { $plain },
    'before the stream' => sub { $whole },
    'in the stream'     => sub { $whole },
    'with many asked'   => sub { $plain x 8 },
    'with no request'   => sub { join '', map { chr int rand 256 } 1 .. 200 },
);
my %leave = (
    close    => sub { close $_[0] },
    reset    => sub { setsockopt $_[0], SOL_SOCKET, SO_LINGER, pack('II', 1, 0); close $_[0] },
    half     => sub { shutdown $_[0], 1; return $_[0] },
    'at all' => sub { return $_[0] },
);
my (@stay, %count);

sub rude {
    my ($state, $leave) = @_;
    my $socket = $server->connect;
    setsockopt $socket, SOL_SOCKET, SO_RCVBUF, 2048 if rand() < 0.5;
    local $SIG{PIPE} = 'IGNORE';
    syswrite $socket, $state{$state}->();
    if ($state eq 'in the stream') { sysread $socket, my $some, 300 if IO::Select->new($socket)->can_read(2) }
    else { sleep rand 0.003 }
    my $left = $leave{$leave}->($socket);
    push @stay, $left if ref $left;
    close shift @stay while @stay > 40;
    $count{$state}++;
    $count{all}++;
    return;
}

sub holds {
    my $pid = $server->{pid};
    my $fds = () = glob "/proc/$pid/fd/*";
    my $text = LlmServer::read_file("/proc/$pid/status");
    my ($threads, $rss) = map { $text =~ /^$_:\s+(\d+)/m } qw(Threads VmRSS);
    return { fds => $fds, threads => $threads, rss => $rss };
}

# Nobody is there but who asks.
sub quiet {
    $streams->finish;
    close $_ for splice @stay;
    $server->metric_becomes('llmserve_generations_live', 0) or return;
    sleep 0.2;
    return holds();
}

sub rest { my ($seconds) = @_; my $until = time + $seconds; $streams->run(sub { time >= $until }); return }

my @pairs = map { my $state = $_; map { [$state, $_] } sort keys %leave } sort keys %state;
my $round = sub { for my $pair (@pairs) { rude(@$pair); $streams->ask while keys %{ $streams->{live} } < 2; $streams->pump(0) } rest(0.02) };
# Until as many have come by at once as ever will, a quarter of the time: then memory stays.
my ($warm, $warming) = (0, time + Campaign::seconds() / 4);
do { $round->() } while ++$warm < 5 || time < $warming;
my $before = quiet();
my $rounds = 0;
do { $round->(); $rounds++ } while Campaign::goes_on($end);
my $after = quiet();
is_deeply $streams->{wrong}, [], "$count{all} rude clients in " . keys(%state) . " states: $streams->{done} answers meanwhile, as ever";
ok defined $after, 'nothing of theirs is at work';
is $after->{$_}, $before->{$_}, "  and no more $_" for qw(fds threads);
cmp_ok $after->{rss}, '<=', $before->{rss} + 8192 + $before->{rss} / 10, '  nor memory';
is $server->stop, 0, 'the server ends well';
Campaign::figure('rude clients' => $count{all}, states => scalar @pairs, answers => $streams->{done}, 'RSS before' => "$before->{rss} KiB", after => "$after->{rss} KiB", fds => $after->{fds});
done_testing;
