# SPDX-License-Identifier: Apache-2.0
# The papers' headline numbers: how a script reports one, and the rule which judges it (Page.pm has their page).
#
# headline() appends a line of JSON to the file named by HEADLINES in the environment, and does nothing without
# it. Only verdict() judges a number, never a script. verdict_before() is the rule from before 2026-11-29, kept so that
# both counts come from the same numbers.
package Headlines;
use strict;
use warnings;
use Exporter 'import';
use Fcntl qw(:flock);
use JSON::PP;
use Seeds qw(mean interval);
our @EXPORT_OK = qw(headline headline_of verdict verdict_before);

my @keys = qw(system claim where paper ours half unit);

# headline(system, claim, where in the paper, the paper's number, ours, half of its 95 % interval, unit, more). ours is
# at the paper's preset, etc/paper-NAME.ini.
# paper undef: the paper claims an effect without its size; `sign` is its direction. ours undef: not run. half undef: a
# single run. unit: 'x' is a ratio, where no effect is 1; for every other unit no effect is 0. more:
#
#   sign    1 or -1: the direction of the effect, where the paper has no number
#   says    the paper's words ("1.43 to 13.7x"), where they are more than a number
#   none    the value of no effect, where it is not the unit's (the baseline's); undef: there is none
#   bound   'most' or 'least': the paper's number is a limit which ours should keep, not an effect
#   near    the paper's number is a value which ours should equal within this share of it
#   note    a remark on ours for the reader
#   shipped, shipped_half  ours with etc/NAME.ini, and half its interval
#   base        our baseline's value, with its name and unit; paper_base: the same baseline's value in the paper
#   helped      advantages of ours on this engine which the baselines do not have
#   beyond      why the effect is more than twice the paper's
#   device      a sentence with a date: the experiment which shows that the simulated device causes the difference
sub headline {
  my %line;
  @line{@keys} = splice @_, 0, scalar @keys;
  %line = (%line, @_);
  my $path = $ENV{HEADLINES} // return;
  open my $file, '>>', $path or die "$path: $!\n";
  flock $file, LOCK_EX or die "$path: $!\n";
  print $file JSON::PP->new->canonical->encode(\%line), "\n";
  close $file or die "$path: $!\n";
}

# The same with a value for each seed in place of ours and half. The interval of ratios is computed of their logarithms
# (low to high): otherwise that of 3 and 12 would reach below 1.
sub headline_of {
  my ($system, $claim, $where, $paper, $values, $unit, @more) = @_;
  return headline($system, $claim, $where, $paper, undef, undef, $unit, @more) if !@$values;
  if ($unit eq 'x' && @$values > 1 && !grep { $_ <= 0 } @$values) {
    my @logs = map { log } @$values;
    my ($mean, $half) = (mean(@logs), interval(@logs));
    push @more, low => exp($mean - $half), high => exp($mean + $half);
  }
  headline($system, $claim, $where, $paper, mean(@$values), interval(@$values), $unit, @more);
}

sub none_of { my ($line) = @_; return exists $line->{none} ? $line->{none} : $line->{unit} eq 'x' ? 1 : 0 }

# A limit: met if kept; else in kind if better than no effect by more than the interval.
sub verdict_of_limit {
  my ($line, $ours, $half) = @_;
  my $sign = $line->{bound} eq 'most' ? 1 : -1;
  return 'met' if $sign * $ours <= $sign * $line->{paper};
  my $none = $line->{none} // return 'not met';
  return $sign * ($none - $ours) > $half ? 'in kind' : 'not met';
}

# The effect as a share of the paper's, or of 1 where the paper has no number; 0 if the interval includes no effect.
sub part_of_effect {
  my ($line) = @_;
  my $none = none_of($line) // 0;
  my $sign = $line->{sign} // ($line->{paper} < $none ? -1 : 1);
  my $effect = $sign * ($line->{ours} - $none);
  my $least = defined $line->{low} ? $sign * ($line->{$sign > 0 ? 'low' : 'high'} - $none) : $effect - ($line->{half} // 0);
  return 0 if $least <= 0 || $effect <= 0;
  return defined $line->{paper} ? $effect / abs($line->{paper} - $none) : 1;
}

# met: at least as far from no effect as the paper. in kind: an effect of the paper's sign which is smaller, but at
# least a tenth. open: not run.
sub verdict_before {
  my ($line) = @_;
  my $ours = $line->{ours} // return 'open';
  return abs($ours - $line->{paper}) <= $line->{near} * abs $line->{paper} ? 'met' : 'not met' if defined $line->{near};
  return verdict_of_limit($line, $ours, $line->{half} // 0) if defined $line->{bound};
  my $part = part_of_effect($line);
  return $part >= 1 ? 'met' : $part >= 0.1 ? 'in kind' : 'not met';
}

# The same, but an effect of more than twice the paper's is "beyond": mostly the baseline has collapsed rather than ours
# improved. A limit and a value to equal are never beyond. other device: a dated experiment shows that the simulated
# device causes the missing part.
sub verdict {
  my ($line) = @_;
  my $verdict = verdict_before($line);
  return 'other device' if $verdict =~ /\A(?:in kind|not met)\z/ && ($line->{device} // '') =~ /\b\d{4}-\d\d-\d\d\b/;
  return $verdict if $verdict ne 'met' || defined $line->{near} || defined $line->{bound};
  return part_of_effect($line) > 2 ? 'beyond' : 'met';
}

1;
