#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Processes of a [cluster], each in a network namespace, are killed, stopped, cut off, told to leave and started again
# under 24 streaming clients, one fault after another: every answer is as without faults, and none is lost but those of
# a front end that is killed. By t/campaign/run alone, as root, since its figures are of times: for each fault and role of
# the process, how often, and the longest time without a token of any client until all processes were up again.
#
#   leave   SIGTERM, and another process joins       cut     nothing reaches it for six seconds
#   kill    SIGKILL, and another one joins           split   two processes do not reach each other for as long
#   stop    SIGSTOP for six seconds                  front   SIGKILL of the front end, which is started again
#   hang    SIGSTOP, or no network (far), for longer than rank_timeout: it is lost, and joins again
#
# LLS_GENERATIONS=N: that many rolling restarts of all processes but the front end, whose memory has to stay flat; LLS_ROLES='prefill, decode'
# one cluster instead of both; LLS_FAULTS='kill front' these alone, in turn.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use Cluster;
use List::Util qw(max);
use POSIX ();
use Spaces;
use Streams;
use Test::More;
use Time::HiRes qw(time);

use constant { CLIENTS => 24, TOKENS => 200, APART => 6, LONG => 80, PATIENCE => 240 };

my $missing = Cluster::missing() // Spaces::missing();
plan skip_all => $missing if defined $missing;
my $end   = Campaign::begin;
my $spaces = Spaces->new(1);
my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "admin-of-the-campaign\n");
chmod 0600, "$folder/keys";

# ---- a cluster -----------------------------------------------------------------------------
my ($front, @members, @roles, $streams, $ini);    # $members[$place]: a process, which may have another number

sub start {
    my ($place, $cluster, $said) = @_;
    my $server = LlmServer->serve("listen = @{[$spaces->address(0)]}:8080\nadmin_keys = $folder/keys\n$ini\n[cluster]\n$cluster = @{[$spaces->address(0)]}:7000\n" . ($place > 0 ? "role = $roles[$place]\n" : ''),
        $said // qr/()/, $spaces->within($place));
    $server->{http} = HTTP::Tiny->new(timeout => 10, keep_alive => 0, default_headers => { Authorization => 'Bearer admin-of-the-campaign' });
    return $server;
}

my ($asked, $states) = (0, '');

# The states, asked for ten times a second: the clients' tokens are not read meanwhile.
sub all_are {
    my ($state) = @_;
    if (time > $asked + 0.1) {
        $states = eval { Cluster::states($front) } // '';
        $asked = time;
    }
    return $states eq join ' ', ($state) x @roles;
}

# Runs the clients until it says so, or for too long.
sub until_that {
    my ($what, $is_so) = @_;
    my ($deadline, $so) = (time + PATIENCE, 0);
    $streams->run(sub { ($so = $is_so->()) || time > $deadline });
    fail("$what: not after @{[PATIENCE]} s; the states are $states") if !$so;
    return;
}

sub for_seconds { my ($s) = @_; my $until = time + $s; $streams->run(sub { time > $until }); return }

sub has_ended {
    my ($process) = @_;
    return 1 if defined $process->{status};
    return 0 if waitpid($process->{pid}, POSIX::WNOHANG()) == 0;
    $process->{status} = ($? & 127) ? 'signal ' . ($? & 127) : $? >> 8;
    return 1;
}

sub all_up { return until_that('all are up', sub { all_are('up') }) }

# ---- faults --------------------------------------------------------------------------------
sub count_left { return scalar(() = $front->log =~ /its process has left/g) }

# The front end says that it has left if it had finished what it had, and not at drain_timeout.
sub leave {
    my ($place) = @_;
    my $left = count_left();
    $members[$place]->signal('TERM');
    until_that('it has left', sub { has_ended($members[$place]) });
    is $members[$place]{status}, 0, 'a process that leaves ends well' if $members[$place]{status} ne '0';
    until_that('it has finished what it had', sub { count_left() > $left });
    $members[$place] = start($place, 'join');
    return;
}

sub kill_it {
    my ($place) = @_;
    $members[$place]->signal('KILL');
    for_seconds(1.5);
    until_that('it is dead', sub { has_ended($members[$place]) });
    $members[$place] = start($place, 'join');
    return;
}

sub stop_for {
    my ($place, $seconds) = @_;
    $members[$place]->signal('STOP');
    for_seconds($seconds);
    $members[$place]->signal('CONT');
    return;
}

sub cut_for {
    my ($place, $seconds) = @_;
    $spaces->cut($place);
    for_seconds($seconds);
    $spaces->heal($place);
    return;
}

sub split_for {
    my ($place, $seconds) = @_;
    my ($other) = grep { $_ != $place } 1 .. $#roles;
    $spaces->split(1, $place, $other);
    for_seconds($seconds);
    $spaces->split(0, $place, $other);
    return;
}

my $lost_with_front = 0;

# The answers that its clients lose are counted apart.
sub kill_front {
    my @before = @{ $streams->{wrong} };
    $front->signal('KILL');
    $front->wait_for_end;
    $streams->finish;
    my @new   = @{ $streams->{wrong} }[@before .. $#{ $streams->{wrong} }];
    my @wrong = grep { /has other tokens/ } @new;
    $lost_with_front += @new - @wrong;
    $streams->{wrong} = [@before, @wrong];
    $front = $streams->{server} = start(0, 'listen', qr{listening on http://([\w.:]+)});
    return;
}

my %faults = (
    leave => \&leave,
    kill  => \&kill_it,
    stop  => sub { stop_for($_[0], APART) },
    cut   => sub { cut_for($_[0], APART) },
    split => sub { split_for($_[0], APART) },
    hang  => sub { stop_for($_[0], LONG) },
    far   => sub { cut_for($_[0], LONG) },
    front => \&kill_front,
);

# ---- the campaign --------------------------------------------------------------------------
sub kib { my ($process) = @_; return LlmServer::read_file("/proc/$process->{pid}/status") =~ /^VmRSS:\s+(\d+)/m ? $1 : 0 }
sub files { my ($process) = @_; return scalar(() = glob "/proc/$process->{pid}/fd/*") }

my %gaps;

sub attack {
    my ($name, $place) = @_;
    $streams->{gaps} = [];
    $faults{$name}->($place);
    all_up();
    for_seconds(1);
    my $role = $name eq 'front' ? '' : " $roles[$place]";
    my $gap = max(0, @{ $streams->{gaps} }, map { time - $_->{last} } values %{ $streams->{live} });    # some still wait
    push @{ $gaps{"$name$role"} }, $gap;
    diag sprintf '%s%s: %.2f s, %d answers', $name, $role, $gap, $streams->{done} if $ENV{LLS_CAMPAIGN_SECONDS};
    return;
}

sub begin_cluster {
    my ($roles) = @_;
    @roles = split /,\s*/, $roles;
    $spaces->grow(scalar @roles);
    my $scheduler = $roles =~ /mixed/ ? 'sarathi' : 'distserve';
    $ini = '[model]' . "\npath = @{[Campaign::model()]}\n[engine]\nthreads = 1\npin = false\nroles = $roles\n[plugins]\nscheduler = $scheduler\n";
    $front = start(0, 'listen', qr/(other processes can join)/);
    @members = (undef, map { start($_, 'join') } 1 .. $#roles);
    $front->{address} = $spaces->address(0) . ':8080';
    my $deadline = time + PATIENCE;
    Time::HiRes::sleep(0.1) until all_are('up') || time > $deadline;
    BAIL_OUT("$roles: @{[PATIENCE]} s after their start they are '$states': " . $front->log) if !all_are('up');
    my @prompts = map { my $n = $_; [map { 3 + ($_ * 37 + $n * 11) % 500 } 1 .. 10 + 7 * $n] } 1 .. 8;
    $streams = Streams->new($front, clients => CLIENTS, tokens => TOKENS, prompts => \@prompts, from_ask => 1);
    $streams->learn;
    for_seconds(3);
    return;
}

sub memory {
    return map { kib($_) } $front, @members[1 .. $#members];
}

# The front end lives on. The others are of all ages, so that their largest counts; a tenth and 8 MiB more are the allocator's.
sub is_flat {
    my (@second) = @_;
    my @end = memory();
    my @pairs = ([shift @second, shift @end], [max(@second), max(@end)]);
    is_deeply [grep { $_->[1] > $_->[0] * 1.1 + 8192 } @pairs], [], 'memory is flat';
    Campaign::figure(generations => $ENV{LLS_GENERATIONS}, memory => join(' and ', map { "$_->[0] to $_->[1] KiB" } @pairs), longest => sprintf '%.2f s', max(map { @$_ } values %gaps));
    return;
}

sub figure_of {
    my ($name) = @_;
    my @sorted = sort { $a <=> $b } @{ $gaps{$name} };
    return ($name => sprintf('%d times %.2f s (median %.2f)', scalar(@sorted), $sorted[-1], $sorted[$#sorted / 2]));
}

sub end_cluster {
    my ($before, $restarts) = @_;
    $streams->finish;
    my @lost = grep { !/has other tokens/ } @{ $streams->{wrong} };
    my @wrong = grep { /has other tokens/ } @{ $streams->{wrong} };
    is_deeply \@wrong, [], "no answer differs, of $streams->{done}";
    is_deeply \@lost, [], '  and none is lost' . ($lost_with_front > 0 ? ", but $lost_with_front with a front end" : '');
    diag $front->log if @lost || @wrong;
    my @after = (kib($front), files($front));
    $_->signal('TERM') for @members[1 .. $#members];
    is $_->wait_for_end, 0, '  a process ends well' for @members[1 .. $#members];
    is $front->stop, 0, '  the front end ends well';
    Campaign::figure(roles => "@roles", answers => $streams->{done}, wrong => scalar(@wrong), lost => scalar(@lost), 'lost with a front end' => $lost_with_front,
        restarts => $restarts, 'front end' => "$before->[0] to $after[0] KiB, $before->[1] to $after[1] descriptors",
        (map { figure_of($_) } sort keys %gaps), load => (split ' ', LlmServer::read_file('/proc/loadavg'))[0]);
    %gaps = ();
    $lost_with_front = 0;
    return;
}

my @clusters = defined $ENV{LLS_ROLES} ? ($ENV{LLS_ROLES}) : ('mixed, mixed, mixed', 'prefill, prefill, decode, decode');
my @names = split ' ', $ENV{LLS_FAULTS} // 'leave kill stop cut split front';
for my $c (0 .. $#clusters) {
    begin_cluster($clusters[$c]);
    my $until = $end - ($#clusters - $c) * Campaign::seconds() / @clusters;
    my @before = (kib($front), files($front));
    for (my $i = 0; $i < @names || Campaign::goes_on($until); $i++) {
        my $name = $names[$i % @names];
        attack($name, 1 + ($i + int $i / @names) % $#roles);
        @before = (kib($front), files($front)) if $name eq 'front' || $i < @names;
    }
    my $generations = $ENV{LLS_GENERATIONS} // 0;
    my @second;
    for my $generation (1 .. $generations) {
        for my $place (1 .. $#roles) { attack('leave', $place) }
        @second = memory() if $generation == 2;
        diag sprintf 'generation %d: %d KiB, %d descriptors', $generation, kib($front), files($front) if $generation % 10 == 0;
    }
    is_flat(@second) if $generations > 2;
    end_cluster(\@before, $generations * $#roles);
}
done_testing;
