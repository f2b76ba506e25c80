# SPDX-License-Identifier: Apache-2.0
# For all scripts of experiments/papers: makes runs for several seeds in parallel, and means with 95 % intervals.
#
# JOBS in the environment is the number of parallel runs (default: the number of cores), SEEDS the most seeds which a
# script uses.
package Seeds;
use strict;
use warnings;
use Exporter 'import';
use File::Temp qw(tempdir);
use JSON::PP;
use POSIX ();
our @EXPORT_OK = qw(mean interval mean_interval plus_minus ratios side_by_side lists_side_by_side
  first_seeds);

# 97.5 % of Student's t with n - 1 degrees of freedom, n the index.
my @student = (undef, undef, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262);

sub mean { my $sum = 0; $sum += $_ for @_; return $sum / @_ }

# Half of the 95 % interval of a mean; 0 for a single value, whose interval is unknown.
sub interval {
  return 0 if @_ < 2;
  my ($mean, $squares) = (mean(@_), 0);
  $squares += ($_ - $mean)**2 for @_;
  return ($student[@_] // 2.2) * sqrt($squares / (@_ - 1) / @_);
}

sub mean_interval { return (mean(@_), interval(@_)) }

# "mean+-half" with the given number of decimals.
sub plus_minus { my $digits = shift; return sprintf "%.${digits}f+-%.${digits}f", mean_interval(@_) }

# Ratios of two lists of values, seed by seed.
sub ratios { my ($x, $y) = @_; return map { $x->[$_] / $y->[$_] } 0 .. $#$x }

# The first seeds of a list, at most SEEDS of them.
sub first_seeds {
  my $most = $ENV{SEEDS} // @_;
  return @_[0 .. ($most < @_ ? $most : @_) - 1];
}

my $folder;

# The results of work(item) in the order of the items, each computed in its own process; a result must be
# representable in JSON.
sub side_by_side {
  my ($work, @items) = @_;
  chomp(my $jobs = $ENV{JOBS} // `nproc`);
  $folder //= tempdir(CLEANUP => 1);
  my (%item_of, @results);
  my $take = sub {
    my $pid = wait;
    die "a run failed\n" if $? != 0;
    my $path = "$folder/$pid";
    open my $file, '<', $path or die "$path: $!\n";
    $results[delete $item_of{$pid}] = decode_json(do { local $/; <$file> })->[0];
    unlink $path;
  };
  for my $i (0 .. $#items) {
    $take->() if keys %item_of >= $jobs;
    my $pid = fork // die "fork: $!\n";
    if ($pid == 0) {
      my $result = eval { $work->($items[$i]) };
      my $failure = $@;
      warn $failure if $failure;
      open my $file, '>', "$folder/$$" or POSIX::_exit(1);
      print $file encode_json([$result]);
      POSIX::_exit(!close($file) || $failure ? 1 : 0); # the folder is the parent's
    }
    $item_of{$pid} = $i;
  }
  $take->() while %item_of;
  return @results;
}

# The same for work which returns a list: references to the lists.
sub lists_side_by_side {
  my ($work, @items) = @_;
  return side_by_side(sub { [$work->(@_)] }, @items);
}

1;
