# SPDX-License-Identifier: Apache-2.0
# The page of all headline numbers: a line for each, those of this run over those kept of earlier ones.
#
# A number is known by its system and claim. What is kept has the date and the command it is of, and the page says
# so on its line: nothing of another day stands there as if it were of this one.
package Page;
use strict;
use warnings;
use Exporter 'import';
use JSON::PP;
use Headlines qw(verdict);
our @EXPORT_OK = qw(read_lines write_lines over page counts reasons proved);

our @systems = ('Apt-Serve', 'BROS', 'ALISE', 'AlignedServe', 'AccelGen');
my %pages = ('Apt-Serve' => 'apt-serve', BROS => 'bros', ALISE => 'alise', AlignedServe => 'aligned', AccelGen => 'accelgen');
our @verdicts = ('met', 'in kind', 'not met', 'open');

# Lines of a file that headline() wrote, or of kept records; none of a file that is not there.
sub read_lines {
  my ($path) = @_;
  open my $file, '<', $path or return;
  return map { decode_json($_) } grep { /\S/ } <$file>;
}

sub write_lines {
  my ($path, @lines) = @_;
  my $json = JSON::PP->new->canonical;
  open my $file, '>', $path or die "$path: $!\n";
  print $file map { $json->encode($_) . "\n" } @lines;
  close $file or die "$path: $!\n";
}

sub key { my ($line) = @_; return "$line->{system}\n$line->{claim}" }

# The kept lines in their order, each replaced by the fresh one of the same number where there is one; then what is
# new. A fresh line has no date: it is of this run.
sub over {
  my ($kept, $fresh) = @_;
  my %fresh = map { key($_) => $_ } @$fresh;
  my %kept = map { key($_) => 1 } @$kept;
  my %seen;
  return ((map { $fresh{key($_)} // $_ } @$kept), map { $fresh{key($_)} } grep { !$kept{key($_)} && !$seen{key($_)}++ } @$fresh);
}

sub counts {
  my %count = map { $_ => 0 } @verdicts;
  $count{verdict($_)}++ for @_;
  return %count;
}

# ---- why ------------------------------------------------------------------------------------
# reasons(folder): of each system its newest page, NAME-DATE.md, and the claims that it shows the why of: the first cells of
# those rows of its tables that have a command in backticks, `NAME build PART`. Such a cell is what a claim begins with, or
# several with a semicolon between them. And what has changed since: its paragraph that begins with **Since.
sub reasons {
  my ($folder) = @_;
  my %reasons;
  for my $system (@systems) {
    my ($newest) = reverse sort grep { m{/\Q$pages{$system}\E-\d{4}-\d\d-\d\d\.md\z} } glob "$folder/$pages{$system}-*.md";
    open my $page, '<', $newest // next or die "$newest: $!\n";
    my $text = do { local $/; <$page> };
    my @cells = map { /^\| (\S.*?) \|.*`[^`]* build\b[^`]*`/ ? $1 : () } split /^/, $text;
    my ($since) = $text =~ /^(\*\*Since .*?\n)\n/ms;
    $reasons{$system} = {page => $newest =~ s{.*/}{}r, claims => [map { split /(?:\.\.\.)?(?:; |\z)/ } @cells], since => $since};
  }
  return \%reasons;
}

# The page of its system shows why a number is not the paper's: 1, else 0.
sub proved {
  my ($line, $reasons) = @_;
  my $of = $reasons->{$line->{system}} // return 0;
  return scalar(grep { index($line->{claim}, $_) == 0 } @{$of->{claims}}) ? 1 : 0;
}

# ---- cells ------------------------------------------------------------------------------------
sub digits { # after the point, so that two or three are shown
  my $size = abs $_[0];
  return $size >= 100 ? 0 : $size >= 10 ? 1 : $size >= 0.1 ? 2 : $size > 0 ? 2 - int(log($size) / log 10) : 0;
}

sub with_unit {
  my ($number, $unit) = @_;
  return $number . ($unit eq 'x' ? 'x' : $unit eq '' ? '' : " $unit");
}

sub number {
  my ($x, $line) = @_;
  return $x if $line->{unit} =~ /^of /;
  my $effect = $line->{unit} =~ /^(?:%|points)$/ && !defined $line->{bound} && !defined $line->{near};
  return sprintf '%' . ($effect ? '+' : '') . '.' . digits($x) . 'f', $x;
}

sub paper_cell {
  my ($line) = @_;
  return $line->{says} if defined $line->{says};
  my $sign = $line->{paper} > 0 && number(1, $line) =~ /^\+/ ? '+' : '';
  return with_unit("$sign$line->{paper}", $line->{unit});
}

sub interval_cell {
  my ($line) = @_;
  return '' if !defined $line->{ours} || !defined $line->{half} || $line->{half} == 0;
  return join ' to ', map { sprintf '%.' . digits($_) . 'f', $_ } @$line{qw(low high)} if defined $line->{low};
  return '+- ' . sprintf '%.' . digits($line->{ours}) . 'f', $line->{half};
}

# A mark for each pair of date and command, in the order of their first use.
sub mark_of {
  my ($line, $marks) = @_;
  return '' if !defined $line->{date};
  my $text = "$line->{date}, " . ($line->{command} =~ /\s/ ? "`$line->{command}`" : $line->{command});
  push @$marks, $text if !grep { $_ eq $text } @$marks;
  my ($i) = grep { $marks->[$_] eq $text } 0 .. $#$marks;
  return ' [' . ($i + 1) . ']';
}

sub row {
  my ($line, $marks, $reasons) = @_;
  my $ours = defined $line->{ours} ? with_unit(number($line->{ours}, $line), $line->{unit}) . mark_of($line, $marks) : '';
  my $verdict = verdict($line);
  my $claim = $line->{claim} . (defined $line->{note} ? " ($line->{note})" : '');
  my $shown = $verdict =~ /not met|in kind/ && proved($line, $reasons) ? ', shown' : '';
  $verdict = "**$verdict**" if $verdict eq 'not met';
  $verdict .= $shown;
  return '| ' . join(' | ', $claim, $line->{where}, paper_cell($line), $ours, interval_cell($line), $verdict) . " |\n";
}

# ---- the page -----------------------------------------------------------------------------------
my $rule = <<'END';
The verdict is a rule's (bench/papers/Headlines.pm), and nobody's. *met*: as far from no effect as the paper, or
farther; a limit is kept. *in kind*: the effect is there, smaller, but no less than a tenth of the paper's; a limit is not
kept, but better than without. *not met*: less, the opposite, or an interval of 95 % that reaches no effect. *open*: not run.
No effect is a ratio of 1, a difference of 0. Ours is the mean over seeds; the interval is Student's, that of a ratio from its
logarithm; without one there was one seed, or the number has none. *shown*: the system's page has an experiment, with its
command, of what keeps the number from the paper's. Of a range the paper's ends stand beside the least and
the most that is gained over any of those it is compared with.
END

sub not_met_but_proved { my ($reasons, @lines) = @_; return scalar grep { verdict($_) eq 'not met' && proved($_, $reasons) } @lines }

sub table_of_counts {
  my ($reasons, @lines) = @_;
  my $text = '| | ' . join(' | ', @verdicts) . " | not met, and shown why |\n|" . ' --- |' x 6 . "\n";
  for my $system (@systems) {
    my @own = grep { $_->{system} eq $system } @lines;
    my %count = counts(@own);
    $text .= "| $system | " . join(' | ', map { $_ || '' } @count{@verdicts}, not_met_but_proved($reasons, @own)) . " |\n";
  }
  return $text;
}

# page(measured, lines, figures, reasons): measured is what the page says of the run, figures are paths beside the page by
# system, reasons as above.
sub page {
  my ($measured, $lines, $figures, $reasons) = @_;
  my %count = counts(@$lines);
  my $proved = not_met_but_proved($reasons, @$lines);
  my @marks;
  my $text = "# The papers' headline numbers, one line each\n\n**Measured:** $measured  \n"
    . "**Result:** of " . @$lines . " headline numbers $count{met} are met, $count{'in kind'} in kind, "
    . "$count{'not met'} are not met, $count{open} open.  \n"
    . "**Not met:** see the lines. Of $proved the system's page has an experiment that shows why.\n\n$rule\n" . table_of_counts($reasons, @$lines);
  for my $system (@systems) {
    my $why = $reasons->{$system};
    $text .= "\n## $system\n\n" . ($why ? "Why, and how it was run: [$why->{page}]($why->{page})\n\n" : '')
      . (defined $why->{since} ? "$why->{since}\n" : '') . join('', map { "![$_]($_)\n\n" } @{$figures->{$system} // []})
      . "| headline | where | paper | ours | 95 % | |\n|" . ' --- |' x 6 . "\n";
    $text .= row($_, \@marks, $reasons) for grep { $_->{system} eq $system } @$lines;
  }
  $text .= "\n## On the real CPU engine\n\n"
    . "Whether the sign of each holds there is on the newest real-*.md beside this page (bench/papers/real).\n";
  return $text if !@marks;
  return $text . "\n## Not of this run\n\n" . join("\n", map { '[' . ($_ + 1) . "] of $marks[$_]\n" } 0 .. $#marks);
}

1;
