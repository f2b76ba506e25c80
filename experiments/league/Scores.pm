# SPDX-License-Identifier: Apache-2.0
# Scores of experiments/league: cells (a policy at a workload and load, over the seeds), how far each is from
# the best of its cell, ranks. Only policies of the table compete for `best`: rows of one policy under
# another estimate are rows like all others.
package Scores;
use strict;
use warnings;
use Seeds qw(mean interval);

# kind: points (percent, more is better), more (a rate), less (a time). Differences below `floor` count as none, so
# that 1 ms of waiting is not ten times worse than 0.1 ms.
our %figure = (
  attained => {title => 'attained %', kind => 'points'},
  strict => {title => 'every gap %', kind => 'points'},
  realtime => {title => 'real time %', kind => 'points', unranked => 1},
  goodput => {title => 'goodput tok/s', kind => 'more', floor => 1, unranked => 1},
  latency => {title => 'latency ms/tok', kind => 'less', floor => 1},
  latency_p99 => {title => 'its P99', kind => 'less', floor => 1},
  completion => {title => 'completion s', kind => 'less', floor => 0.01},
  throughput => {title => 'tokens/s', kind => 'more', floor => 1},
  stall => {title => 'stall s', kind => 'less', floor => 0.2},
  wait => {title => 'wait s', kind => 'less', floor => 0.5},
  worst_tenant => {title => 'worst tenant %', kind => 'points', unranked => 1},
  preempted => {title => 'preempted', kind => 'none'},
);
my $unended = 100; # times the best

# {policies, workloads, loads, figures, cell => {policy}{workload}{load}{figure => [mean, half of its
# interval]}, best => {workload}{load}{figure}, summary => {policy => {...}}}
sub of {
  my ($recorded, $known, $policies, $workloads, $loads, $seeds, $figures) = @_;
  my %s = (bound => {map { $_->{name} => $_->{bound} } @$policies});
  $policies = [map { $_->{name} } @$policies];
  %s = (%s, known => $known, seeds => $seeds, policies => $policies, workloads => $workloads, loads => $loads, figures => $figures);
  for my $p (@$policies) {
    for my $w (@$workloads) {
      for my $load (@$loads) {
        my @runs = grep { defined } map { $known->{"$p|$w->{name}|$load|$_"} } @$seeds;
        my $cell = $recorded->{$p}{$w->{name}}{$load}; # of all seeds; runs of some of them would be no match
        $cell = cell($figures, @runs) if @runs && (@runs == @$seeds || !$cell);
        $s{cell}{$p}{$w->{name}}{$load} = $cell if $cell;
      }
    }
  }
  find_best(\%s);
  rank(\%s);
  $s{summary}{$_} = summary(\%s, $_) for @$policies;
  return \%s;
}

sub cell {
  my ($figures, @runs) = @_;
  my $unended = grep { !$_->[0] } @runs;
  return {unended => $unended} if $unended;
  my %c;
  for my $k (0 .. $#$figures) {
    my @values = grep { $_ ne '' } map { $_->[1 + $k] // '' } @runs;
    $c{$figures->[$k]} = [mean(@values), interval(@values)] if @values;
  }
  return \%c;
}

# Reads the cells which write_cells wrote: {policy}{workload}{load}.
sub read_cells {
  my ($figures, @rows) = @_;
  my %cells;
  for (@rows) {
    my ($p, $w, $load, undef, @values) = @$_;
    my %c = map { my @v = @values[3 * $_, 3 * $_ + 1]; ($v[0] // '') ne '' ? ($figures->[$_] => \@v) : () } 0 .. $#$figures;
    $cells{$p}{$w}{$load} = %c ? \%c : {unended => 1};
  }
  return %cells;
}

sub cells_of { # [workload, load, cell] of a policy
  my ($s, $p) = @_;
  return map { my $w = $_->{name}; map { my $c = $s->{cell}{$p}{$w}{$_}; $c ? [$w, $_, $c] : () } @{$s->{loads}} } @{$s->{workloads}};
}

sub competitors { my ($s) = @_; return grep { !$s->{bound}{$_} } @{$s->{policies}} }

sub find_best {
  my ($s) = @_;
  for my $p (competitors($s)) {
    for (cells_of($s, $p)) {
      my ($w, $load, $c) = @$_;
      for my $f (grep { $c->{$_} } @{$s->{figures}}) {
        my $best = \$s->{best}{$w}{$load}{$f};
        my $x = $c->{$f}[0];
        $$best = $x if !defined $$best || ($figure{$f}{kind} eq 'less' ? $x < $$best : $x > $$best);
      }
    }
  }
}

# Points behind the best, or the ratio to it; undef where the figure has no meaning.
sub behind {
  my ($s, $w, $load, $c, $f) = @_;
  my ($best, $kind) = ($s->{best}{$w}{$load}{$f}, $figure{$f}{kind});
  return if !defined $best || $kind eq 'none';
  return $kind eq 'points' ? $best : $unended if $c->{unended};
  return if !$c->{$f};
  my $x = $c->{$f}[0];
  return $best - $x if $kind eq 'points';
  ($x, $best) = map { $_ < $figure{$f}{floor} ? $figure{$f}{floor} : $_ } $x, $best;
  my $ratio = $kind eq 'less' ? $x / $best : $best / $x;
  return $ratio > $unended ? $unended : $ratio;
}

# The ranks of the policies in each cell and figure; equal policies share a rank.
sub rank {
  my ($s) = @_;
  for my $w (map { $_->{name} } @{$s->{workloads}}) {
    for my $load (@{$s->{loads}}) {
      for my $f (grep { $figure{$_}{kind} ne 'none' && !$figure{$_}{unranked} } @{$s->{figures}}) {
        my %behind;
        for my $p (competitors($s)) {
          my $c = $s->{cell}{$p}{$w}{$load} or next;
          my $x = behind($s, $w, $load, $c, $f);
          $behind{$p} = sprintf '%.9g', $x if defined $x;
        }
        for my $p (keys %behind) {
          my $better = grep { $_ < $behind{$p} } values %behind;
          my $equal = grep { $_ == $behind{$p} } values %behind;
          push @{$s->{ranks}{$p}{$f}}, $better + ($equal + 1) / 2;
        }
      }
    }
  }
}

sub summary {
  my ($s, $p) = @_;
  my (%sum, @ranks);
  for my $f (@{$s->{figures}}) {
    my $points = $figure{$f}{kind} eq 'points';
    my @x = grep { defined } map { behind($s, @$_, $f) } cells_of($s, $p);
    next if !@x;
    my ($worst) = sort { $b <=> $a } @x;
    $sum{$f} = [$points ? mean(@x) : exp mean(map { log } @x), $worst];
  }
  push @ranks, @{$s->{ranks}{$p}{$_}} for sort keys %{$s->{ranks}{$p}};
  my @cells = cells_of($s, $p);
  $sum{rank} = @ranks ? mean(@ranks) : 0;
  $sum{unended} = grep { $_->[2]{unended} } @cells;
  ($sum{longest_stall}) = sort { $b <=> $a } map { $_->[2]{stall} ? $_->[2]{stall}[0] : () } @cells;
  ($sum{longest_wait}) = sort { $b <=> $a } map { $_->[2]{wait} ? $_->[2]{wait}[0] : () } @cells;
  return \%sum;
}

sub in_order { # by rank, then bounds
  my ($s) = @_;
  my @ranked = grep { $s->{ranks}{$_} } competitors($s);
  return ((sort { $s->{summary}{$a}{rank} <=> $s->{summary}{$b}{rank} || $a cmp $b } @ranked), grep { $s->{bound}{$_} } @{$s->{policies}});
}

# ---- what is printed --------------------------------------------------------------------------
sub table {
  my ($s, $about) = @_;
  my $text = "$about\nPoints behind the best of each cell, mean (worst); else times the best, geometric mean (worst)\n\n";
  my @columns = grep { $figure{$_}{kind} ne 'none' } @{$s->{figures}};
  $text .= sprintf '%-20s %5s %s %9s %9s' . "\n", 'policy', 'rank', join(' ', map { sprintf '%14s', $figure{$_}{title} } @columns), 'stall s', 'wait s';
  for my $p (in_order($s)) {
    my $sum = $s->{summary}{$p};
    my @values = map {
      my $x = $sum->{$_};
      sprintf '%14s', !$x ? '-' : $figure{$_}{kind} eq 'points' ? sprintf('%.1f (%.0f)', @$x) : sprintf '%.2fx (%.1f)', @$x;
    } @columns;
    $text .= sprintf "%-20s %5.2f %s %9.1f %9.1f%s\n", $p, $sum->{rank}, join(' ', @values), $sum->{longest_stall} // 0,
      $sum->{longest_wait} // 0, $sum->{unended} ? "  $sum->{unended} cells did not end" : '';
  }
  return $text;
}

# The differences x - y of a figure of two policies in a cell, seed by seed; nothing if one of them was not run here.
sub paired {
  my ($s, $w, $load, $k, @policies) = @_;
  my @differences = map {
    my $seed = $_;
    my ($x, $y) = map { ($s->{known}{"$_|$w|$load|$seed"} // [])->[1 + $k] } @policies;
    ($x // '') ne '' && ($y // '') ne '' ? $x - $y : ()
  } @{$s->{seeds}};
  return @differences == @{$s->{seeds}} && @differences > 1 ? @differences : ();
}

# The figures in which x is better, and worse, than y. If both were run here, the interval of their differences seed by
# seed decides, since a seed gives both the same requests; otherwise their intervals must not overlap.
sub apart {
  my ($s, $w, $load, @policies) = @_;
  my ($x, $y) = map { $s->{cell}{$_}{$w}{$load} } @policies;
  my @sides = ([], []);
  for my $k (0 .. $#{$s->{figures}}) {
    my $f = $s->{figures}[$k];
    next if !$x->{$f} || !$y->{$f} || $figure{$f}{unranked} || $figure{$f}{kind} eq 'none';
    my @paired = paired($s, $w, $load, $k, @policies);
    my ($difference, $half) = @paired ? (mean(@paired), interval(@paired)) : ($x->{$f}[0] - $y->{$f}[0], $x->{$f}[1] + $y->{$f}[1]);
    next if abs $difference <= $half;
    push @{$sides[($difference < 0) != ($figure{$f}{kind} eq 'less')]}, sprintf '%s %.4g/%.4g', $f, $x->{$f}[0], $y->{$f}[0];
  }
  return @sides;
}

sub at_home {
  my ($s, $p) = @_;
  my $text = "\n$p at home: figures of it and of the paper's own policy, where they differ by more than the seeds' interval\n";
  for my $w (grep { $_->{home} } @{$s->{workloads}}) {
    for my $own (grep { /^\Q$w->{home}\E\b/ && $_ ne $p } @{$s->{policies}}) {
      for my $load (@{$s->{loads}}) {
        my ($x, $y) = map { $s->{cell}{$_}{$w->{name}}{$load} } $p, $own;
        next if !$x || !$y || $x->{unended} || $y->{unended};
        my ($better, $worse) = map { join(', ', @$_) || '-' } apart($s, $w->{name}, $load, $p, $own);
        $text .= sprintf "%-15s %-4s %-13s better: %s; worse: %s\n", $w->{name}, $load, $own, $better, $worse;
      }
    }
  }
  return $text;
}

sub write_cells {
  my ($path, $s) = @_;
  open my $file, '>', $path or die "$path: $!\n";
  print $file join(',', qw(policy workload load held_out), map { ($_, "${_}_half_interval", "${_}_behind") } @{$s->{figures}}), "\n";
  for my $p (@{$s->{policies}}) {
    for (cells_of($s, $p)) {
      my ($w, $load, $c) = @$_;
      my ($row) = grep { $_->{name} eq $w } @{$s->{workloads}};
      print $file join(',', "\"$p\"", $w, $load, $row->{held_out} // 0, map {
        my $behind = behind($s, $w, $load, $c, $_);
        ($c->{$_} ? map { sprintf '%.5g', $_ } @{$c->{$_}} : ('', ''), defined $behind ? sprintf '%.4g', $behind : '')
      } @{$s->{figures}}), "\n";
    }
  }
  close $file or die "$path: $!\n";
}

1;
