#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A log without a reader: the server continues, and later reports how many lines were
# lost.
use strict;
use warnings;
use Fcntl qw(F_GETFL O_NONBLOCK);
use File::Temp;
use FindBin;
use lib $FindBin::Bin;
use IO::Select;
use IO::Socket::INET;
use LlmServer;
use Test::More;
use Time::HiRes ();

my $stories = LlmServer::source('t/data/models/stories260K');

sub free_port { return IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport }

# llmserve with a pipe for stderr: the server, and the pipe's two ends.
sub start {
    my ($more)  = @_;
    my $folder  = File::Temp->newdir;
    my $address = '127.0.0.1:' . free_port();
    LlmServer::write_file("$folder/ini", "[server]\nlisten = $address\n$more\[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n");
    pipe(my $read, my $write) or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        close $read;
        open(STDERR, '>&', $write) or die $!;
        exec(LlmServer::under(), LlmServer::built('llmserve'), '-c', "$folder/ini") or die "exec: $!";
    }
    my $server   = LlmServer->new(pid => $pid, folder => $folder, address => $address);
    my $deadline = Time::HiRes::time() + 4 * $LlmServer::TIMEOUT;
    until ($server->get('/ready')->{status} == 200) {
        die "llmserve did not start\n" if Time::HiRes::time() > $deadline;
        Time::HiRes::sleep(0.02);
    }
    return ($server, $read, $write);
}

# Requests with numbers for their ids, each refused and so good for a line of some 300 bytes.
sub refused {
    my ($server, $from, $to) = @_;
    my $body   = '{"prompt":"x","slo":{"' . 'a' x 300 . '":1}}';
    my $socket = $server->connect;
    my ($answered, $text) = (0, "");
    for my $i ($from .. $to) {
        syswrite $socket, LlmServer::raw_post('/v1/completions', $body, "X-Request-Id: r$i" . '.' x 90);
        until ($answered > $i - $from - 90) {
            $text .= LlmServer::read_until($socket, qr/\}\}/);
            die "no answer: $text" if $text =~ /<timeout>/;
            $answered++ while $text =~ s/\A.*?\}\}//s;
        }
    }
    until ($answered == $to - $from + 1) {
        $text .= LlmServer::read_until($socket, qr/\}\}/);
        die "no answer: $text" if $text =~ /<timeout>/;
        $answered++ while $text =~ s/\A.*?\}\}//s;
    }
    return;
}

# The log until it says this.
sub read_log {
    my ($pipe, $said) = @_;
    return LlmServer::read_until($pipe, $said);
}

# ---- it goes on -----------------------------------------------------------------------

my $lines = 5000;    # more than the pipe and the server hold
for my $format ('text', 'json') {
    my ($server, $read, $write) = start("log_format = $format\n");
    refused($server, 1, $lines);
    is $server->get('/live')->{status}, 200, "$format: /live answers while the log is full";
    my $stream = $server->post('/v1/completions', { prompt => 'Once', max_tokens => 5, stream => JSON::PP::true });
    like $stream->{content}, qr/\[DONE\]/, 'a stream runs';
    ok !(fcntl($write, F_GETFL, 0) & O_NONBLOCK), 'the pipe is others\' too: it has no other flags than it had';

    my $log = read_log($read, qr/lines are missing here[^\n]*\n/);
    my ($lost) = $log =~ /(\d+) lines are missing here: the log was not read/;
    cmp_ok $lost, '>', 0, 'how many lines were lost is said once there is room';
    refused($server, $lines + 1, $lines + 1);
    $log .= read_log($read, qr/r@{[ $lines + 1 ]}\.[^\n]*\n/);
    my @ids = $log =~ /\br(\d+)\.{90}/g;
    is_deeply \@ids, [sort { $a <=> $b } @ids], 'lines keep their order';
    is scalar(grep { !/\A(?:\{.*\}|\d{4}-\d\d-\d\dT.*)\z/ } split /\n/, $log), 0, 'and are whole';
    my $lines_of_stream = () = $log =~ /generated_tokens/g;
    is @ids + $lost + $lines_of_stream, $lines + 2, 'every line was written or counted';
    is $server->stop, 0, 'the server ends well';
}

# ---- ends -----------------------------------------------------------------------------

{
    my ($server, $read, $write) = start('');
    refused($server, 1, $lines);
    is $server->stop, 0, 'a server that stops does not wait for its log to be read';
}
SKIP: {
    skip 'a sanitizer has the last word', 1 if LlmServer::sanitized();
    my ($server, $read, $write) = start('');
    refused($server, 1, $lines);
    $server->signal('SEGV');
    is $server->wait_for_end, 'killed by signal 11', 'nor does one that crashes';
}

done_testing;
