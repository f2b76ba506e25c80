#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Every allocation and every call of the system that a reload makes fails once, in turn, in one
# server under a streaming client: the reload is refused with a sentence and all stays as it
# was, or it is done. No answer changes, no memory, descriptor or thread is left behind, and
# the next reload works. The suite takes some of them, by the dice.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use Faults;
use JSON::PP;
use List::Util qw(shuffle);
use LlmServer;
use Streams;
use Test::More;
use Time::HiRes qw(sleep time);

if (my ($why) = Faults::missing()) { plan skip_all => $why }
my $end    = Campaign::begin;
my $demo   = LlmServer::source('share/demo-model');
my $faults = Faults->new;
my $base   = "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\nhost_memory = 8MiB\n";
my %ini    = (
    first  => "${base}[plugins]\nscheduler = sarathi\ncache = tiered\npredictor = none\n",
    second => "max_choices = 2\n${base}[plugins]\nscheduler = mlfq\ncache = hybrid\npredictor = fixed\n[predictor.fixed]\nlength = 20\n",
);
my $server  = LlmServer->serve($ini{first}, undef, $faults->launcher);
my $streams = Streams->new($server, clients => 1, tokens => 400, prompts => [[1, 403, 407]]);
my %count   = (done => 0, refused => 0);
my %come; # how often each place was come by
$streams->learn;

sub status { return decode_json($server->get('/admin/status')->{content}) }
sub plugins { my $p = status()->{plugins}; return join ' ', map { $p->{$_}{name} } qw(scheduler cache predictor) }
# The line that says it may itself be what is lost, which the log says with its next one.
my $outcome = qr/ (?:reload: ((?:generation \d+:|refused,)[^\n]*)|log: (\d+) lines are missing)/;
sub outcomes { my $log = $server->log; my $n = () = $log =~ /$outcome/g; return $n / 2 }

# By signal, so that nothing fails that only the asking needs; the line that says what came. `was` is at work.
sub reload {
    my ($ini, $was) = @_;
    my $before = outcomes();
    my $until  = time + $LlmServer::TIMEOUT;
    $server->configure($ini);
    $server->signal('HUP');
    while (outcomes() == $before) {
        return 'no end within the time' if time > $until;
        return 'the server has ended'   if waitpid($server->{pid}, POSIX::WNOHANG()) != 0;
        $streams->ask if !%{ $streams->{live} };
        $streams->pump(0.001);
    }
    $faults->off;
    my ($line, $missing) = ($server->log =~ /$outcome/g)[-2, -1];
    return $line if !defined $missing;
    return plugins() eq ($was // '') ? 'refused, and its line was lost' : 'generation of which the line was lost: ' . plugins();
}

# The blocks, descriptors and threads of a quiet process.
sub holds {
    my $pid = $server->{pid};
    my $fds = () = glob "/proc/$pid/fd/*";
    my ($threads) = LlmServer::read_file("/proc/$pid/status") =~ /^Threads:\s+(\d+)/m;
    return [$faults->live, $fds, $threads];
}

sub calm { my ($until) = (time + 0.01); $streams->run(sub { time >= $until }); return }

# With another ini and back, without faults; the state is the first one after.
sub there_and_back {
    for my $which (qw(second first)) {
        my $line = reload($ini{$which});
        return "a reload without faults: $line" if $line !~ /\Ageneration/;
    }
    return;
}

sub try_place {
    my ($kind, $place) = @_;
    my $name = Faults::name($kind, $place);
    my $was  = plugins();
    $faults->fail($kind, $place);
    my $line = reload($ini{second}, $was);
    return "$name: $line\n" . Faults::end_of($server->log) if $line !~ /\A(?:generation|refused)/;
    $come{$name} += $faults->failed ? 1 : 0;
    my $refused = $line =~ /\Arefused/;
    $count{ $refused ? 'refused' : 'done' }++;
    Faults::show($name, Faults::end_of($server->log));
    return "$name: no sentence: $line" if $line !~ /: \S+ \S+|line was lost/ || $line =~ /\(null\)/;
    my $now = plugins();
    return "$name: $line, but $now is at work" if $refused != ($now eq $was);
    my $wrong = there_and_back();
    return "$name: after it, $wrong" if defined $wrong;
    return;
}

# The streaming client's memory comes and goes: a leak is what grows with every turn.
sub leaks_at {
    my (@place) = @_;
    my @seen;
    for (1 .. 4) { try_place(@place); $streams->finish; sleep 0.02; push @seen, holds() }
    for my $what (0 .. 2) {
        my @grown = grep { $seen[$_][$what] > $seen[ $_ - 1 ][$what] } 1 .. $#seen;
        return join ' ', map { $_->[$what] } @seen if @grown == $#seen;
    }
    return;
}

there_and_back() for 1 .. 2;
my @all;
for my $kind (Faults::ALLOC, Faults::IO, Faults::SHORT) {
    my %seen;
    for (1 .. 3) {
        $faults->record($kind);
        reload($ini{second});
        $seen{$_}++ for $faults->places;
        reload($ini{first});
    }
    # what comes each time is of the reload, and is at the same place the next time
    my @places = grep { $seen{$_} == 3 } sort { $a <=> $b } keys %seen;
    ok @places > 3, "$Faults::NAME{$kind}: a reload comes by " . @places . ' places, and in some runs by ' . (keys(%seen) - @places) . ' more';
    push @all, map { [$kind, $_] } @places;
}
@all = Faults::chosen() ? Faults::chosen() : shuffle(Faults::part(@all));
my (@wrong, $n);
for my $place (@all) {
    last if !Campaign::goes_on($end) && ($n // 0) >= 8;
    $n++;
    my $wrong = try_place(@$place);
    my $grown = defined $wrong ? undef : eval { $n % 5 == 0 || $ENV{LLS_CAMPAIGN_SECONDS} || Faults::chosen() ? leaks_at(@$place) : undef };
    push @wrong, $wrong // Faults::name(@$place) . " grows: $grown" if defined $wrong || defined $grown;
    last if defined $wrong && $wrong =~ /has ended|no end/;
}
is_deeply \@wrong, [], "$n reloads, a fault each: $count{refused} refused, $count{done} done";
cmp_ok $count{refused}, '>', 0, 'some were refused';
my @never = grep { !$come{$_} } sort keys %come;
Test::More::diag("never come by: @never") if @never;
$streams->finish;
# what fails may be the client's own: it is cut off then, and sees that it was
my @other = grep { !/ stopped: / } @{ $streams->{wrong} };
is_deeply \@other, [], "$streams->{done} answers meanwhile, all as ever but for " . (@{ $streams->{wrong} } - @other) . ' that were cut off';
is $server->stop, 0, 'the server ends well';
Campaign::figure(places => scalar @all, tried => $n, refused => $count{refused}, done => $count{done}, 'never come by' => scalar @never, answers => $streams->{done});
done_testing;
