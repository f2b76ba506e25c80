# SPDX-License-Identifier: Apache-2.0
# Makes and judges one run of experiments/league: a policy, a workload, a load and a seed. A request is judged
# here by its deadlines and the times of its tokens, not by the simulator's report: the longest gap counts
# besides the P99 gap, and gaps of best-effort requests are not stalls.
package Runs;
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/../papers";
use AptServe ();
use Seeds qw(mean);
use Workloads qw(rows write_rows);
use Exporter 'import';
our @EXPORT_OK = qw(prepare run capacity simulate figures_of @figures);

# The columns of runs.csv, in order.
our @figures = qw(attained strict realtime goodput latency latency_p99 completion throughput stall wait worst_tenant
  preempted);
my $most_seconds = 40; # of processor time; what takes longer does not end, as far as the league is concerned
my ($root, $build, $quick, $folder);

sub prepare {
  ($root, $build, $quick) = @_;
  $folder = tempdir(CLEANUP => 1);
}

# The model, with another number of positions if the workload sets one.
sub model_of {
  my ($name, $positions) = @{$_[0]{model}};
  return $name if !defined $positions;
  my $path = "$folder/$name-$positions";
  return $path if -e "$path/config.json";
  open my $in, '<', "$root/etc/profiles/models/$name/config.json" or die "$name: $!\n";
  my $text = do { local $/; <$in> };
  $text =~ s/("max_position_embeddings": )\d+/$1$positions/ or die "$name: no max_position_embeddings\n";
  mkdir $path;
  open my $out, '>', "$path/config.json.$$" or die "$path: $!\n";
  print $out $text;
  close $out or die "$path: $!\n";
  rename "$path/config.json.$$", "$path/config.json" or die "$path: $!\n";
  return $path;
}

# Predicted lengths with a deviation of the logarithm, the same for all policies which use them: 0.6 is what a
# good predictor reaches on chats (bench/predictor).
sub predictions {
  my ($path, $deviation, @rows) = @_;
  my $g = Mt19937->new(4242);
  open my $file, '>', $path or die "$path: $!\n";
  for (@rows) {
    my $z = sqrt(2 * $g->exponential) * cos(6.283185307179586 * $g->uniform);
    my $length = int($_->{out} * exp($deviation * $z) + 0.5) || 1;
    print $file "$_->{label},$length\n";
  }
  close $file or die "$path: $!\n";
  return ('--set', 'plugins.predictor=fixed', '--set', "predictor.fixed.file=$path");
}

sub settings { return map { ('--set', $_) } @_ }

# Without given predictions the predictor is off: retrieval learns in its own thread, so that no two runs are equal.
sub unpredicted {
  my ($p) = @_;
  open my $file, '<', "$root/etc/$p->{preset}.ini" or die "etc/$p->{preset}.ini: $!\n";
  return (grep { /^predictor = retrieval\b/ } <$file>) ? settings('plugins.predictor=none') : ();
}

# The simulator's options for a workload, and, if a policy is given, for the policy: its preset, settings, predictions,
# and two instances of which one is for prompts.
sub command {
  my ($w, $p, $rows) = @_;
  my $positions = $w->{model}[1] // 2048;
  my $split = $w->{split} && $p->{split};
  return ("$build/llmserve-sim", '--quiet', '-c', "$root/etc/$p->{preset}.ini", '--model', model_of($w), '--profile', $w->{profile},
    '--ranks', $w->{ranks} // 1, write_rows("$folder/$$.trace", $w, @$rows),
    settings('engine.max_sequences=256', "engine.max_context=$positions", 'engine.max_step_tokens=' . ($w->{step} // 8192),
      ($split ? 'engine.roles=prefill,decode' : $w->{split} ? ('engine.instances=2', 'engine.roles=') : 'engine.roles=')),
    ($p->{host} ? settings('cache.host_memory=8GiB') : ()),
    (!defined $p->{predicted} ? () : $rows->[0]{hashes} ? unpredicted($p) : predictions("$folder/$$.lengths", $p->{predicted}, @$rows)),
    (map { s/POSITIONS/$positions/r } @{$p->{more} // []}),
    (grep { $_->{hashes} || $_->{prefix} } @$rows) ? @{$p->{alike} // []} : ());
}

# Runs the simulator. Returns the report's text; undef if it took too long.
sub report {
  my @command = @_;
  my $json = "$folder/$$.json";
  my $rc = system('sh', '-c', 'ulimit -t "$1"; shift; exec "$@"', 'sh', $most_seconds, @command, '--json', $json);
  return if ($rc & 127) == 9 || ($rc & 127) == 24 || $rc >> 8 == 137 || $rc >> 8 == 152;
  $rc == 0 or die "@command failed\n";
  open my $file, '<', $json or die "$json: $!\n";
  local $/;
  my $text = <$file>;
  unlink $json;
  return $text;
}

# The device's capacity: requests/s of a server which always has waiting requests, with the better of two plain
# policies. The last tenth is left out, since the device is not full then.
sub capacity {
  my ($w) = @_;
  my $best = 0;
  for my $preset (qw(sarathi fcfs)) {
    my @rows = rows($w, 3, $quick);
    my $text = report(command($w, {preset => $preset}, \@rows), qw(--arrivals once --save-detailed)) // next;
    my @ends = sort { $a <=> $b } list($text, 'latencies');
    my $k = int(0.9 * $#ends);
    my $rate = ($k + 1) / $ends[$k];
    $best = $rate if $rate > $best;
  }
  return $best;
}

# ---- what is judged ---------------------------------------------------------------------------
sub list {
  my ($text, $key) = @_;
  my ($all) = $text =~ /"$key": \[([^\]]*)\]/ or die "no $key in a report\n";
  return split /,/, $all =~ tr/ \n//dr;
}

sub number {
  my ($text, $key) = @_;
  my ($value) = $text =~ /"$key": ([-+.\de]+)/ or die "no $key in a report\n";
  return $value;
}

sub percentile {
  my ($share, @sorted) = @_;
  my $at = int($share * @sorted + 0.999999) - 1;
  return $sorted[$at < 0 ? 0 : $at];
}

# Judges one request: whether it kept its deadlines, whether with every gap in time, and its longest gap.
sub judge {
  my ($r, $first, $latency, $gaps) = @_;
  my @gaps = sort { $a <=> $b } @$gaps;
  my $longest = @gaps ? $gaps[-1] : 0;
  my $late = defined $r->{ttft} && $r->{ttft} ne '' && 1e3 * $first > $r->{ttft};
  $late ||= asked($r, 'completion') && 1e3 * $latency > $r->{completion};
  $late ||= asked($r, 'tpot') && @gaps && 1e3 * ($latency - $first) / @gaps > $r->{tpot};
  my $met = !$late && !(asked($r, 'tbt') && @gaps && 1e3 * percentile(0.99, @gaps) > $r->{tbt});
  my $strict = !$late && !(asked($r, 'tbt') && 1e3 * $longest > $r->{tbt}) && !(asked($r, 'tpot') && 1e3 * $longest > $r->{tpot});
  return ($met, $strict, $longest);
}

sub asked { my ($r, $key) = @_; return defined $r->{$key} && $r->{$key} ne '' }

sub share { my ($of, $n) = @_; return $n ? 100 * $of / $n : undef }

# Runs rows under a policy. Returns the first token, latency, gaps and tokens of each row, and the figures of the run, or
# nothing if the run did not end. Rows are a second apart on average; `scale` is the length of that second.
sub simulate {
  my ($w, $p, $rows, $scale) = @_;
  my $text = report(command($w, $p, $rows), '--time-scale', sprintf('%.9g', $scale), '--save-detailed') // return;
  my %x = (first => [list($text, 'ttfts')], latency => [list($text, 'latencies')], out => [list($text, 'output_lens')]);
  my ($gaps) = $text =~ /"itls": \[(.*?)\]\s*\]/s;
  $x{gaps} = [map { [/([-+.\de]+)/g] } split /\]/, $gaps];
  @{$x{first}} == @$rows or die "$w->{name}: a report of " . @{$x{first}} . ' requests, not ' . @$rows . "\n";
  $x{$_} = number($text, $_) for qw(duration total_token_throughput);
  $x{preempted} = number($text, 'preemptions_recompute') + number($text, 'preemptions_swap');
  return \%x;
}

# Returns the figures of a run, undef where a figure has no meaning; nothing if the run did not end.
sub run {
  my ($w, $p, $load, $seed, $rate) = @_;
  my @rows = rows($w, $seed, $quick);
  my $x = simulate($w, $p, \@rows, ($p->{alone} ? 1000 : 1) / ($load * $rate)) // return;
  return figures_of(\@rows, $x, $p->{alone});
}

sub figures_of {
  my ($rows, $x, $alone) = @_;
  my @rows = @$rows;
  my (%n, %met, %tenant, @normalised, $stall, $wait, $tokens, $completion);
  $stall = $wait = $tokens = $completion = 0;
  for my $k (0 .. $#rows) {
    my ($r, $first, $latency, $out) = ($rows[$k], map { $x->{$_}[$k] } qw(first latency out));
    my $done = $out > 0;
    my ($met, $strict, $longest) = $done ? judge($r, $first, $latency, $x->{gaps}[$k] // []) : (0, 0, 0);
    $tokens += $met ? $out : 0;
    push @normalised, $done ? 1e3 * $latency / $out : 1e6;
    $completion += $done ? $latency : 1e3;
    if ($r->{class} ne 'best_effort') {
      $stall = $longest if $longest > $stall;
      $wait = $first if $first > $wait;
    }
    my $asks = grep { asked($r, $_) } qw(ttft tbt tpot completion);
    next if !$asks;
    for ('all', $r->{class} eq 'realtime' ? 'realtime' : ()) {
      $n{$_}++;
      $met{$_} += $met;
      $met{"strict $_"} += $strict;
    }
    $tenant{$r->{tenant}}[$_] += (1, $met)[$_] for $r->{tenant} ? (0, 1) : ();
  }
  @normalised = sort { $a <=> $b } @normalised;
  my ($worst) = sort { $a <=> $b } map { share($_->[1], $_->[0]) } grep { $_->[0] >= 10 } values %tenant;
  return (share($met{all}, $n{all}), share($met{'strict all'}, $n{all}), share($met{realtime}, $n{realtime}),
    $n{all} && !$alone ? $tokens / $x->{duration} : undef, mean(@normalised), percentile(0.99, @normalised), $completion / @rows,
    $alone ? undef : $x->{total_token_throughput}, $stall, $wait, $worst, $x->{preempted});
}

1;
