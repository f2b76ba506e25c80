#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [server] autopilot. First the rule alone. Then the rule with traffic that changes from chat to
# long prompts to bursts, served by a simulated device that is slower than the one llmserve-whatif
# assumes. At the end each kind of traffic is served within a tenth of the best fixed configuration,
# and never more than one change is made for it. Last, a server with autopilot on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api", "$FindBin::Bin/../sim";
use IPC::Open2;
use JSON::PP;
use List::Util qw(max min sum);
use LlmServer;
use Sim;
use Test::More;

# ---- the rule --------------------------------------------------------------------------------
my ($from, $to);
sub begin { close $to if $to; open2($from, $to, "$Sim::build/t/tools/autopilot_rounds"); $to->autoflush(1); return }
sub announce { my @round = @_; print {$to} "@round\n"; chomp(my $act = <$from>); return $act }
sub rounds { my ($n, @round) = @_; return join ' ', map { announce(@round) } 1 .. $n }

begin();
is rounds(2, 'rr', .1, 0, 100, 90, 'nan'), 'stay stay', 'best twice is no reason';
is rounds(1, '-', .1, 0, 100, 90, 'nan'), 'stay', '  nor if nobody is best in between';
is rounds(3, 'rr', .1, 0, 100, 90, 'nan'), 'stay stay change', '  three times in a row are';
is rounds(1, '-', .1, 0, 80, 70, 90), 'stay', '  and better it stays';
is rounds(3, 'rr', .1, 0, 100, 90, 'nan'), 'stay stay change', 'a change';
is rounds(1, '-', .1, 0, 200, 180, 200), 'stay', '  under which the traffic is heavier, as for what ran before';
is rounds(3, 'rr', .1, 0, 100, 90, 'nan'), 'stay stay change', 'a change';
is rounds(1, '-', .1, 0, 200, 70, 90), 'back', '  after which it serves worse, but for the simulation';
is rounds(8, 'rr', .1, 0, 100, 90, 'nan'), join(' ', ('stay') x 8), '  is not made again for 8 rounds,';
is rounds(2, 'rr', .1, 0, 100, 90, 'nan'), 'stay change', '  the one in which the bar falls being the first that counts';
is rounds(1, '-', .1, 0, 200, 70, 'nan'), 'back', '    and worse than before is enough where the other is not known';
is rounds(16, 'rr', .1, 0, 100, 90, 'nan'), join(' ', ('stay') x 16), '  then for 16';
is rounds(3, 'fcfs', .1, 1, 10, 9, 'nan'), 'stay stay change', 'where more is better';
is rounds(1, '-', .1, 1, 8, 9, 10), 'back', '  less is worse';

# ---- traffic that changes ----------------------------------------------------------------------
my $believed = profile('ten.ini');
my $real     = write_file('real.ini', read_file($believed) =~ s/^step = 10ms$/step = 10.5ms/mr);
isnt read_file($real), read_file($believed), 'what serves is slower than is believed';
my $ini = write_file('sim.ini', "[model]\npath = $source/t/data/models/stories260K\n[engine]\nmax_sequences = 1\n");
my @policies = qw(fcfs mlfq);

# Requests [arrival in ms, prompt, answer] of a round; round n of a kind has its own.
srand 20261123;
my %kinds = (
    chat   => sub { map { [$_ * 800 + int rand 300, 20 + int rand 40, $_ % 7 == 3 ? 300 : 20 + int rand 20] } 0 .. 39 },
    long   => sub { map { [int($_ / 4) * 3200 + $_ % 4, 380 + int rand 20, 60] } 0 .. 39 },
    bursts => sub { map { [int($_ / 8) * 3000 + $_ % 8, 30, $_ % 8 == 0 ? 200 : 10 + int rand 20] } 0 .. 39 },
);
sub log_of {
    my @requests = @_;
    my $n = 0;
    return write_file('round', "H 2 fcfs paged none engine.max_sequences=1\n"
      . join('', map { $n++; "A $n " . $_->[0] * 1_000_000 . " $_->[1] $_->[2] 0 0 0 -1 -1 -1 -1\n" } @requests)
      . join('', map { "E $_ $requests[$_ - 1][2] 2\n" } 1 .. @requests));
}
sub latency {
    my ($trace, $device, $policy) = @_;
    return simulate('-c', $ini, '--profile', $device, '--trace', $trace, '--dataset-name', 'decisions', '--set', "plugins.scheduler=$policy")->{mean_e2el_ms};
}

# Not with a sanitizer, where a simulation takes ten times as long and is what t/sim has seen.
begin();
my ($runs, $ran, $changes) = ('fcfs', 'fcfs', 0);
my @flown_kinds = LlmServer::sanitized() ? () : qw(chat long bursts);
for my $kind (@flown_kinds) {
    my (%served, @flown);
    my $before = $changes;
    for my $round (1 .. 8) {
        my $trace  = log_of($kinds{$kind}->());
        my %sim    = map { $_ => latency($trace, $believed, $_) } @policies;
        my %is     = map { $_ => latency($trace, $real, $_) } @policies;
        my $margin = abs($sim{$runs} / $is{$runs} - 1);
        my ($best) = sort { $sim{$a} <=> $sim{$b} } @policies;
        my $told   = $sim{$best} < $sim{$runs} * (1 - $margin) ? $best : '-';
        if ($round > 5) { push @{ $served{$_} }, $is{$_} for @policies; push @flown, $is{$runs} }
        my $act = announce($told, $margin, 0, $is{$runs}, $sim{$runs}, $sim{$ran});
        $changes++ if $act ne 'stay';
        ($ran, $runs) = ($runs, $act eq 'change' ? $best : $ran) if $act ne 'stay';
    }
    my $best = min map { sum @{ $served{$_} } } @policies;
    cmp_ok sum(@flown), '<=', 1.1 * $best, "$kind: within a tenth of the best fixed one, with $runs";
    diag sprintf '%s: %s %.0f, %s', $kind, $runs, sum(@flown), join ' ', map { "$_ " . int sum @{ $served{$_} } } @policies;
    cmp_ok $changes - $before, '<=', 1, '  with at most one change';
}
cmp_ok $changes, '>=', 2, 'there was reason to change at all' if @flown_kinds;
close $to;

# ---- a server that flies by itself -------------------------------------------------------------
# One request at a time, a long answer before short ones: whoever takes turns is best. The profile is
# made of what was served, so that the simulation is not far off.
my $model  = "$source/t/data/models/stories260K";
my $server = LlmServer->serve("history = 3s\nautopilot = on\nautopilot_policies = fcfs, mlfq, mlfq:quanta=1\nautopilot_objective = latency\n"
    . "[model]\npath = $model\n[engine]\nthreads = 1\npin = false\nmax_sequences = 1\nprofile = $believed\n[plugins]\nscheduler = fcfs\n");
ok $server->log_becomes(qr/autopilot: /), 'a server with an autopilot asks by itself';
my $named = qr/autopilot_policies: mlfq quanta=1 is never chosen: .*unknown key 'quanta'/;
for (1 .. 300) { last if $server->log =~ $named; $server->post('/v1/completions', { prompt => 'Once', max_tokens => 20 }); select undef, undef, undef, .3 }
like $server->log, $named, '  and says which of its candidates cannot be';
is $server->post('/admin/whatif', { policies => ['fcfs'] })->{status} =~ s/409/202/r, 202, 'anybody may ask, one at a time';
my $state;
for (1 .. 300) { $state = decode_json($server->get('/admin/whatif')->{content}); last if $state->{state} ne 'running'; select undef, undef, undef, .1 }
like $state->{state}, qr/\A(?:failed|done|none)\z/, '  and it ends';
is $server->post('/admin/whatif', { policies => 'apt' })->{status}, 400, 'a question that is none';
is $server->post('/admin/whatif', { policies => ['a+b+c+d'] })->{status}, 400, '  nor this';
is $server->post('/admin/whatif', { goodput => { ttft => 'soon' } })->{status}, 400, '  nor this';
is $server->request('DELETE', '/admin/whatif')->{status}, 200, 'a question can be given up';
is $server->stop, 0, 'it ends well, whatever is being asked';

my ($status, undef, $why) = run('llmserve', '--check-config', '-c', write_file('bare.ini', "[server]\nautopilot = on\n[model]\npath = $model\n"));
isnt $status, 0, 'an autopilot wants candidates';
like $why, qr/\[server\] autopilot: autopilot_policies is to name/, '  and says so';
for (['apt+', q('apt+': a part is empty)], ['a+b+c+d+e', 'more than four parts'], ['fcfs, sarathi:chunk=9..1', q(found 'chunk=9..1')],
    ['sarathi:chunk=1..1000', 'more than 256 candidates'], ['fcfs, mlqf', q(the nearest is 'mlfq')], ['fcfs+none.so', q(no cache 'none.so')]) {
    my ($policies, $what) = @$_;
    ($status, undef, $why) = run('llmserve', '--check-config', '-c', write_file('wrong.ini', "[server]\nautopilot_policies = $policies\n[model]\npath = $model\n"));
    isnt $status, 0, "  and none of this form: $policies";
    like $why, qr/wrong\.ini:2: \[server\] autopilot_policies: .*\Q$what\E/, '    with line and reason';
}
my $wrong = sub { run('llmserve', '--check-config', '-c', write_file('wrong.ini', "[server]\nautopilot_objective = $_[0]\n[model]\npath = $model\n")) };
($status, undef, $why) = $wrong->('latencies');
isnt $status, 0, 'an objective that there is not is refused';
like $why, qr/wrong\.ini:2: \[server\] autopilot_objective: expected one of auto, goodput, .*, met; found 'latencies'/, '  with line and reason';
is +($wrong->($_))[0], 0, "  and $_ is one" for qw(auto met ttft_p99);
done_testing;
