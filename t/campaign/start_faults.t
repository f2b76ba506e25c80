#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Every allocation and every call of the system that a start makes fails once, in turn: the
# server either ends with a sentence, or it starts and serves as ever. It never crashes, hangs,
# or leaves memory behind. The suite takes some of them, by the dice.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use Faults;
use JSON::PP;
use List::Util qw(shuffle);
use LlmServer;
use Test::More;
use Time::HiRes qw(sleep time);

if (my ($why) = Faults::missing()) { plan skip_all => $why }
my $end    = Campaign::begin;
my $demo   = LlmServer::source('share/demo-model');
my $faults = Faults->new;
my $state  = File::Temp->newdir;

sub ini {
    my $has_state = -e LlmServer::built('core/batch/store.lo');
    return "decisions = $state/decisions\n" . ($has_state ? "state = $state\n" : '') . "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n"
      . "[cache]\ndevice_memory = 8MiB\n[plugins]\nscheduler = sarathi\ncache = tiered\n";
}
my $ask = { prompt => 'Once upon a time', max_tokens => 8, temperature => 0 };
sub answer_of { my ($server) = @_; return $server->post('/v1/completions', $ask)->{json}{choices}[0]{text} }

# Serving; the line that says so may itself be what is lost, which the log says a second later.
my $ready = qr{(?|listening on http://([\w.:]+)|until then http://([\w.:]+) answers(?=.*seccomp.*lines are missing here))}s;

# A start under what the faults say, to its end: undef as server where it did not come up.
sub start {
    my ($kind) = @_;
    $faults->forget_live;
    my $server = eval { local $SIG{ALRM} = sub { die "no end\n" }; alarm $LlmServer::TIMEOUT; LlmServer->serve(ini(), $ready, $faults->launcher) };
    my $log = $@;
    alarm 0;
    my $status = $server ? undef : $?;
    $faults->off if $server;
    return ($server, $status, $log);
}

my ($wanted, $most_live);
sub places {
    my ($kind) = @_;
    $faults->record($kind);
    my ($server, undef, $log) = start();
    die "no start: $log" if !$server;
    my @places = $faults->places;
    $wanted //= answer_of($server);
    is $server->stop, 0, "$Faults::NAME{$kind}: a start comes by " . @places . ' places';
    $most_live = $faults->live if !defined $most_live || $faults->live > $most_live;
    return map { [$kind, $_] } @places;
}

# Returns what went wrong, or nothing, and counts.
my %count = (served => 0, refused => 0, passed => 0);
my %left;
sub try_place {
    my ($kind, $place) = @_;
    $faults->fail($kind, $place);
    my ($server, $status, $log) = start();
    my $name = Faults::name($kind, $place);
    if (!$faults->failed) { $count{passed}++ }
    if (!$server) {
        return "$name: no end: $log" if $log =~ /\Ano end/;
        # libuv ends the process itself where its first pipe or its table of watchers cannot be had
        if (($status & 127) == 6 && $log =~ /\babort\+[^\n]*\n[^\n]*libuv\.so/) { $count{"libuv's own end"}++; return }
        return "$name: killed by signal " . ($status & 127) . ": $log" if $status & 127;
        return "$name: status " . ($status >> 8) . ": $log" if ($status >> 8) != 1 && ($status >> 8) != 2;
        $log =~ s/\Allmserve did not start:\n//;
        my ($last) = $log =~ /([^\n]+)\n*\z/;
        return "$name: no sentence: $log" if !defined $last || $last !~ /\w+ \w+/ || $last =~ /\(null\)| info /;
        $count{refused}++;
        my $live = $faults->live;
        $left{$live}++;
        return "$name: $live blocks left, not at most $most_live: $log" if $live > $most_live;
        Faults::show($name, $log);
        return;
    }
    my $text = answer_of($server) // 'no answer';
    $log = $server->log;
    $status = $server->stop;
    $count{served}++;
    return "$name: another answer: $text: $log" if $text ne $wanted;
    return "$name: status $status: $log" . $server->log if $status ne '0';
    return "$name: " . $faults->live . " blocks left, not at most $most_live: $log" if $faults->live > $most_live;
    return;
}

my @all = map { places($_) } Faults::ALLOC, Faults::IO, Faults::SHORT;
@all = Faults::chosen() ? Faults::chosen() : shuffle(Faults::part(@all));
my $n   = 0;
my @wrong;
for my $place (@all) {
    last if !Campaign::goes_on($end) && $n >= 8;
    push @wrong, try_place(@$place);
    $n++;
}
is_deeply \@wrong, [], "$n starts, a fault each: $count{refused} ended with a sentence, $count{served} served";
cmp_ok $count{refused}, '>', 0, 'some did end';
Campaign::figure(places => scalar @all, tried => $n, 'ended with a sentence' => $count{refused}, served => $count{served}, 'not come by' => $count{passed});
done_testing;
