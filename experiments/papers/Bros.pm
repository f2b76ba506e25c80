# SPDX-License-Identifier: Apache-2.0
# The runs of experiments/papers/bros and bros-why: BROS's models, devices and lengths in the simulator, what a run's report
# says of real-time and best-effort requests, and means over seeds.
package Bros;
use strict;
use warnings;
no warnings 'qw'; # ranges of lengths have commas
use Exporter 'import';
use FindBin;
use JSON::PP;
use File::Temp qw(tempdir);
use Seeds qw(mean side_by_side first_seeds);
our @EXPORT = qw(%model %lengths %system setup seeds set report simulate capacity cases_of figures rate_at line head seeded fast_device);

my $root = "$FindBin::Bin/../..";
my $folder = tempdir(CLEANUP => 1);
my $seconds = $ENV{BROS_SECONDS} // 600;
my ($build, @seeds);

# Where llmserve-sim is, and of which seeds means are.
sub setup {
  ($build, @seeds) = @_;
  @seeds = first_seeds(@seeds);
  $ENV{LLS_PROFILE_PATH} //= "$root/etc/profiles";
  $ENV{LLS_PLUGIN_PATH} //= "$build/.libs";
}

sub seeds { return @seeds }

our %model = ('opt-13b' => [2, 'a100-40g'], 'opt-30b' => [4, 'a100-40g'], 'llama-3-70b' => [8, 'a100-80g']); # devices, profile
our %lengths = (
  ShareGPT => ['lognormal:222.76,256.36,4..2000', 'lognormal:234.51,268.50,4..2000'],
  LMSYS => ['lognormal:90.50,148.52,4..2000', 'lognormal:237.04,228.21,4..2000'],
);
sub set { return map { ('--set', $_) } @_ }
my @bros = ('bros', set('cache.host_memory=512GiB'));
our %system = (
  fcfs => ['fcfs'], rr => ['rr'], bros => [@bros],
  'no replace' => [@bros, set('scheduler.bros.replace=off')],
  'on paged' => ['bros', set(qw(plugins.cache=paged scheduler.bros.preempt=recompute))],
  preset => ['paper-bros', set('cache.host_memory=512GiB')], # as the paper has it
  'preset on paged' => ['paper-bros', set(qw(plugins.cache=paged scheduler.bros.preempt=recompute))],
);

# run: {system, model, data, rate, batch, seed, more, plans}; the report's text.
sub report {
  my %r = (model => 'opt-13b', data => 'ShareGPT', batch => 256, seed => 1, more => [], %{$_[0]});
  my ($policy, @settings) = @{$system{$r{system}}};
  my ($inputs, $outputs) = @{$lengths{$r{data}}};
  my $report = "$folder/$$.json";
  my @command = ("$build/llmserve-sim", '--quiet', '-c', "$root/etc/$policy.ini", '--model', $r{model},
    '--ranks', $model{$r{model}}[0], '--profile', $model{$r{model}}[1], qw(--dataset-name random --realtime-share 1),
    '--num-prompts', $r{prompts} // int($r{rate} * $seconds), '--request-rate', $r{rate}, '--seed', $r{seed},
    '--input-lengths', $inputs, '--output-lengths', $outputs, '--batch-size', $r{batch},
    qw(--max-total-len 2048 --slo-ttft 400ms --slo-tpot 200ms --slo-tbt 200ms --json), $report,
    set(qw(engine.max_context=2048 engine.max_sequences=1024)), @settings, @{$r{more}});
  push @command, '--measure-plans' if $r{plans};
  system(@command) == 0 or die "@command failed\n";
  open my $file, '<', $report or die "$report: $!\n";
  local $/;
  return <$file>;
}

sub simulate { return decode_json(report(@_)) }

# Real-time requests a second that a model's devices serve when all of them come at once, and nothing else does.
my %capacity;
sub capacity {
  my ($model, $data) = @_;
  return $capacity{"$model $data"} //= simulate({system => 'fcfs', model => $model, data => $data, batch => 0, rate => 1000,
      prompts => 2000, seed => 11})->{request_throughput};
}

# [model, rate] of all models at such parts of their capacity.
sub cases_of {
  my ($data, @parts) = @_;
  return map { my $name = $_; map { [$name, sprintf '%.3g', $_ * capacity($name, $data)] } @parts } sort keys %model;
}

# Real-time normalised latency (s a token), best-effort requests/s, attainment in percent.
sub figures {
  my $j = simulate($_[0]);
  my ($rt, $slo) = ($j->{by_class}{realtime}, $j->{slo_attainment_by_class}{realtime});
  my %f = (latency => $rt->{mean_normalised_latency_ms} / 1000,
    ttft => 100 * $slo->{ttft}, tpot => 100 * $slo->{tpot}, token => 100 * $slo->{tokens},
    be => ($j->{by_class}{best_effort} // {})->{request_throughput} // 0,
    rt => $rt->{request_throughput}, step => $j->{engine}{mean_step_ms},
    dropped => $j->{engine}{preemptions_recompute} + $j->{engine}{preemptions_swap});
  $f{$_} = $j->{engine}{$_} // 0 for qw(mean_plan_us p99_plan_us plan_share);
  return \%f;
}

# The rate of [rate, latency] points, latency rising, at which a latency is reached; undef: outside.
sub rate_at {
  my ($latency, @points) = @_;
  for my $i (1 .. $#points) {
    my ($a, $b) = @points[$i - 1, $i];
    return $a->[0] + ($latency - $a->[1]) / ($b->[1] - $a->[1]) * ($b->[0] - $a->[0]) if $a->[1] <= $latency && $latency < $b->[1];
  }
  return undef;
}

sub line {
  my ($name, $f) = @_;
  printf "%-34s %8.3f %7.2f %7.1f %7.1f %7.1f %8d\n", $name, @$f{qw(latency be ttft tpot token dropped)};
}

sub head {
  printf "%s\n%-34s %8s %7s %7s %7s %7s %8s\n", $_[0], '', 's/token', 'BE/s', 'TTFT %', 'TPOT %', 'tokens%',
    'dropped';
}

# Figures of each task for each seed, and their means.
sub seeded {
  my @tasks = @_;
  my @each = side_by_side(\&figures, map { my $t = $_; map { {%$t, seed => $_} } @seeds } @tasks);
  return map {
    my @of = @each[$_ * @seeds .. ($_ + 1) * @seeds - 1];
    my %mean = map { my $key = $_; ($key => mean(map { $_->{$key} } @of)) } keys %{$of[0]};
    +{%mean, each => \@of};
  } 0 .. $#tasks;
}

# A profile as today's kernels and serving code have it: a100-40g has 48 % of the bandwidth and 160 us a sequence, kernels and serving code of 2023.
sub fast_device {
  my ($name) = @_;
  open my $from, '<', "$root/etc/profiles/$name.ini" or die "$name: $!\n";
  open my $to, '>', "$folder/$name-fast.ini" or die "$name-fast: $!\n";
  while (my $line = <$from>) {
    $line =~ s/^cache = .*/cache = 0.7/;
    $line =~ s/^sequence = .*/sequence = 20us/;
    print $to $line;
  }
  close $to;
  return "$folder/$name-fast.ini";
}

1;
