# SPDX-License-Identifier: Apache-2.0
# The workloads of experiments/league, each a line of a table. A workload is a function which returns rows of requests
# for a seed. Times are scaled to one request a second on average, and the simulator scales them again to a load. Every
# row has its deadlines, by which its request is judged. Numbers come from NumPy's generator (AptServe.pm), so that a
# workload is the same on every machine.
package Workloads;
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use FindBin;
use JSON::PP;
use lib "$FindBin::Bin/../papers";
use AptServe ();
use Exporter 'import';
our @EXPORT_OK = qw(workloads rows write_rows held_out_seed);

my $data; # folder of traces, or undef

# ---- numbers --------------------------------------------------------------------------------
sub between { my ($low, $x, $high) = @_; return $x < $low ? $low : $x > $high ? $high : $x }

sub normal {
  my ($g) = @_;
  return sqrt(2 * $g->exponential) * cos(6.283185307179586 * $g->uniform);
}

# A length: lognormal with a mean and deviation, drawn again if outside of low..high.
sub length_of {
  my ($g, $mean, $deviation, $low, $high) = @_;
  my $s2 = log(1 + ($deviation / $mean)**2);
  for (1 .. 200) {
    my $x = exp(log($mean) - $s2 / 2 + sqrt($s2) * normal($g));
    return int($x + 0.5) if $x >= $low && $x <= $high;
  }
  return int between($low, $mean, $high);
}

sub uniform { my ($g, $low, $high) = @_; return $low + ($high - $low) * $g->uniform }
sub whole { my ($g, $low, $high) = @_; return int uniform($g, $low, $high + 0.999999) }

# One of several lengths: [share, mean, deviation, low, high]...
sub mixture {
  my ($g, @parts) = @_;
  my $u = $g->uniform;
  for (@parts) {
    my ($share, @length) = @$_;
    return length_of($g, @length) if ($u -= $share) < 0;
  }
  return length_of($g, @{$parts[-1]}[1 .. 4]);
}

# Gives rows the times of a gamma process.
sub arrive {
  my ($g, $cv, @rows) = @_;
  my ($shape, $at) = (1 / $cv**2, 0);
  for (@rows) {
    $_->{at} = $at;
    $at += $g->gamma($shape) / $shape;
  }
  return @rows;
}

sub poisson { my ($g, $n, $row) = @_; return arrive($g, 1, map { $row->($_) } 1 .. $n) }

# ---- made here ------------------------------------------------------------------------------
# The data sets' own lengths, as experiments/papers/apt-serve has them, within OPT's 2048 positions.
sub apt {
  my ($set, $cv, $ttft, $tbt) = @_;
  return sub {
    my ($g, $n, $seed) = @_;
    my @rows = AptServe::lengths($set);
    return arrive($g, $cv, map {
      my ($in, $out) = split /,/, $rows[($_ + 331 * $seed) * 37 % @rows];
      $in = 2000 if $in > 2000;
      {in => $in, out => between(1, $out, 2040 - $in), ttft => $ttft, tbt => $tbt}
    } 0 .. $n - 1);
  };
}

# Table 2 of BROS: ShareGPT as real-time requests, and best-effort batches of 32 requests.
sub bros {
  my ($g, $n) = @_;
  my @real = poisson($g, $n * 0.6, sub {
    return {in => length_of($g, 222.76, 256.36, 4, 1000), out => length_of($g, 234.51, 268.5, 4, 1000), class => 'realtime', ttft => 400, tpot => 200};
  });
  my ($end, $batches) = ($real[-1]{at}, int(0.4 * $n / 32 + 0.5));
  my @batches = map { my $at = ($_ + 0.5) * $end / $batches;
    map { {at => $at, in => whole($g, 512, 1024), out => whole($g, 32, 128), class => 'best_effort'} } 1 .. 32 } 0 .. $batches - 1;
  return (@real, @batches);
}

sub alise { # lengths of vLLM's paper; no deadlines
  my ($in, $out, $in_deviation, $out_deviation) = @_;
  return sub {
    my ($g, $n) = @_;
    return poisson($g, $n, sub { return {in => length_of($g, $in, $in_deviation, 4, 1000), out => length_of($g, $out, $out_deviation, 4, 1000)} });
  };
}

# Figures 7 and 9 of AlignedServe: nine in ten prompts below 1,000 tokens, the others to 8,000.
sub aligned {
  my ($g, $n) = @_;
  return poisson($g, $n, sub {
    my $in = $g->uniform < 0.9 ? whole($g, 1, 999) : whole($g, 1000, 8000);
    return {in => $in, out => length_of($g, 211, 163, 1, 1000)};
  });
}

# Figure 8 of AccelGen, deadlines of section 5, as experiments/papers/accelgen has them.
sub accelgen {
  my ($g, $n) = @_;
  return poisson($g, $n, sub {
    my $in = mixture($g, [0.34, 150, 130, 10, 512], [0.52, 1500, 900, 513, 4095], [0.14, 5500, 1200, 4096, 8192]);
    return {in => $in, out => mixture($g, [0.51, 170, 130, 10, 512], [0.49, 1000, 400, 513, 2048]),
      ttft => (250 + 0.65 * $in) * uniform($g, 0.5, 1.5), tbt => 187.5 * uniform($g, 0.75, 1.25)};
  });
}

sub mixed { # half real time, half of best effort with ten minutes for all of it
  my ($g, $n) = @_;
  return poisson($g, $n, sub {
    return {in => length_of($g, 400, 500, 10, 3000), out => length_of($g, 150, 120, 4, 600), class => 'realtime', ttft => 800, tbt => 100}
      if $g->uniform < 0.5;
    return {in => length_of($g, 2500, 2000, 100, 7000), out => length_of($g, 300, 250, 4, 1000), class => 'best_effort', completion => 120000};
  });
}

sub tenants { # six; the first sends half of all, in bursts, and long ones
  my ($g, $n) = @_;
  my @modest = poisson($g, $n / 2, sub {
    return {in => length_of($g, 400, 400, 10, 3000), out => length_of($g, 180, 150, 4, 800), tenant => whole($g, 2, 6), ttft => 1000, tbt => 150};
  });
  my @greedy = arrive($g, 4, map {
    {in => length_of($g, 1500, 1200, 50, 6000), out => length_of($g, 350, 250, 4, 1000), tenant => 1, ttft => 1000, tbt => 150}
  } 1 .. $n / 2);
  my $scale = $modest[-1]{at} / ($greedy[-1]{at} || 1);
  $_->{at} *= $scale for @greedy;
  return (@modest, @greedy);
}

sub prefixes { # twenty assistants with instructions of 800 to 2,400 tokens
  my ($g, $n) = @_;
  my @length = map { whole($g, 800, 2400) } 0 .. 19;
  return poisson($g, $n, sub {
    my $k = int(20 * $g->uniform**2); # some are asked more often
    return {in => $length[$k] + length_of($g, 150, 150, 4, 1000), out => length_of($g, 200, 180, 4, 800), prefix => $k + 1,
      prefix_tokens => $length[$k], ttft => 800, tbt => 120};
  });
}

sub agents { # calls with short answers that come back with all there was before, and more
  my ($g, $n) = @_;
  my ($at, $agent, @rows) = (0, 0);
  while (@rows < $n) {
    my ($in, $when, $calls) = (whole($g, 400, 2000), $at, whole($g, 3, 9));
    $agent++;
    for (1 .. $calls) {
      my $out = length_of($g, 70, 60, 4, 300);
      push @rows, {at => $when, in => $in, out => $out, prefix => $agent, prefix_tokens => $in, ttft => 1500, tbt => 150};
      $in += $out + whole($g, 50, 600);
      $when += uniform($g, 10, 40);
    }
    $at += $g->exponential * 6;
  }
  return @rows;
}

sub bursts { # day and night, and bursts in both
  my ($g, $n) = @_;
  my ($at, @rows) = (0);
  for my $k (1 .. $n) {
    push @rows, {at => $at, in => length_of($g, 500, 600, 4, 4000), out => length_of($g, 220, 200, 4, 1000), ttft => 1500, tbt => 200};
    my $day = 1 + 0.8 * sin(12.566370614359172 * $at / $n);
    $at += $g->gamma(1 / 9) * 9 / $day;
  }
  return @rows;
}

sub gaps { # long prompts beside answers that are read as they come
  my ($g, $n) = @_;
  return poisson($g, $n, sub {
    my $in = mixture($g, [0.6, 200, 150, 10, 1000], [0.4, 4000, 1800, 1001, 7500]);
    return {in => $in, out => length_of($g, 250, 200, 10, 1000), ttft => 1500 + 0.5 * $in, tbt => 80};
  });
}

sub jobs { # answers that are wanted whole, some soon, beside chats
  my ($g, $n) = @_;
  return poisson($g, $n, sub {
    return {in => length_of($g, 300, 300, 4, 1500), out => length_of($g, 250, 200, 4, 800), ttft => 1000, tbt => 200} if $g->uniform < 0.4;
    my $out = length_of($g, 300, 250, 4, 1000);
    return {in => length_of($g, 900, 800, 20, 4000), out => $out, completion => (5000 + 60 * $out) * uniform($g, 0.7, 3)};
  });
}

# ---- others' traces -------------------------------------------------------------------------
# Reads a trace once, best before forking: parsing the JSON takes two seconds, twice as long as its simulation.
my %read;
sub all_of {
  my ($file, $parse) = @_;
  return $read{$file} //= do {
    open my $in, '<', "$data/$file" or die "$data/$file: $!\n";
    [map { my @r = $parse->($_); @r ? [@r] : () } <$in>];
  };
}

# A part of a trace, a different one for each of the seeds 1 to 20: requests as [seconds, prompt, answer, tenant, hashes].
sub part_of {
  my ($file, $parse, $n, $seed) = @_;
  my @all = @{all_of($file, $parse)};
  my $place = (0.5, 0.75, 0, 0.25)[($seed - 1) / 5 % 4]; # within a fifth of the trace
  my $first = int((@all - $n) * (($seed - 1) % 5 + $place) / 5);
  return @all[$first .. $first + $n - 1];
}

sub trace {
  my ($file, $parse, $ttft, $per_token, $tbt) = @_;
  return sub {
    my (undef, $n, $seed) = @_;
    return map {
      my ($at, $in, $out, $tenant, $hashes) = @$_;
      {at => $at, in => $in, out => $out, tenant => $tenant, hashes => $hashes, ttft => $ttft + $per_token * $in, tbt => $tbt}
    } part_of($file, $parse, $n, $seed);
  };
}

sub azure {
  my ($at, $in, $out) = split /,/, $_[0];
  my ($h, $m, $s) = ($at // '') =~ /(\d+):(\d+):([\d.]+)/ or return;
  return (3600 * $h + 60 * $m + $s, $in, $out + 0 || 1);
}

sub burstgpt {
  my ($at, undef, $in, $out) = split /,/, $_[0];
  return $at =~ /^[\d.]+$/ && $out > 0 && $in > 0 ? ($at, $in, $out) : ();
}

sub servegen {
  my ($at, $client, $in, $out) = split /,/, $_[0];
  return $at =~ /^[\d.]+$/ ? ($at, $in, $out + 0, $client + 1) : ();
}

my $jitter = 0;
sub mooncake { # its times are multiples of 3 s
  my $r = decode_json($_[0]);
  $jitter = ($jitter + 0.618033988749895) - int($jitter + 0.618033988749895);
  return ($r->{timestamp} / 1000 + 3 * $jitter, @$r{qw(input_length output_length)}, 0, $r->{hash_ids});
}

# ---- the table ------------------------------------------------------------------------------
# home: the policy whose paper has this workload. model: its name, and a number of positions if the workload needs more.
# step: most tokens in a step, by default 8192. split: two instances, which some policies split into one for prompts and
# one for answers.
my @table = (
  {name => 'apt-sharegpt', home => 'apt', model => ['opt-13b'], profile => 'a100-40g', make => apt('ShareGPT', 1, 1000, 1000)},
  {name => 'apt-longbench', home => 'apt', model => ['opt-13b'], profile => 'a100-40g', make => apt('LongBench', 1, 4000, 1000)},
  {name => 'apt-bursts', home => 'apt', model => ['opt-13b'], profile => 'a100-40g', make => apt('ShareGPT', 5, 1000, 1000)},
  {name => 'bros', home => 'bros', model => ['opt-13b'], profile => 'a100-40g', ranks => 2, make => \&bros},
  {name => 'alise-alpaca', home => 'alise', model => ['opt-13b'], profile => 'v100-32g', step => 2048, requests => 480, make => alise(19, 58, 15, 60)},
  {name => 'alise-sharegpt', home => 'alise', model => ['opt-13b'], profile => 'v100-32g', step => 2048, make => alise(161, 338, 250, 300)},
  {name => 'aligned', home => 'aligned', model => ['opt-2.7b', 16384], profile => 'h100-80g', split => 1, requests => 400, make => \&aligned},
  {name => 'accelgen', home => 'accelgen', model => ['opt-13b', 16384], profile => 'a100-80g', requests => 200, make => \&accelgen},
  {name => 'mixed', model => ['llama-3-8b', 8192], profile => 'a100-40g', make => \&mixed},
  {name => 'tenants', model => ['llama-3-8b', 8192], profile => 'rtx4090', make => \&tenants},
  {name => 'prefixes', model => ['llama-3-8b', 8192], profile => 'a100-40g', make => \&prefixes},
  {name => 'agents', model => ['llama-3-8b', 16384], profile => 'a100-40g', make => \&agents},
  {name => 'bursts', model => ['llama-2-13b', 8192], profile => 'a100-40g', make => \&bursts},
  {name => 'gaps', model => ['llama-3-8b', 16384], profile => 'a100-80g', requests => 200, make => \&gaps},
  {name => 'jobs', model => ['llama-2-13b', 8192], profile => 'a100-40g', make => \&jobs},
  {name => 'azure-chat', model => ['llama-3-8b', 16384], profile => 'a100-40g', file => 'azure2023/AzureLLMInferenceTrace_conv.csv', parse => \&azure, slo => [1000, 0.25, 150]},
  {name => 'azure-code', model => ['llama-3-8b', 16384], profile => 'a100-40g', file => 'azure2023/AzureLLMInferenceTrace_code.csv', parse => \&azure, slo => [1000, 0.25, 150]},
  {name => 'burstgpt', model => ['llama-3-8b', 16384], profile => 'a100-40g', file => 'burstgpt/BurstGPT_1.csv', parse => \&burstgpt, slo => [1000, 0.25, 150]},
  {name => 'servegen', model => ['llama-2-13b', 32768], profile => 'a100-40g', file => 'servegen/m-mid_1h_3rps.csv', parse => \&servegen, requests => 400, slo => [1000, 0.25, 150]},
  {name => 'mooncake', model => ['llama-3-8b', 163840], profile => 'h100-80g', file => 'mooncake/conversation_trace.jsonl', parse => \&mooncake, requests => 160, slo => [3000, 0.3, 150]},
);

# ---- held out while a policy is tuned -------------------------------------------------------------
# Held out, by a rule from before any policy was tuned with the league: seeds 2 and 4, and two workloads. The two are
# those with the smallest MD5 of their names among the workloads which need no data and are no paper's home.
sub held_out_seed { return $_[0] % 2 == 0 }

sub mark_held_out {
  my @open = sort { md5_hex($a->{name}) cmp md5_hex($b->{name}) } grep { !$_->{home} && !$_->{file} } @table;
  $_->{held_out} = 1 for @open[0, 1];
}

# All available workloads: those which need no data or whose data the folder has; and the names of the missing ones.
sub workloads {
  ($data) = @_;
  mark_held_out();
  my @missing = grep { $_->{file} && !(defined $data && -e "$data/$_->{file}") } @table;
  my %missing = map { $_->{name} => 1 } @missing;
  return ([grep { !$missing{$_->{name}} } @table], [map { $_->{name} } @missing]);
}

# The requests of a seed, in order, a second apart on average.
sub rows {
  my ($w, $seed, $quick) = @_;
  my $n = $w->{requests} // 240;
  $n = int($n / 3) if $quick;
  my $make = $w->{make} // trace($w->{file}, $w->{parse}, @{$w->{slo}});
  my @rows = sort { $a->{at} <=> $b->{at} } $make->(Mt19937->new(1000 * $seed + 7), $n, $seed);
  @rows = @rows[0 .. $n - 1] if @rows > $n;
  my ($first, $last) = ($rows[0]{at}, $rows[-1]{at});
  for my $k (0 .. $#rows) {
    my $r = $rows[$k];
    $r->{at} = ($r->{at} - $first) * $#rows / ($last - $first || 1);
    @$r{qw(label class)} = ("r$k", $r->{class} // '');
  }
  return @rows;
}

# Writes requests as llmserve-sim reads them. Returns its options, including settings which a trace of hashes lacks.
sub write_rows {
  my ($path, $w, @rows) = @_;
  my @columns = qw(in out at class tenant label ttft tbt tpot completion prefix prefix_tokens priority);
  open my $file, '>', $path or die "$path: $!\n";
  if ($rows[0]{hashes}) {
    print $file encode_json({timestamp => int(1000 * $_->{at}), input_length => $_->{in} + 0, output_length => $_->{out} + 0,
      hash_ids => $_->{hashes}}), "\n" for @rows;
    close $file or die "$path: $!\n";
    my ($ttft, $per_token, $tbt) = @{$w->{slo}};
    return ('--dataset-name', 'timed_trace', '--trace', $path, '--slo-ttft', "${ttft}ms", '--slo-ttft-per-token',
      1000 * $per_token . 'us', '--slo-tbt', "${tbt}ms", '--slo-group-tokens', 1);
  }
  print $file "prompt_tokens,output_tokens,arrival_s,class,tenant,label,ttft_ms,tbt_ms,tpot_ms,completion_ms,prefix,prefix_tokens,priority\n";
  for my $r (@rows) {
    $r->{at} = sprintf '%.6f', $r->{at};
    $r->{$_} = defined $r->{$_} ? sprintf '%.1f', $r->{$_} : '' for qw(ttft tbt tpot completion);
    print $file join(',', map { $r->{$_} // '' } @columns), "\n";
  }
  close $file or die "$path: $!\n";
  return ('--trace', $path);
}

1;
