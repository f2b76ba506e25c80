#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# kill -9 at any moment, while clients stream, files are uploaded, responses are stored, a batch
# runs, blocks go to the disk, decisions are recorded and policies are reloaded: what a client was told is done is there
# after the next start, a batch answers each line once, and what was recorded can be read.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use Batches;
use JSON::PP;
use LlmServer;
use Test::More;
use Time::HiRes qw(sleep time);

if (my ($why) = Batches::missing()) { plan skip_all => $why }
my $end   = Campaign::begin;
my $state = File::Temp->newdir;
my $n     = 60;
my @retrieval = -e LlmServer::built('.libs/predictor_retrieval.so') ? ('retrieval') : ();
my (%files, %responses, @wrong);
my %count = (kills => 0, starting => 0, reloads => 0, uploads => 0, responses => 0, decisions => 0);

sub ini {
    my ($turn) = @_;
    my $scheduler = (qw(sarathi mlfq fcfs vtc rr))[$turn % 5];
    my $cache     = (qw(paged tiered hybrid))[$turn % 3];
    my $predictor = (@retrieval, 'fixed', 'none')[$turn % (2 + @retrieval)];
    return Batches::ini($state, "disk_space = 2MiB\n[plugins]\nscheduler = $scheduler\ncache = $cache\npredictor = $predictor\n"
          . "[predictor.fixed]\nlength = 20\n" . (@retrieval ? "[predictor.retrieval]\ndb_file = $state/history.db\n" : ''), "decisions = $state/decisions\n");
}

# One thing after another until the time is over; what was acknowledged is remembered.
sub work_until {
    my ($server, $until) = @_;
    while (time < $until) {
        my $what = int rand 4;
        if ($what == 0) {
            my $content = join '', map { chr 32 + int rand 90 } 1 .. 1 + rand 5000;
            my $answer  = Batches::post_form($server, Batches::form('batch', $content));
            $files{ $answer->{json}{id} } = $content if $answer->{status} == 200;
            $count{uploads}++ if $answer->{status} == 200;
        } elsif ($what == 1) {
            my $answer = $server->post('/v1/responses', { input => 'Once ' . rand, max_output_tokens => 5, store => JSON::PP::true });
            next if $answer->{status} != 200 || !$answer->{json}{store};
            $responses{ $answer->{json}{id} } = $answer->{json}{output}[0]{content}[0]{text};
            $count{responses}++;
        } elsif ($what == 2) {
            $server->configure(ini(int rand 30));
            $server->signal('HUP');
            $count{reloads}++;
        } else {
            my $socket = eval { $server->connect } or next;
            syswrite $socket, LlmServer::raw_post('/v1/completions', '{"prompt":"Once","max_tokens":40,"stream":true}');
            sleep rand 0.01;
        }
    }
    return;
}

# A child asks and is cut off with the server, so that the moment is any; it tells what it knows.
sub attack {
    my ($server, $seconds) = @_;
    pipe my $read, my $write or die $!;
    my $seed = int rand 1e9;
    my $pid  = fork // die $!;
    if ($pid == 0) {
        srand $seed;
        $server->{http} = HTTP::Tiny->new(timeout => 5, keep_alive => 0);
        $SIG{PIPE} = 'IGNORE';
        %files = %responses = ();
        $count{$_} = 0 for keys %count;
        eval { work_until($server, time + $seconds + 0.3) };
        print $write encode_json([\%files, \%responses, \%count]);
        close $write;
        POSIX::_exit(0);
    }
    close $write;
    sleep $seconds;
    $server->signal('KILL');
    is_deeply $server->wait_for_end, 'killed by signal 9', "kill $count{kills}" if ++$count{kills} <= 3;
    $server->wait_for_end;
    my ($f, $r, $c) = @{ decode_json(do { local $/; <$read> }) };
    waitpid $pid, 0;
    @files{ keys %$f } = values %$f;
    @responses{ keys %$r } = values %$r;
    $count{$_} += $c->{$_} for qw(uploads responses reloads);
    return;
}

sub check {
    my ($server) = @_;
    for my $id (sort keys %files) {
        my $answer = $server->get("/v1/files/$id/content");
        push @wrong, "file $id is lost: $answer->{status}" if $answer->{status} != 200;
        push @wrong, "file $id has changed" if $answer->{status} == 200 && $answer->{content} ne $files{$id};
    }
    for my $id (sort keys %responses) {
        my $answer = $server->get("/v1/responses/$id");
        my $text   = eval { decode_json($answer->{content})->{output}[0]{content}[0]{text} } // '';
        push @wrong, "response $id is lost or has changed: $answer->{status}" if $answer->{status} != 200 || $text ne $responses{$id};
    }
    return;
}

# Every record of decisions that a killed server left can be read to where it was cut off.
sub check_decisions {
    my $sim = LlmServer::built('llmserve-sim');
    return if !-x $sim || !-s "$state/decisions.1";
    my $said = qx('$sim' --replay '$state/decisions.1' 2>&1);
    $count{decisions}++;
    push @wrong, "decisions cannot be read: status $?: " . substr($said, -300) if $? & 127 || $said =~ /sanitizer|runtime error/i;
    return;
}

my $server = LlmServer->serve(ini(0));
my $lines  = join '', map { Batches::line("k-$_", max_tokens => 5 + $_ % 20) } 1 .. $n;
my $batch  = Batches::create($server, Batches::upload($server, $lines)->{id});
while (Campaign::goes_on($end) || $count{kills} < 3) {
    attack($server, 0.05 + rand 0.6);
    # some are killed again while they start
    if (rand() < 0.3) {
        my $pid = fork // die $!;
        if ($pid == 0) { open STDERR, '>', '/dev/null'; LlmServer::write_file("$state/ini", LlmServer::whole(ini(1))); exec LlmServer::built('llmserve'), '-c', "$state/ini" }
        sleep rand 0.3;
        kill 'KILL', $pid;
        waitpid $pid, 0;
        $count{starting}++;
    }
    $server = eval { LlmServer->serve(ini($count{kills})) };
    if (!$server) { push @wrong, "no start after a kill: $@"; last }
    check_decisions();
    check($server);
    last if @wrong;
}
is_deeply \@wrong, [], "$count{kills} kills, $count{starting} more while it starts: " . keys(%files) . ' files and ' . keys(%responses) . ' responses are there, as they were';
if ($server) {
    my $whole = Batches::wait_for($server, $batch->{id});
    is_deeply $whole->{request_counts}, { total => $n, completed => $n, failed => 0 }, 'the batch is completed';
    is scalar keys %{ Batches::texts(Batches::results($server, $whole->{output_file_id})) }, $n, '  each line is answered once';
    is $server->stop, 0, 'the server ends well';
}
Campaign::figure(%count);
done_testing;
