#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Days of traffic in the simulator, which is the daemon's own step loop: triples of policies by the
# dice, each for 24 h of bursts from tenants of all classes. Every request ends, no plan is refused,
# the same day gives the same bytes, and no step leaves memory behind.
use strict;
use warnings;
use FindBin;
use lib ($FindBin::Bin, "$FindBin::Bin/../api", "$FindBin::Bin/../sim");
use Campaign;
use JSON::PP;
use Sim;
use Storm;
use Test::More;
use Time::HiRes qw(sleep);

my $end = Campaign::begin;
my @triples = Storm::triples();
# KiB: a report keeps each gap; some hundred bytes a step would be more. A sanitizer keeps what is freed.
my $room = LlmServer::sanitized() ? 9**9 : 32768;
my ($days, $requests, $steps, @wrong) = (0, 0, 0);

# The most memory that a run of so many hours had, in KiB; ends with status 0 or says why not.
sub simulate_hours {
    my ($hours, $json, $triple, $seed) = @_;
    my $ini = write_file('day.ini', "$triple\[engine]\nmax_context = 2048\n" . ($triple =~ /distserve/ ? "roles = prefill, decode\n" : '') . "[cache]\ndevice_memory = 8GiB\nhost_memory = 4GiB\n[predictor.fixed]\nlength = 100\n");
    my @command = ("$Sim::build/llmserve-sim", '--quiet', '-c', $ini, '--model', 'opt-13b', '--profile', 'a100-80g', '--dataset-name', 'random',
        '--random-input-len', 200, '--random-output-len', 100, '--random-range-ratio', 0.9, '--num-prompts', 90 * $hours, '--request-rate', 90 / 3600,
        '--burstiness', 0.2, '--tenants', 20, '--tenant-skew', 1, '--realtime-share', 0.3, '--best-effort-share', 0.5, '--slo-ttft', '2s', '--seed', $seed, '--json', $json);
    push @command, '--set', 'predictor.retrieval.async=off' if $triple =~ /retrieval/;
    my $most = 0;
    my $pid = fork // die $!;
    if ($pid == 0) { open STDOUT, '>', '/dev/null'; open STDERR, '>', "$folder/day.err"; exec @command or POSIX::_exit(127) }
    while (waitpid($pid, POSIX::WNOHANG()) == 0) {
        my ($now) = (LlmServer::read_file("/proc/$pid/status")) =~ /^VmHWM:\s+(\d+)/m;
        $most = $now if ($now // 0) > $most;
        sleep 0.005;
    }
    push @wrong, "$triple seed $seed: status $?: " . LlmServer::read_file("$folder/day.err") if $? != 0;
    return $most;
}

my ($before, $after) = (0, 0);
while (!@wrong && ($days == 0 || Campaign::goes_on($end))) {
    my ($triple, $seed) = ($triples[rand @triples], int rand 1e6);
    my $hour = LlmServer::sanitized() ? 0 : simulate_hours(6, "$folder/hours.json", $triple, $seed);
    my $day  = simulate_hours(24, "$folder/day.json", $triple, $seed);
    last if @wrong;
    my $text   = read_file("$folder/day.json");
    my $report = decode_json($text);
    push @wrong, "$triple seed $seed: $report->{completed} of $report->{issued} are complete, $report->{failed} failed" if $report->{completed} != 90 * 24 || $report->{failed};
    push @wrong, "$triple seed $seed: $hour KiB in six hours, $day in a day" if $day > $hour + $room;
    ($before, $after) = ($hour, $day) if $day - $hour > $after - $before;
    $days++;
    $requests += $report->{completed};
    $steps += $report->{engine}{steps};
    if ($days % 5 == 1) {
        simulate_hours(24, "$folder/again.json", $triple, $seed);
        push @wrong, "$triple seed $seed: the same day is another" if read_file("$folder/again.json") ne $text;
    }
}
is_deeply \@wrong, [], "$days days: each of $requests requests ended, in $steps steps";
Campaign::figure(days => $days, requests => $requests, steps => $steps, 'most growth from 6 h to 24 h' => ($after - $before) . ' KiB');
done_testing;
