#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# kill -9 at any moment with [cache] disk_space, while clients ask: before they start, while blocks are read and written,
# while room is made for others. Every answer, whether its beginning was found on disk or not, is the one of a server that
# has no disk; every start serves. Between kills bytes of the file are damaged, and the cache manager changes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use File::Temp;
use JSON::PP;
use LlmServer;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $end   = Campaign::begin;
my $state = File::Temp->newdir;
my $file  = "$state/blocks-0";
my $model = Campaign::model();
my $n     = Campaign::least(24, 6); # conversations of two turns
my %count = (kills => 0, starting => 0, damaged => 0, answers => 0, hits => 0, read => 0);
my (@right, @wrong);

# The device has room for some of the conversations, the disk for most.
sub ini {
    my ($more, $cache) = @_;
    return "$more\[model]\npath = $model\n[engine]\nthreads = 1\npin = false\nmax_context = 512\nmax_sequences = 4\n"
        . "[cache]\ndevice_memory = 1MiB\n" . ($more =~ /state/ ? "disk_space = 3MiB\n" : '') . "[plugins]\ncache = $cache\nscheduler = sarathi\n";
}

# All begin with one of three beginnings.
sub prompt {
    my ($i, $turn) = @_;
    my @ids = map { 10 + ($_ * (7 + $i % 3)) % 200 } 1 .. 48;
    push @ids, map { 10 + ($_ * (11 + $i)) % 200 } 1 .. 60 + 5 * $i;
    push @ids, (@{ $right[$i][0] }, map { 10 + ($_ * (5 + $i)) % 200 } 1 .. 40) if $turn == 1;
    return \@ids;
}

# Returns the ids of the answer and the tokens that were found; none: the server is gone.
sub ask {
    my ($server, $i, $turn) = @_;
    my $reply = $server->post('/v1/completions', { prompt => prompt($i, $turn), max_tokens => 10, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true });
    return if $reply->{status} == 599;
    return ("status $reply->{status}: $reply->{content}", 0) if $reply->{status} != 200 || !$reply->{json};
    return ($reply->{json}{choices}[0]{token_ids}, $reply->{json}{usage}{prompt_tokens_details}{cached_tokens} // 0);
}

# Asks until the server is gone; writes what was found out to a file.
sub client {
    my ($server, $seed, $path) = @_;
    srand $seed;
    $server->{http} = HTTP::Tiny->new(timeout => 20, keep_alive => 0);
    $SIG{PIPE} = 'IGNORE';
    my %found = (answers => 0, hits => 0, wrong => []);
    while (1) {
        my ($i, $turn) = (int rand $n, int rand 2);
        my ($ids, $hit) = eval { ask($server, $i, $turn) } or last;
        $found{answers}++;
        $found{hits}++ if $hit > 0;
        push @{ $found{wrong} }, "conversation $i, turn $turn, $hit tokens found: " . (ref $ids ? "@$ids" : $ids) . ", not @{ $right[$i][$turn] }"
            if !ref $ids || "@$ids" ne "@{ $right[$i][$turn] }";
    }
    LlmServer::write_file($path, encode_json(\%found));
    POSIX::_exit(0);
}

# Changes some bytes of the file, anywhere.
sub damage {
    open my $f, '+<', $file or return;
    for (1 .. 1 + int rand 20) {
        my $at = int rand -s $file;
        seek $f, $at, 0;
        read $f, my $byte, 1 or next;
        seek $f, $at, 0;
        print {$f} chr(ord($byte) ^ (1 << int rand 8));
    }
    close $f;
    $count{damaged}++;
    return;
}

my $plain = LlmServer->serve(ini('', 'paged'));
for my $i (0 .. $n - 1) {
    for my $turn (0, 1) { ($right[$i][$turn]) = ask($plain, $i, $turn); die "$right[$i][$turn]\n" if ref $right[$i][$turn] ne 'ARRAY' }
}
is $plain->stop, 0, 'all answers are known';

while ((Campaign::goes_on($end) || $count{kills} < 3) && !@wrong) {
    if (rand() < 0.25) { # killed while it starts
        my $pid = fork // die $!;
        if ($pid == 0) { open STDERR, '>', '/dev/null'; LlmServer::write_file("$state/ini", LlmServer::whole(ini("state = $state\n", 'paged'))); exec LlmServer::built('llmserve'), '-c', "$state/ini" }
        sleep rand 0.2;
        kill 'KILL', $pid;
        waitpid $pid, 0;
        $count{starting}++;
    }
    damage() if rand() < 0.2;
    my $server = eval { LlmServer->serve(ini("state = $state\n", (qw(paged tiered))[rand 2])) };
    if (!$server) { push @wrong, "no start after a kill: $@"; last }
    my @clients;
    for my $c (1 .. 3) {
        my $seed = int rand 1e9;
        my $pid  = fork // die $!;
        client($server, $seed, "$state/client-$c") if $pid == 0;
        push @clients, $pid;
    }
    sleep 0.1 + rand 1.2;
    $count{read} += $server->metric('llmserve_disk_read_bytes_total') // 0;
    $server->signal('KILL');
    $server->wait_for_end;
    $count{kills}++;
    waitpid $_, 0 for @clients;
    for my $c (1 .. 3) {
        my $found = decode_json(LlmServer::read_file("$state/client-$c"));
        $count{$_} += $found->{$_} for qw(answers hits);
        push @wrong, @{ $found->{wrong} };
    }
}
is_deeply \@wrong, [], "$count{kills} kills, $count{starting} more while it starts: each of $count{answers} answers is right, $count{hits} of them from a cache";
cmp_ok $count{hits}, '>', 0, '  and beginnings were found';
cmp_ok $count{read}, '>', 0, '  on disk, too' if $count{kills} > 20;
Campaign::figure(%count);
done_testing;
