#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A mixed load for as long as there is: streams, whole answers, chats, wrong requests, clients that
# leave and reloads. After the first quarter, in which caches fill, memory, descriptors, threads and
# mappings stay as they are, and the gaps between tokens at the end are not longer than in the
# middle. It is looked at by quarters, an hour by ten minutes. The suite has moments of it, which
# show that it works and no more. LLS_SOAK_SHARE=0.33: server and clients take no more than that
# of one core, for an hour beside others. A process that only sleeps says what the machine adds to
# any gap: where its wake-ups come later too, longer gaps say nothing about the server.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use IO::File;
use List::Util qw(max);
use LlmServer;
use Streams;
use Test::More;
use Time::HiRes qw(sleep time);

my $end    = Campaign::begin;
my $begin  = time;
my $demo   = Campaign::model();
my $ini    = "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 16MiB\nhost_memory = 8MiB\n[plugins]\n";
my @kinds  = ("scheduler = sarathi\ncache = paged\n", "scheduler = mlfq\ncache = tiered\n", "scheduler = vtc\ncache = hybrid\n", "scheduler = fcfs\ncache = bidirectional\n");
my $server = LlmServer->serve($ini . $kinds[0]);
my $streams = Streams->new($server, clients => 4, tokens => Campaign::least(60, 16), prompts => [map { my $n = $_; [map { 3 + ($_ * 37 + $n * 11) % 500 } 1 .. 10 + 7 * $n] } 1 .. 8]);
$streams->learn;

sub holds {
    my $pid  = $server->{pid};
    my $text = LlmServer::read_file("/proc/$pid/status");
    my %now;
    @now{qw(threads rss)} = map { $text =~ /^$_:\s+(\d+)/m } qw(Threads VmRSS);
    $now{fds}  = () = glob "/proc/$pid/fd/*";
    $now{maps} = () = LlmServer::read_file("/proc/$pid/maps") =~ /\n/g;
    return \%now;
}

my %count = (reloads => 0, wrong => 0, left => 0, whole => 0);
my @others = (
    sub { $count{wrong}++; $server->post('/v1/completions', '{"prompt": ')->{status} == 400 },
    sub { $count{wrong}++; $server->get('/nothing')->{status} == 404 },
    sub { $count{left}++; my $s = $server->connect; syswrite $s, LlmServer::raw_post('/v1/completions', '{"prompt":"Once","max_tokens":300,"stream":true}', 'Content-Type: application/json'); close $s },
    sub { $count{whole}++; $server->post('/v1/completions', { prompt => 'Once upon', max_tokens => 5 })->{status} == 200 },
    sub { $count{whole}++; $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'List five animals.' }], max_tokens => 5 })->{status} == 200 },
    sub { $count{reloads}++; $server->configure($ini . $kinds[$count{reloads} % @kinds]); $server->signal('HUP'); 1 },
);

# Server and clients took so much of one core since the last part began.
my $share = $ENV{LLS_SOAK_SHARE} // 2;
my ($since, $taken_before) = ($begin, 0);
sub taken {
    my ($mine, $system) = times;
    my ($user, $kernel) = (split ' ', LlmServer::read_file("/proc/$server->{pid}/stat"))[13, 14];
    return $mine + $system + ($user + $kernel) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}
sub share { return (taken() - $taken_before) / (time - $since) }

# No new requests until the share is kept; streams come to their ends meanwhile.
sub rest {
    while ($share < 1 && time < $end && share() > $share) {
        %{ $streams->{live} } ? $streams->pump(0.05) : sleep 0.05;
    }
    return;
}

# Sleeps 10 ms again and again, until its parent is gone, and writes how many ms it woke up late.
sub sleeper {
    my ($delays) = @_;
    my $parent = getppid;
    my $out = IO::File->new($delays, '>') // POSIX::_exit(1);
    $out->autoflush;
    while (getppid == $parent) {
        my $before = time;
        sleep 0.01;
        printf {$out} "%.2f\n", 1000 * (time - $before) - 10;
    }
    POSIX::_exit(0);
}
my $delays = "$server->{folder}/delays";
my $sleeper = fork // die "fork: $!";
sleeper($delays) if $sleeper == 0;

# Its delays since the last part.
my $read = 0;
sub woke_late {
    my $in = IO::File->new($delays, '<') // return (0);
    seek $in, $read, 0;
    my @late = <$in>;
    $read = tell $in;
    return map { $_ + 0 } @late;
}
sub p99 { my @sorted = sort { $a <=> $b } @_; return @sorted ? $sorted[0.99 * $#sorted] : 0 }

# Gaps and what is held, by parts of the time, and what else the machine had to do.
my $parts = max 4, int(($end - $begin) / 600 + 0.5);
my (@gaps, @late, @minutes, @held, @wrong, @shares, @loads);
for my $part (0 .. $parts - 1) {
    my $until = $begin + ($end - $begin) * ($part + 1) / $parts;
    @{ $streams->{gaps} } = ();
    ($since, $taken_before) = (time, taken());
    my ($minute, $first) = (time + 60, 0);
    do {
        my $i = int rand @others;
        push @wrong, "request $i was not answered as it should" if !$others[$i]->();
        my $soon = time + 0.1;
        $streams->run(sub { time >= $soon });
        push @{ $held[$part] }, holds();
        rest();
        if (time >= $minute) {
            push @{ $minutes[$part] }, 1000 * p99(@{ $streams->{gaps} }[$first .. $#{ $streams->{gaps} }]);
            ($minute, $first) = ($minute + 60, scalar @{ $streams->{gaps} });
        }
    } while time < $until;
    $gaps[$part] = 1000 * p99(@{ $streams->{gaps} });
    $late[$part] = p99(woke_late());
    $shares[$part] = sprintf '%.2f', share();
    ($loads[$part]) = LlmServer::read_file('/proc/loadavg') =~ /^\S+ \S+ (\S+)/;
    diag "part $part: p99 of gaps $gaps[$part] ms (by minutes ", join(' ', map { sprintf '%.1f', $_ } @{ $minutes[$part] // [] }), "), of a sleeper $late[$part] ms, ", join ' ', map { "$_ " . most($part, $_) } qw(rss fds threads maps) if $ENV{LLS_CAMPAIGN_SECONDS};
}
$streams->finish;
kill 'TERM', $sleeper;
waitpid $sleeper, 0;
sub most { my ($part, $what) = @_; return max map { $_->{$what} } @{ $held[$part] } }
# A reload at work has a thread, files and mappings more: whether the most of a part has them is luck.
sub usual { my ($part, $what) = @_; my @sorted = sort { $a <=> $b } map { $_->{$what} } @{ $held[$part] }; return $sorted[ $#sorted / 2 ] }

is_deeply [@wrong, @{ $streams->{wrong} }], [], "$streams->{done} streams, $count{whole} whole answers, $count{reloads} reloads, $count{left} clients that left: all as ever";
# A part of moments is looked at but once.
cmp_ok usual($parts - 1, $_), '<=', usual(1, $_) + 4, "no more $_ at the end" for qw(threads fds);
SKIP: {
    skip 'memory and gaps are for runs of minutes', 3 if $end - $begin < 60;
    cmp_ok usual($parts - 1, 'maps'), '<=', usual(1, 'maps') + 10, 'no more maps';
    cmp_ok most($parts - 1, 'rss'), '<=', most(1, 'rss') * 1.05 + 2048, 'no more memory';
    cmp_ok $gaps[-1], '<=', 1.5 * max(@gaps[0 .. $parts - 2]), 'gaps are not longer';
}
is $server->stop, 0, 'the server ends well';
Campaign::figure(streams => $streams->{done}, %count, map { my $what = $_; ("$what by parts" => join ' ', map { usual($_, $what) . '-' . most($_, $what) } 0 .. $parts - 1) } qw(rss fds threads maps));
Campaign::figure('p99 of gaps by parts' => join(' ', map { sprintf '%.2f ms', $_ } @gaps), 'of a sleeper late' => join(' ', map { sprintf '%.2f ms', $_ } @late), 'of a core' => "@shares", 'load of the machine' => "@loads");
done_testing;
