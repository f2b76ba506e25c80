# SPDX-License-Identifier: Apache-2.0
# The device of ALISE's experiments, for alise and alise-long.
package Alise;
use strict;
use warnings;
use Exporter 'import';
use FindBin;
our @EXPORT_OK = qw(v100_with_link);

# Writes the profile v100-32g, with the bandwidth of its host link multiplied, into a folder; returns its path. The
# card's own link is PCIe 3.0; the paper says PCIe 4.0 x16 (section 4.1), which has twice the bandwidth.
sub v100_with_link {
  my ($folder, $times) = @_;
  my ($from, $to) = ("$FindBin::Bin/../../etc/profiles/v100-32g.ini", "$folder/v100-32g-$times.ini");
  open my $in, '<', $from or die "$from: $!\n";
  my $text = do { local $/; <$in> };
  $text =~ s/^(\[host_link\]\n(?:;.*\n)*bandwidth = )([\d.]+)$/$1 . $times * $2/me or die "$from: no bandwidth of its host link\n";
  open my $out, '>', $to or die "$to: $!\n";
  print $out $text;
  close $out or die "$to: $!\n";
  return $to;
}

1;
