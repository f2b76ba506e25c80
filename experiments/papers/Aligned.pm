# SPDX-License-Identifier: Apache-2.0
# The runs of experiments/papers/aligned and aligned-why: AlignedServe's systems, models, device and loads in the simulator,
# and a table of systems over one load, seed by seed. What the device and the loads are is said in experiments/papers/aligned.
package Aligned;
use strict;
use warnings;
no warnings 'qw'; # ranges of lengths have commas
use Exporter 'import';
use FindBin;
use JSON::PP;
use File::Temp qw(tempdir);
use Seeds qw(mean plus_minus ratios lists_side_by_side first_seeds);
our @EXPORT = qw(%heads %lengths %systems setup seeds with split_of on write_rows simulate figures capacity overload table judge);

my $root = "$FindBin::Bin/../..";
my $folder = tempdir(CLEANUP => 1);
my ($build, $requests, @seeds); # requests of a run; OPT-2.7B's memory holds 250, and twice as many make a pool

sub setup {
  ($build, $requests, @seeds) = @_;
  @seeds = first_seeds(@seeds);
  $ENV{LLS_PROFILE_PATH} //= "$root/etc/profiles";
  $ENV{LLS_PLUGIN_PATH} //= "$build/.libs";
}

sub seeds { return @seeds }

our %heads = ('opt-2.7b' => 32, 'opt-6.7b' => 32, 'opt-13b' => 40, 'opt-30b' => 56, 'llama-2-7b' => 32);
my $azure_out = 'lognormal:211,163,1..1000';
our %lengths = (
  ShareGPT => ['lognormal:2340,2083,1..8141', 'lognormal:439,268,2..1024'],
  LongBench => ['lognormal:6000,4000,500..15000', 'lognormal:100,80,4..512'],
  Azure => ['lognormal:1155,1109,3..7437', $azure_out],
);

# ---- systems ------------------------------------------------------------------------------------
# So many instances that prefill, and that decode.
sub split_of {
  my ($prefill, $decode) = @_;
  return ('--set', 'engine.roles=' . join(',', ('prefill') x $prefill, ('decode') x $decode), qw(--set cache.host_memory=400GiB));
}
my @split = split_of(1, 1);
sub with { return map { ('--set', "scheduler.aligned.$_") } @_ }
my @vllm = ('sarathi', qw(--set engine.instances=2 --set scheduler.sarathi.max_seqs=256)); # vLLM's default
our %systems = (
  vllm => \@vllm,
  'vllm, 8192' => [@vllm, qw(--set scheduler.sarathi.chunk=8192 --set engine.max_step_tokens=8192)],
  fastgen => ['fastgen', qw(--set engine.instances=2)], # with DeepSpeed's steps of 768, blocks of 128, 512 sequences
  distserve => ['distserve', @split],
  aligned => ['aligned', @split],
  'blocking' => ['distserve', @split, qw(--set scheduler.distserve.migration=blocking)],
  'distserve + 8 ms' => ['distserve', @split, qw(--plan-time 8ms)],
  'aligned + 1 ms' => ['aligned', @split, qw(--plan-time 1ms)],
  'pool = decode' => ['aligned', @split, with('pool=decode')],
  'w/o prefetch' => ['aligned', @split, with('pool=decode', 'prefetch=off')], # over the decode instance's own PCIe
  'w/o batching' => ['aligned', @split, with('batching=fcfs')],
  'w/o both' => ['aligned', @split, with('pool=decode', 'prefetch=off', 'batching=fcfs')],
  paper => ['paper-aligned', @split],
  'paper + 1 ms' => ['paper-aligned', @split, qw(--plan-time 1ms)],
  'rest stays' => ['aligned', @split, with('rest=stay')],
  'no slack' => ['aligned', @split, with('slack=0')],
  'class of Bmax' => ['aligned', @split, with('class_frac=0')],
  'starving after 5 s' => ['aligned', @split, with('starve_rounds=0')],
  'a fifth stays free' => ['aligned', @split, with('watermark=0.2')],
  'never starving' => ['aligned', @split, with('starve=0')],
  'at most Bmax' => ['aligned', @split, with('fill_frac=0.4')],
  'in order, at most Bmax' => ['aligned', @split, with('fill_frac=0.4', 'batching=fcfs')],
);
for ('w/o prefetch', 'w/o batching', 'w/o both', 'at most Bmax') {
  my (undef, @settings) = @{$systems{$_}};
  $systems{"paper, $_"} = ['paper-aligned', @settings];
}

# A system on so many GPUs, of which so many prefill if it has instances that do: its name there.
sub on {
  my ($system, $gpus, $prefill) = @_;
  my ($policy) = @{$systems{$system}};
  my @where = $policy =~ /^(sarathi|fastgen|fcfs)$/ ? ($gpus) : ($prefill, $gpus - $prefill);
  my $name = "$system, " . join '+', @where;
  $systems{$name} //= [@{$systems{$system}}, @where == 1 ? ('--set', "engine.instances=$gpus") : split_of(@where)];
  return $name;
}

# ---- models, devices, loads ---------------------------------------------------------------------
sub copy_of { # a file of the tree with some of its lines changed
  my ($from, $to, $change) = @_;
  open my $in, '<', "$root/etc/profiles/$from" or die "$from: $!\n";
  local $_ = do { local $/; <$in> };
  $change->();
  open my $out, '>', $to or die "$to: $!\n";
  print $out $_;
  return $to;
}

sub model {
  my ($model) = @_;
  my $path = "$folder/$model";
  return $path if -e "$path/config.json";
  mkdir $path;
  copy_of("models/$model/config.json", "$path/config.json",
    sub { s/("max_position_embeddings": )\d+/${1}16384/ or die "no positions\n" });
  return $path;
}

# strength 0: balanced. memory: GiB, where a figure needs more than a card has.
sub device {
  my ($model, $strength, $memory) = @_;
  my $share = $strength > 0 ? $heads{$model} / 132 / $strength : 1;
  my $tail = $strength > 0 ? "\ntail = 1" : '';
  my $path = "$folder/$model-$strength-" . ($memory // 80) . '.ini';
  return $path if -e $path;
  return copy_of('h100-80g.ini', $path, sub {
    s/^one_sequence = 1$/one_sequence = $share$tail/m or die "no one_sequence\n";
    s/^memory = 80GiB$/memory = ${memory}GiB/m or die "no memory\n" if $memory;
  });
}

my $random = 1;
sub uniform { # an LCG: the same on every machine
  $random = ($random * 1103515245 + 12345) % 2147483648;
  return ($random + 0.5) / 2147483648;
}

sub write_rows {
  my ($name, @rows) = @_;
  my $path = "$folder/$name.csv";
  open my $out, '>', $path or die "$path: $!\n";
  print $out "prompt_tokens,output_tokens\n", map { sprintf "%d,%d\n", @$_ } @rows;
  close $out or die "$path: $!\n";
  return $path;
}

sub azure_answer {
  my ($mean, $deviation) = (211, 163);
  my $variance = log(1 + ($deviation / $mean)**2);
  my $normal = sqrt(-2 * log uniform()) * cos(6.283185307 * uniform());
  my $answer = exp(log($mean) - $variance / 2 + sqrt($variance) * $normal);
  return $answer < 1 ? 1 : $answer > 1000 ? 1000 : $answer;
}

# Prompts of a mix by their share of short ones; long ones of 1,000 to 8,000 tokens, or all of $long.
sub mix {
  my ($short, $long) = @_;
  my $name = "mix$short-" . ($long // 0);
  return "$folder/$name.csv" if -e "$folder/$name.csv";
  $random = $short;
  return write_rows($name, map {
    my $in = 100 * uniform() < $short ? ($long ? 500 : 1 + 999 * uniform()) : $long // 1000 + 7000 * uniform();
    [$in, azure_answer()]
  } 1 .. 2500);
}

sub load {
  my ($name) = @_;
  return ('--dataset-name', 'csv', '--dataset-path', $name) if $name =~ /\.csv$/;
  return ('--dataset-name', 'csv', '--dataset-path', mix($1, $2)) if $name =~ /^(\d+) %(?: of (\d+))?$/;
  my ($in, $out) = @{$lengths{$name}};
  return ('--dataset-name', 'random', '--input-lengths', $in, '--output-lengths', $out);
}

# ---- runs ---------------------------------------------------------------------------------------
# A report's text; `of` has system, model, load, rate, and what differs from the defaults.
sub simulate {
  my (%of) = @_;
  my ($policy, @settings) = @{$systems{$of{system}}};
  my $path = "$folder/r$$.json";
  system("$build/llmserve-sim", '--quiet', '--json', $path, '-c', "$root/etc/$policy.ini", @settings,
    '--model', model($of{model}), '--profile', device($of{model}, $of{strength} // 1, $of{memory}),
    load($of{load}), '--num-prompts', $of{requests} // $requests * ($of{model} eq 'opt-2.7b' ? 2 : 1), '--request-rate', $of{rate}, '--seed',
    $of{seed} // 1, qw(--max-total-len 16384 --set engine.max_context=16384), '--set', 'engine.max_sequences=' . ($policy eq 'fastgen' ? 512 : 256),
    $of{model} eq 'opt-30b' ? qw(--ranks 2) : (), @{$of{more} // []}) == 0
    or die "$of{system}: llmserve-sim failed\n";
  open my $file, '<', $path or die "$path: $!\n";
  local $/;
  return <$file>;
}

# P99 in ms of a request's mean gap without its first one, which has the wait of a pool or of a hand-over. Takes the
# gaps out of a report with details.
sub settled {
  $_[0] =~ s/"itls":\s*\[(.*?\])\s*\]/"itls": []/s or return;
  my @means;
  for ($1 =~ /\[([^\]]*)/g) {
    my (undef, @gaps) = split /,\s*/;
    push @means, 1000 * mean(@gaps) if @gaps;
  }
  @means = sort { $a <=> $b } @means;
  return $means[0.99 * @means];
}

# tokens/s, P99 of gaps, P99 and median of TPOT in ms, mean and longest TTFT in s, mixed iterations in %, and of a
# report with details what `settled` finds
sub figures {
  my ($text) = @_;
  my @settled = settled($text);
  my $r = decode_json($text);
  my ($mixed, $steps) = (0, 0);
  for my $instance (@{$r->{machine}{policies}}) {
    my $events = $instance->{scheduler}{events};
    $mixed += $events->{mixed_steps} // 0;
    $steps += $events->{steps} // 0;
  }
  return (@{$r}{qw(output_throughput p99_itl_ms p99_tpot_ms median_tpot_ms)}, $r->{mean_ttft_ms} / 1000,
    $r->{max_ttft_ms} / 1000, $steps > 0 ? 100 * $mixed / $steps : 0, @settled);
}

# Requests a second when all of them come at once.
my %capacity;
sub capacity {
  my ($system, $model, $load) = @_;
  return $capacity{"$system $model $load"} //= decode_json(simulate(system => $system, model => $model,
      load => $load, rate => 100000, requests => 400, seed => 11, strength => 0))->{request_throughput};
}
sub overload { sprintf '%.3g', 1.2 * capacity('vllm', @_) }

# All systems over one load; the first one is compared with the others, seed by seed. What it finds, by system and
# figure, is a value for each seed.
my @columns = qw(tokens gap tpot median ttft longest mixed settled);
sub table {
  my ($model, $load, $rate, $names, %more) = @_;
  my @tasks = map { my $s = $_; map { [$s, $_] } @seeds } @$names;
  my @answers = lists_side_by_side(sub {
    my ($system, $seed) = @{$_[0]};
    return figures(simulate(system => $system, model => $model, load => $load, rate => $rate, seed => $seed, %more));
  }, @tasks);
  printf "%s, %s, straggler x %s, %s requests/s\n", $model, $load, $more{strength} // 1, $rate;
  print '    system              tokens/s       gap P99, ms    TPOT P99      P50  TTFT, s (longest)   mixed, %'
    . "      $names->[0] over it: tokens/s, gap P99\n";
  my %of;
  for my $k (0 .. $#$names) {
    my @each = splice @answers, 0, scalar @seeds;
    my $x = $of{$names->[$k]} = {map { my $c = $_; $columns[$c] => [map { $_->[$c] } @each] } 0 .. $#columns};
    my $first = $of{$names->[0]};
    my $beside = $k == 0 ? '' : sprintf '%sx  %sx lower', plus_minus(2, ratios($first->{tokens}, $x->{tokens})),
      plus_minus(2, ratios($x->{gap}, $first->{gap}));
    printf "    %-18s %-14s %-14s %-8.0f %8.0f  %-7s (%4.0f)  %-12s  %s\n", $names->[$k], plus_minus(0, @{$x->{tokens}}),
      plus_minus(1, @{$x->{gap}}), mean(@{$x->{tpot}}), mean(@{$x->{median}}), plus_minus(1, @{$x->{ttft}}), mean(@{$x->{longest}}),
      plus_minus(1, @{$x->{mixed}}), $beside;
    printf "%56s %8.0f  after the first gap\n", '', mean(@{$x->{settled}}) if defined $x->{settled}[0];
  }
  return \%of;
}

# ---- iterations ---------------------------------------------------------------------------------
# Iterations of a report with details: requests that have a token at the same moment. Their time in ms,
# requests, tokens of the longest, tokens of all.
sub iterations {
  my ($text) = @_;
  my $list = sub { $text =~ /"$_[0]":\s*\[([^\]]*)\]/ or die "no $_[0]\n"; split /,\s*/, $1 };
  my @starts = $list->('start_times');
  my @ttfts = $list->('ttfts');
  my @lengths = $list->('input_lens');
  $text =~ /"itls":\s*\[(.*?\])\s*\]/s or die "no itls\n";
  my @rows = $1 =~ /\[([^\]]*)/g;
  my %at;
  for my $i (0 .. $#rows) {
    my ($now, $length) = ($starts[$i] + $ttfts[$i], $lengths[$i]);
    for my $gap (split /,\s*/, $rows[$i]) {
      my $key = sprintf '%.0f', 1e6 * ($now += $gap);
      ($key) = grep { $at{$_} } $key - 1, $key + 1 if !$at{$key} && ($at{$key - 1} || $at{$key + 1});
      my $step = $at{$key} //= [0, 0, 0];
      $length++;
      $step->[0]++;
      $step->[1] = $length if $length > $step->[1];
      $step->[2] += $length;
    }
  }
  my @ends = sort { $a <=> $b } keys %at;
  return map { [($ends[$_] - $ends[$_ - 1]) / 1000, @{$at{$ends[$_]}}] } 1 .. $#ends;
}

# Percent of 30 ms at most, median ms, percent unlike, mean batch, mean longest, tokens of all, tokens/s
sub judge {
  my $text = simulate(@_, more => ['--save-detailed']);
  my ($rate) = $text =~ /"output_throughput": ([\d.]+)/ or die "no output_throughput\n";
  my @steps = grep { $_->[0] < 1000 } iterations($text); # no idle time
  my @times = sort { $a <=> $b } map { $_->[0] } @steps;
  return (100 * grep({ $_->[0] <= 30 } @steps) / @steps, $times[@times / 2],
    100 * grep({ $_->[2] * $_->[1] > 2 * $_->[3] } @steps) / @steps, (map { my $c = $_; mean(map { $_->[$c] } @steps) } 1 .. 3), $rate);
}

1;
