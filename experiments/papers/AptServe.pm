# SPDX-License-Identifier: Apache-2.0
# The parts of experiments/papers/apt-serve: the paper's workloads, runs of the simulator, and
# the search for a rate. A run is two tenths of a second.
package AptServe;
use strict;
use warnings;
use Exporter 'import';
use File::Temp qw(tempdir);
use Seeds qw(mean interval);
our @EXPORT = qw(setup requests simulate attainment evaluate rate_at highest_rate slos write_trace profile);

my ($root, $sim, $requests, $folder);
my @seeds; # of arrivals

# root: the source tree, whose presets and profiles are used; build: a build folder, or undef for
# the llmserve-sim that is installed; jobs: runs at a time, by default as many as there are cores.
sub setup {
  my %o = @_;
  ($root, $requests) = @o{qw(root requests)};
  $sim = defined $o{build} ? "$o{build}/llmserve-sim" : 'llmserve-sim';
  @seeds = @{$o{seeds}};
  $folder = tempdir(CLEANUP => 1);
  $ENV{LLS_PROFILE_PATH} //= "$root/etc/profiles";
  $ENV{LLS_PLUGIN_PATH} //= "$o{build}/.libs" if defined $o{build};
}

sub requests { return $requests }

# ---- workloads ------------------------------------------------------------------------------
# NumPy's generator, as the authors' client draws gaps from it (gen_client_requests.py: seed 0,
# gamma with shape 1 / CV^2): with CV 10 a thousand requests are about ten bursts, and which
# bursts decides a row of Tables 4 and 5.
package Mt19937 {
  sub new {
    my ($class, $seed) = @_;
    my @s = ($seed & 0xffffffff);
    push @s, (1812433253 * ($s[-1] ^ ($s[-1] >> 30)) + @s) & 0xffffffff while @s < 624;
    return bless {s => \@s, i => 624}, $class;
  }

  sub twist {
    my $s = $_[0]{s};
    for my $k (0 .. 623) {
      my $y = ($s->[$k] & 0x80000000) | ($s->[($k + 1) % 624] & 0x7fffffff);
      $s->[$k] = $s->[($k + 397) % 624] ^ ($y >> 1) ^ ($y & 1 ? 0x9908b0df : 0);
    }
    $_[0]{i} = 0;
  }

  sub word {
    my $g = shift;
    $g->twist if $g->{i} == 624;
    my $y = $g->{s}[$g->{i}++];
    $y ^= $y >> 11;
    $y ^= ($y << 7) & 0x9d2c5680;
    $y ^= ($y << 15) & 0xefc60000;
    return ($y ^ ($y >> 18)) & 0xffffffff;
  }

  sub uniform { # [0, 1), 53 bits
    my $g = shift;
    my ($a, $b) = ($g->word >> 5, $g->word >> 6);
    return ($a * 67108864 + $b) / 9007199254740992;
  }

  sub exponential { return -log(1 - $_[0]->uniform) }

  sub gamma { # shape <= 1: Ahrens and Dieter's GS, in NumPy's order of draws
    my ($g, $shape) = @_;
    return $g->exponential if $shape == 1;
    while (1) {
      my ($u, $v) = ($g->uniform, $g->exponential);
      if ($u <= 1 - $shape) {
        my $x = $u**(1 / $shape);
        return $x if $x <= $v;
      } else {
        my $y = -log((1 - $u) / $shape);
        my $x = (1 - $shape + $shape * $y)**(1 / $shape);
        return $x if $x <= $v + $y;
      }
    }
  }
}

sub lengths {
  my ($data) = @_;
  my $path = "$root/experiments/papers/lengths/\L$data.csv";
  open my $file, '<', $path or die "$path: $!\n";
  my @rows = grep { /^\d/ } <$file>;
  chomp @rows;
  return @rows;
}

# A trace of n requests at one per second; the simulator scales its times. Early: this share of the answers,
# 1 is all, end at one of their tokens, each equally likely.
sub trace {
  my ($data, $cv, $seed, $early, $n) = @_;
  my $path = "$folder/$data-$cv-$seed-$early-$n.csv";
  return $path if -e $path;
  my ($g, $shape, $at) = (Mt19937->new($seed), 1 / $cv**2, 0);
  my $ends = Mt19937->new(1000 + $seed);
  my @rows = lengths($data);
  open my $file, '>', "$path.$$" or die "$path: $!\n";
  print $file "arrival_s,prompt_tokens,output_tokens\n";
  for my $k (0 .. $n - 1) {
    my ($in, $out) = split /,/, $rows[($k + 331 * $seed) * 37 % @rows];
    $out = 1 + int($ends->uniform * $out) if $early == 1 || $early > 0 && $ends->uniform < $early;
    printf $file "%.9f,%d,%d\n", $at, $in, $out;
    $at += $g->gamma($shape) / $shape;
  }
  close $file or die "$path: $!\n";
  rename "$path.$$", $path or die "$path: $!\n";
  return $path;
}

# A trace of lengths that are given, [prompt, answer]; Poisson at one request per second.
sub write_trace {
  my ($name, $seed, @rows) = @_;
  my $path = "$folder/$name-$seed.csv";
  return $path if -e $path;
  my ($g, $at) = (Mt19937->new($seed), 0);
  open my $file, '>', "$path.$$" or die "$path: $!\n";
  print $file "arrival_s,prompt_tokens,output_tokens\n";
  for (@rows) {
    printf $file "%.9f,%d,%d\n", $at, @$_;
    $at += $g->exponential;
  }
  close $file or die "$path: $!\n";
  rename "$path.$$", $path or die "$path: $!\n";
  return $path;
}

# ---- devices --------------------------------------------------------------------------------
# A file of the A100's profile with other values of these keys; what it does not have goes into its [efficiency].
sub profile {
  my %value = @_;
  my $path = "$root/etc/profiles/a100-40g.ini";
  open my $in, '<', $path or die "$path: $!\n";
  my $text = join '', <$in>;
  for my $key (sort keys %value) {
    $text =~ s/^\Q$key\E = .*$/$key = $value{$key}/m or $text =~ s/^\[efficiency\]\n/[efficiency]\n$key = $value{$key}\n/m
      or die "$path: no [efficiency]\n";
  }
  my $file = File::Temp->new(SUFFIX => '.ini');
  print $file $text;
  $file->flush;
  return $file;
}

# ---- runs -----------------------------------------------------------------------------------
my %model = ('13B' => ['opt-13b', 1], '30B' => ['opt-30b', 2], '66B' => ['opt-66b', 4]);
# Table 3: TTFT and P99 TBT in ms
my %slo = (ShareGPT => {'13B' => [1000, 1000], '30B' => [1500, 1000], '66B' => [2000, 1000]},
  HumanEval => {'13B' => [500, 500], '30B' => [1000, 500], '66B' => [1500, 500]},
  LongBench => {'13B' => [4000, 1000], '30B' => [4500, 1000], '66B' => [5000, 1000]});

# TTFT and P99 TBT of a data set and model, in ms.
sub slos {
  my ($data, $model) = @_;
  return @{$slo{$data}{$model}};
}

# At most 256 sequences run at once for everybody, vLLM's default.
# run: {policy, more => [], model, data, rate, cv, seed, early, requests, profile, trace, ranks, slos}; the
# report's text. model: one of the paper's, or a folder; trace: a file, or a function of the seed.
sub simulate {
  my %r = (model => '13B', cv => 1, seed => 0, early => 0, requests => $requests, more => [], profile => 'a100-40g',
    @_);
  my ($name, $ranks) = @{$model{$r{model}} // [$r{model}, $r{ranks}]};
  my ($ttft, $tbt) = @{$r{slos} // [slos(@r{qw(data model)})]};
  my $trace = ref $r{trace} ? $r{trace}->($r{seed}) : trace(@r{qw(data cv seed early requests)});
  my $out = "$folder/r$$.json";
  my @command = ($sim, '--quiet', '-c', "$root/etc/$r{policy}.ini", '--model',
    $name, '--ranks', $ranks, '--profile', $r{profile}, '--trace',
    $trace, '--time-scale', 1 / $r{rate}, '--slo-ttft', "${ttft}ms",
    '--slo-tbt', "${tbt}ms", '--json', $out, qw(--set engine.max_sequences=256), @{$r{more}});
  system(@command) == 0 or die "@command failed\n";
  open my $file, '<', $out or die "$out: $!\n";
  local $/;
  return <$file>;
}

# Means over the seeds, or over run's own (`seeds`): percent within both SLOs, and other numbers of the report by
# their keys.
sub attainment {
  my ($run, @keys) = @_;
  my @sum = (0) x (1 + @keys);
  my @of = @{$run->{seeds} // \@seeds};
  for my $seed (@of) {
    my $text = simulate(%$run, seed => $seed);
    my $k = 0;
    for my $key ('all', @keys) {
      my ($value) = $text =~ /"$key": ([-+.\de]+)/ or die "no $key in a report\n";
      $sum[$k++] += $value / @of;
    }
  }
  $sum[0] *= 100;
  return wantarray ? @sum : $sum[0];
}

# Judges one run: percent within both SLOs, percent with first token and every gap in
# time, longest gap in seconds, percent with the first token and with P99 TBT in time, percent of
# the time until the last arrival in which a request or more waited.
sub judge {
  my ($run) = @_;
  my $text = simulate(%$run, more => [@{$run->{more} // []}, '--save-detailed']);
  my ($ttft, $tbt) = map { $_ / 1e3 } @{$run->{slos} // [slos(@$run{qw(data)}, $run->{model} // '13B')]};
  my ($met, $first, $p99) = map { $text =~ /"$_": ([-+.\de]+)[,\s]/ } qw(all ttft p99_tbt);
  my ($firsts) = $text =~ /"ttfts": \[([^\]]*)\]/;
  my ($gaps) = $text =~ /"itls": \[(.*?)\]\s*\]/s;
  my ($waiting) = $text =~ /"waiting": \[([^\]]*)\]/;
  my ($bin) = $text =~ /"bin_s": ([.\d]+)/;
  my ($starts) = $text =~ /"start_times": \[([^\]]*)\]/;
  my @firsts = $firsts =~ /([-+.\de]+)/g;
  my ($last) = $starts =~ /.*?([-+.\de]+)\s*$/s;
  my ($every, $pause, $k) = (0, 0, 0);
  for my $list (split /\]/, $gaps) {
    my $longest = 0;
    while ($list =~ /([-+.\de]+)/g) { $longest = $1 if $1 > $longest }
    $pause = $longest if $longest > $pause;
    $every++ if $firsts[$k] <= $ttft && $longest <= $tbt;
    last if ++$k == @firsts;
  }
  my @bins = ($waiting =~ /([-+.\de]+)/g)[0 .. ($last // 0) / $bin];
  my $queued = grep { ($_ // 0) >= 1 } @bins;
  return (100 * $met, 100 * $every / @firsts, $pause, 100 * $first, 100 * $p99, 100 * $queued / @bins);
}

# The same of all seeds: means, but the longest gap of all; then the interval of the first, and the first
# seed by seed.
sub evaluate {
  my ($run) = @_;
  my @of = map { [judge({%$run, seed => $_})] } @seeds;
  my @means = map { my $k = $_; mean(map { $_->[$k] } @of) } 0 .. 5;
  $means[2] = (sort { $b <=> $a } map { $_->[2] } @of)[0];
  my @met = map { $_->[0] } @of;
  return (@means, interval(@met), @met);
}

# Rates are looked for on a grid of steps of 4 %; what its end still attains has no highest rate.
my $grid_steps = 160;
sub grid_rate { return 0.1 * 1.04**$_[0] }
sub highest_rate { return grid_rate($grid_steps - 1) }

# The highest rate with at least that attainment; what was looked at is kept in %$seen, by rate, and bounds the next
# search.
sub rate_at {
  my ($run, $percent, $seen) = @_;
  my ($low, $high) = (0, $grid_steps);
  for my $step (grep { defined $seen->{grid_rate($_)} } 0 .. $grid_steps - 1) {
    if ($seen->{grid_rate($step)} >= $percent) { $low = $step }
    else { $high = $step; last }
  }
  while ($high - $low > 1) {
    my $middle = int(($low + $high) / 2);
    my $rate = grid_rate($middle);
    $seen->{$rate} //= attainment({%$run, rate => $rate});
    if ($seen->{$rate} >= $percent) { $low = $middle }
    else { $high = $middle }
  }
  return grid_rate($low);
}

1;
