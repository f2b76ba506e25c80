# SPDX-License-Identifier: Apache-2.0
# Draws the main figure of a paper as a small SVG with gnuplot, into the folder which FIGURES names in the environment;
# does nothing without FIGURES or gnuplot. A system has the same colour (Okabe and Ito's) in all panels.
package Figure;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(figure can_draw);

my @hues = ('#000000', '#0072b2', '#d55e00', '#009e73', '#e69f00', '#56b4e9');

sub block { # of data: a row is a label or an x, then a value for each series
  my ($name, @rows) = @_;
  return "\$$name << EOD\n" . join('', map { my ($x, @y) = @$_;
      ($x =~ /^[\d.]+$/ ? $x : qq("$x")) . join('', map { " $_" } @y) . "\n" } @rows) . "EOD\n";
}

# Removes empty groups, which are two thirds of gnuplot's output.
sub drop_empty {
  my ($path) = @_;
  open my $in, '<', $path or die "$path: $!\n";
  my $svg = do { local $/; <$in> };
  1 while $svg =~ s{<g [^>]*>\s*</g>\n?}{}g;
  open my $out, '>', $path or die "$path: $!\n";
  print $out $svg;
  close $out or die "$path: $!\n";
}

sub can_draw { return scalar grep { -x "$_/gnuplot" } split /:/, $ENV{PATH} // '' }

# figure(name, kind, title of the y axis, [series], [title of a panel, row...], ...). kind: 'bars', a group for
# each row; 'curves', and 'log curves', whose rows begin with x.
sub figure {
  my ($name, $kind, $y, $series, @panels) = @_;
  my $folder = $ENV{FIGURES} // return;
  return if !can_draw();
  my $bars = $kind eq 'bars';
  my $script = "set terminal svg size " . 340 * @panels . ",320 background 'white' font 'sans,10'\nset output '$folder/$name.svg'\n"
    . "set multiplot layout 1," . @panels . "\nset key below\nset grid ytics\nset ylabel '$y'\n"
    . ($bars ? "set style data histogram\nset style histogram cluster gap 1\nset style fill solid 0.8\nset yrange [0:*]\n" : '')
    . ($kind =~ /^log/ ? "set logscale y\n" : '');
  for my $k (0 .. $#panels) {
    my ($title, @rows) = @{$panels[$k]};
    $script .= block("d$k", @rows) . "set title '$title'\nplot " . join(', ', map { my $column = $_ + 2;
      $bars ? "\$d$k using $column" . ($_ == 0 ? ':xtic(1)' : '') . " lc rgb '$hues[$_]' title '$series->[$_]'"
        : "\$d$k using 1:$column with linespoints pt 7 ps 0.4 lc rgb '$hues[$_]' title '$series->[$_]'" } 0 .. $#$series) . "\n";
  }
  open my $gnuplot, '|-', 'gnuplot' or die "gnuplot: $!\n";
  print $gnuplot $script, "unset multiplot\n";
  close $gnuplot or die "gnuplot: $name failed\n";
  drop_empty("$folder/$name.svg");
}

1;
