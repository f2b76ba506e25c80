# SPDX-License-Identifier: Apache-2.0
# The parts of bench/papers/apt-serve: the paper's workloads, runs of the simulator, many at
# a time, and the search for a rate. A run is two tenths of a second.
package AptServe;
use strict;
use warnings;
use Exporter 'import';
use File::Temp qw(tempdir);
use POSIX ();
our @EXPORT = qw(setup requests parallel simulate attainment rate_at highest_rate slos
  share_of_largest);

my ($root, $sim, $requests, $jobs, $folder);
my @seeds; # of arrivals

# root: the source tree, whose presets and profiles are used; build: a build folder, or undef for
# the llmserve-sim that is installed.
sub setup {
  my %o = @_;
  ($root, $requests) = @o{qw(root requests)};
  $sim = defined $o{build} ? "$o{build}/llmserve-sim" : 'llmserve-sim';
  @seeds = @{$o{seeds}};
  chomp($jobs = `nproc`);
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
  my $path = "$root/bench/papers/lengths/\L$data.csv";
  open my $file, '<', $path or die "$path: $!\n";
  my @rows = grep { /^\d/ } <$file>;
  chomp @rows;
  return @rows;
}

# Part of all memory times time that the largest so many of a hundred requests take: answer
# times (prompt + half of the answer).
sub share_of_largest {
  my ($data, $percent) = @_;
  my @areas = sort { $b <=> $a } map { my ($in, $out) = split /,/; $out * ($in + $out / 2) }
    lengths($data);
  my ($sum, $largest) = (0, 0);
  $sum += $_ for @areas;
  $largest += $_ for @areas[0 .. @areas * $percent / 100 - 1];
  return $largest / $sum;
}

# A trace at one request per second; the simulator scales its times. Early: each answer ends
# at one of its tokens, all equally likely.
sub trace {
  my ($data, $cv, $seed, $early) = @_;
  my $path = "$folder/$data-$cv-$seed-$early.csv";
  return $path if -e $path;
  my ($g, $shape, $at) = (Mt19937->new($seed), 1 / $cv**2, 0);
  my $ends = Mt19937->new(1000 + $seed);
  my @rows = lengths($data);
  open my $file, '>', "$path.$$" or die "$path: $!\n";
  print $file "arrival_s,prompt_tokens,output_tokens\n";
  for my $k (0 .. $requests - 1) {
    my ($in, $out) = split /,/, $rows[($k + 331 * $seed) * 37 % @rows];
    $out = 1 + int($ends->uniform * $out) if $early;
    printf $file "%.9f,%d,%d\n", $at, $in, $out;
    $at += $g->gamma($shape) / $shape;
  }
  close $file or die "$path: $!\n";
  rename "$path.$$", $path or die "$path: $!\n";
  return $path;
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
# run: {policy, more => [], model, data, rate, cv, seed, early, profile}; the report's text.
sub simulate {
  my %r = (model => '13B', cv => 1, seed => 0, early => 0, more => [], profile => 'a100-40g',
    @_);
  my ($name, $ranks) = @{$model{$r{model}}};
  my ($ttft, $tbt) = slos(@r{qw(data model)});
  my $out = "$folder/r$$.json";
  my @command = ($sim, '--quiet', '-c', "$root/etc/$r{policy}.ini", '--model',
    $name, '--ranks', $ranks, '--profile', $r{profile}, '--trace',
    trace(@r{qw(data cv seed early)}), '--time-scale', 1 / $r{rate}, '--slo-ttft', "${ttft}ms",
    '--slo-tbt', "${tbt}ms", '--json', $out, qw(--set engine.max_sequences=256), @{$r{more}});
  system(@command) == 0 or die "@command failed\n";
  open my $file, '<', $out or die "$out: $!\n";
  local $/;
  return <$file>;
}

# Means over the seeds: percent within both SLOs, and other numbers of the report by their keys.
sub attainment {
  my ($run, @keys) = @_;
  my @sum = (0) x (1 + @keys);
  for my $seed (@seeds) {
    my $text = simulate(%$run, seed => $seed);
    my $k = 0;
    for my $key ('all', @keys) {
      my ($value) = $text =~ /"$key": ([-+.\de]+)/ or die "no $key in a report\n";
      $sum[$k++] += $value / @seeds;
    }
  }
  $sum[0] *= 100;
  return wantarray ? @sum : $sum[0];
}

# Rates are looked for on a grid of steps of 4 %; what its end still attains has no highest rate.
my $grid_steps = 160;
sub grid_rate { return 0.1 * 1.04**$_[0] }
sub highest_rate { return grid_rate($grid_steps - 1) }

# The highest rate with at least that attainment; what was looked at is kept in %$seen, by rate.
sub rate_at {
  my ($run, $percent, $seen) = @_;
  my ($low, $high) = (0, $grid_steps);
  while ($high - $low > 1) {
    my $middle = int(($low + $high) / 2);
    my $rate = grid_rate($middle);
    $seen->{$rate} //= attainment({%$run, rate => $rate});
    if ($seen->{$rate} >= $percent) { $low = $middle }
    else { $high = $middle }
  }
  return grid_rate($low);
}

# Calls the function for each task in processes of their own, as many as there are cores;
# answers are lists of numbers, in the order of the tasks.
sub parallel {
  my ($function, @tasks) = @_;
  my (%task_of, @answers);
  my $take = sub {
    my $pid = wait;
    die "a run failed\n" if $? != 0;
    open my $file, '<', "$folder/a$pid" or die "$folder/a$pid: $!\n";
    chomp(my @lines = <$file>);
    $answers[delete $task_of{$pid}] = \@lines;
  };
  for my $k (0 .. $#tasks) {
    $take->() if keys %task_of >= $jobs;
    my $pid = fork // die "fork: $!\n";
    if ($pid == 0) {
      my @values = eval { $function->($tasks[$k]) };
      my $failure = $@;
      warn $failure if $failure;
      open my $file, '>', "$folder/a$$" or POSIX::_exit(1);
      print $file "$_\n" for @values;
      POSIX::_exit(!close($file) || $failure ? 1 : 0); # the folder is the parent's
    }
    $task_of{$pid} = $k;
  }
  $take->() while %task_of;
  return @answers;
}

1;
