# SPDX-License-Identifier: Apache-2.0
# Writes the page of experiments/league: one HTML file with the table of all policies, tables of what each policy loses
# in each cell, and a plot for each workload. The page loads nothing from elsewhere.
package Page;
use strict;
use warnings;
use Scores ();

my @colours = map { "#$_" } qw(1b6ca8 d1495b 2e8b57 8a5a9e e08e1b 4a4a4a 0fa3b1 b5651d);
my $style = <<'END';
body{font:14px/1.4 sans-serif;max-width:1300px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:12px;margin:1em 0}td,th{padding:2px 6px;text-align:right;border:1px solid #ddd}
th{background:#f3f3f3}td:first-child,th:first-child{text-align:left}.p{display:inline-block;margin:4px}svg text{font:10px sans-serif}
END

sub escape { return $_[0] =~ s/&/&amp;/gr =~ s/</&lt;/gr }

# A colour from white (nothing lost) to red (`full` lost).
sub shade {
  my ($x, $full) = @_;
  my $part = $x / $full;
  $part = 0 if $part < 0;
  $part = 1 if $part > 1;
  return sprintf 'background:rgb(255,%d,%d)', 255 - 150 * $part, 255 - 170 * $part;
}

sub summary_table {
  my ($s) = @_;
  my @columns = grep { $Scores::figure{$_}{kind} ne 'none' } @{$s->{figures}};
  my $html = '<table><tr><th>policy</th><th>rank</th>' . join('', map { "<th>$Scores::figure{$_}{title}</th>" } @columns)
    . "<th>longest stall s</th><th>longest wait s</th></tr>\n";
  for my $p (Scores::in_order($s)) {
    my $sum = $s->{summary}{$p};
    $html .= sprintf '<tr><td>%s</td><td>%.2f</td>', escape($p), $sum->{rank};
    for (@columns) {
      my ($x, $points) = ($sum->{$_}, $Scores::figure{$_}{kind} eq 'points');
      $html .= !$x ? '<td>-</td>' : $points ? sprintf '<td style="%s">%.1f (%.0f)</td>', shade($x->[0], 40), @$x
        : sprintf '<td style="%s">%.2fx (%.1f)</td>', shade(log($x->[0]), log 4), @$x;
    }
    $html .= sprintf "<td>%.1f</td><td>%.1f</td></tr>\n", $sum->{longest_stall} // 0, $sum->{longest_wait} // 0;
  }
  return "$html</table>\n";
}

# A table of what each policy loses in each cell, for one figure.
sub cell_table {
  my ($s, $f) = @_;
  my @policies = Scores::in_order($s);
  my $points = $Scores::figure{$f}{kind} eq 'points';
  my $html = '<table><tr><th>workload</th><th>load</th><th>best</th>' . join('', map { '<th>' . escape($_) . '</th>' } @policies) . "</tr>\n";
  for my $w (@{$s->{workloads}}) {
    for my $load (@{$s->{loads}}) {
      my $best = $s->{best}{$w->{name}}{$load}{$f} // next;
      $html .= sprintf '<tr><td>%s%s</td><td>%s</td><td>%.4g</td>', $w->{name}, $w->{held_out} ? ' (held out)' : '', $load, $best;
      for my $p (@policies) {
        my $c = $s->{cell}{$p}{$w->{name}}{$load};
        my $x = $c ? Scores::behind($s, $w->{name}, $load, $c, $f) : undef;
        $html .= !defined $x ? '<td>-</td>' : sprintf '<td style="%s" title="%s">%s</td>', $points ? shade($x, 40) : shade(log($x), log 4),
          $c->{$f} ? sprintf('%.4g +- %.2g', @{$c->{$f}}) : 'did not end', $points ? sprintf '%.1f', $x : sprintf '%.2fx', $x;
      }
      $html .= "</tr>\n";
    }
  }
  return "$html</table>\n";
}

# A figure against load, with intervals; the first eight policies by rank.
sub plot {
  my ($s, $w, $f) = @_;
  my @policies = (Scores::in_order($s))[0 .. 7];
  my @points; # [policy's number, load, mean, half]
  for my $k (grep { defined $policies[$_] } 0 .. $#policies) {
    my $cells = $s->{cell}{$policies[$k]}{$w};
    push @points, map { $cells->{$_} && $cells->{$_}{$f} ? [$k, $_, @{$cells->{$_}{$f}}] : () } @{$s->{loads}};
  }
  return '' if !@points;
  my ($top) = sort { $b <=> $a } map { $_->[2] } @points;
  $top = $Scores::figure{$f}{kind} eq 'points' ? 100 : $top || 1;
  my ($low, $high) = (0.6, 1.4);
  my $x = sub { return 40 + 230 * ($_[0] - $low) / ($high - $low) };
  my $y = sub { my $v = $_[0] < 0 ? 0 : $_[0] > $top ? $top : $_[0]; return 150 - 130 * $v / $top };
  my $svg = sprintf '<svg width="280" height="180"><text x="40" y="12">%s: %s</text><path d="M40 20V150H270" fill="none" stroke="#999"/>'
    . '<text x="2" y="26">%.3g</text><text x="25" y="153">0</text>', $w, $Scores::figure{$f}{title}, $top;
  $svg .= sprintf '<text x="%.0f" y="164">%s</text>', $x->($_) - 6, $_ for @{$s->{loads}};
  for my $k (0 .. $#policies) {
    my @mine = grep { $_->[0] == $k } @points or next;
    my $colour = $colours[$k];
    $svg .= sprintf '<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>', $colour,
      join ' ', map { sprintf '%.1f,%.1f', $x->($_->[1]), $y->($_->[2]) } @mine;
    $svg .= sprintf '<path d="M%.1f %.1fV%.1f" stroke="%s"/>', $x->($_->[1]), $y->($_->[2] - $_->[3]), $y->($_->[2] + $_->[3]), $colour for @mine;
  }
  return "<span class=\"p\">$svg</svg></span>\n";
}

sub legend {
  my @policies = (Scores::in_order($_[0]))[0 .. 7];
  return '<p>' . join(' ', map { defined $policies[$_] ? "<b style=\"color:$colours[$_]\">" . escape($policies[$_]) . '</b>' : () } 0 .. 7) . "</p>\n";
}

# The cells in which the first policy loses most, in each figure.
sub worst_table {
  my ($s) = @_;
  my ($first) = Scores::in_order($s);
  my $html = sprintf "<h2>Where %s, the first, loses most</h2>\n<table><tr><th>figure</th><th>worst</th><th>second</th><th>third</th></tr>\n",
    escape($first // 'nobody');
  for my $f (grep { $Scores::figure{$_}{kind} ne 'none' } @{$s->{figures}}) {
    my @cells = map { my $x = Scores::behind($s, @$_, $f); defined $x ? [$x, @$_] : () } defined $first ? Scores::cells_of($s, $first) : ();
    @cells = sort { $b->[0] <=> $a->[0] || $a->[1] cmp $b->[1] || $a->[2] <=> $b->[2] } @cells or next;
    my $points = $Scores::figure{$f}{kind} eq 'points';
    $html .= "<tr><td>$Scores::figure{$f}{title}</td>" . join('', map {
      sprintf "<td style=\"%s\">$_->[1] $_->[2]: %s</td>", $points ? shade($_->[0], 40) : shade(log($_->[0]), log 4),
        sprintf $points ? '%.1f' : '%.2fx', $_->[0]
    } grep { defined } @cells[0 .. 2]) . "</tr>\n";
  }
  return "$html</table>\n";
}

# Closed loops of agents (experiments/league/agents --csv): times the best of a cell, the mean and the worst cell.
sub agents_table {
  my @figures = ('returning, p50', 'returning, P99', 'first turn, P99', 'gap P99', 'turn', 'hits');
  my (%cells, %ratios, @policies);
  push @{$cells{"$_->[0], $_->[1]"}}, $_ for @_;
  for my $cell (sort keys %cells) {
    for my $k (0 .. $#figures) {
      my ($best) = sort { $k == $#figures ? $b <=> $a : $a <=> $b } map { $_->[3 + $k] } @{$cells{$cell}};
      push @{$ratios{$_->[2]}[$k]}, [$k == $#figures ? $best / ($_->[3 + $k] || 1e-9) : $_->[3 + $k] / ($best || 1e-9), $cell] for @{$cells{$cell}};
    }
  }
  my %seen;
  @policies = grep { !$seen{$_}++ } map { $_->[2] } @_;
  my $html = "<h2>Agents in closed loops</h2>\n<p>Times the best of a cell, geometric mean (worst cell).</p>\n<table><tr><th>policy</th>"
    . join('', map { "<th>$_</th>" } @figures) . "</tr>\n";
  for my $p (@policies) {
    $html .= '<tr><td>' . escape($p) . '</td>';
    for my $all (@{$ratios{$p}}) {
      my ($worst) = sort { $b->[0] <=> $a->[0] } @$all;
      my $sum = 0;
      $sum += log $_->[0] for @$all;
      $html .= sprintf '<td style="%s">%.2fx (%.1f %s)</td>', shade($sum / @$all, log 4), exp($sum / @$all), @$worst;
    }
    $html .= "</tr>\n";
  }
  return "$html</table>\n";
}

sub write_page {
  my ($path, $s, $about, $rate, @agents) = @_;
  my $html = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>llmserve: league of policies</title><style>$style</style>\n"
    . "<h1>League of policies</h1><p>$about. experiments/league/league says what each word means.</p>\n"
    . worst_table($s) . (@agents ? agents_table(@agents) : '') . '<h2>All policies</h2>'
    . "<p>Points behind the best of each cell, mean (worst); else times the best, geometric mean (worst).</p>\n" . summary_table($s);
  for my $f (qw(attained latency)) {
    $html .= "<h2>$Scores::figure{$f}{title} against load</h2>\n" . legend($s) . join '', map { plot($s, $_->{name}, $f) } @{$s->{workloads}};
  }
  for my $f (grep { $Scores::figure{$_}{kind} ne 'none' } @{$s->{figures}}) {
    $html .= "<h2>$Scores::figure{$f}{title}: behind the best</h2>\n" . cell_table($s, $f);
  }
  $html .= '<h2>Capacity</h2><table><tr><th>workload</th><th>requests/s at load 1</th></tr>'
    . join('', map { "<tr><td>$_->{name}</td><td>$rate->{$_->{name}}</td></tr>" } @{$s->{workloads}}) . "</table></html>\n";
  open my $file, '>', $path or die "$path: $!\n";
  print $file $html;
  close $file or die "$path: $!\n";
}

1;
