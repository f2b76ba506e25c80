# SPDX-License-Identifier: Apache-2.0
# Writes the page of all headline numbers: a line for each, with numbers of this run replacing kept ones of earlier runs.
#
# A number is identified by system and claim. A kept number has its date and command, which the page shows on its line,
# so that no number of another day passes for one of this run.
package Page;
use strict;
use warnings;
use Exporter 'import';
use JSON::PP;
use Headlines qw(verdict verdict_before);
use Why qw(read_why);
our @EXPORT_OK = qw(read_lines write_lines over still_said page counts reasons);

our @systems = ('Apt-Serve', 'BROS', 'ALISE', 'AlignedServe', 'AccelGen');
my %pages = ('Apt-Serve' => 'apt-serve', BROS => 'bros', ALISE => 'alise', AlignedServe => 'aligned', AccelGen => 'accelgen');
our @verdicts = ('met', 'beyond', 'in kind', 'not met', 'other device', 'open');
my @before = ('met', 'in kind', 'not met');

# The lines of a file written by headline(), or of kept records; none if there is no file.
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

# The kept lines in their order, each replaced by a fresh line of the same number if there is one; then new numbers. A
# fresh line has no date: it is of this run.
sub over {
  my ($kept, $fresh) = @_;
  my %fresh = map { key($_) => $_ } @$fresh;
  my %kept = map { key($_) => 1 } @$kept;
  my %seen;
  return ((map { $fresh{key($_)} // $_ } @$kept), map { $fresh{key($_)} } grep { !$kept{key($_)} && !$seen{key($_)}++ } @$fresh);
}

# The part of a kept line: by its name, or, for lines from before 2026-11-29, by its command.
sub part_of {
  my ($line, $parts) = @_;
  return grep { $_->{name} eq $line->{part} } @$parts if defined $line->{part};
  my $plain = sub { $_[0] =~ s/^(?:[A-Z]+=(?:'[^']*'|\S+) )+//r =~ s/ --(?:headlines|quick)\b//gr };
  return grep { $plain->($_->{command}) eq $plain->($line->{command} // '') } @$parts;
}

# still_said(kept, fresh, parts): the kept lines without numbers which no script reports any more. parts are all parts,
# {system, name, command, ran}; ran: it ran to its end in this run. A line is dropped if its part ran and did not report
# it. A line without a part is dropped if all parts of its system ran, except those which take hours, and at least one.
sub still_said {
  my ($kept, $fresh, $parts) = @_;
  my %said = map { key($_) => 1 } @$fresh;
  my %whole;
  $whole{$_->{system}} = ($whole{$_->{system}} // 1) && $_->{ran} for grep { !$_->{long} } @$parts;
  return grep {
    my ($part) = part_of($_, $parts);
    $said{key($_)} || !($part ? $part->{ran} : $whole{$_->{system}});
  } @$kept;
}

# The number of lines with each verdict, by a rule.
sub counts {
  my ($rule, @lines) = @_;
  my %count = map { $_ => 0 } @verdicts;
  $count{$rule->($_)}++ for @lines;
  return %count;
}

# ---- why ------------------------------------------------------------------------------------
# reasons(folder of results, folder of why): for each system its newest page NAME-DATE.md and its blocks by claim.
sub reasons {
  my ($folder, $why) = @_;
  my %reasons;
  for my $system (@systems) {
    my $name = $pages{$system};
    my ($newest) = reverse sort grep { m{/\Q$name\E-\d{4}-\d\d-\d\d\.md\z} } glob "$folder/$name-*.md";
    my @blocks = read_why("$why/$name");
    $reasons{$system} = {page => $newest && $newest =~ s{.*/}{}r, blocks => \@blocks, by_claim => {map { $_->{claim} => $_ } @blocks}};
  }
  return \%reasons;
}

# The block with the reason why a number is below the paper's; none for other numbers.
sub block_of {
  my ($line, $reasons) = @_;
  return verdict($line) =~ /\A(?:not met|in kind|other device)\z/ ? $reasons->{$line->{system}}{by_claim}{$line->{claim}} : undef;
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

sub interval {
  my ($line) = @_;
  return '' if !defined $line->{half} || $line->{half} == 0;
  return ' (' . join(' to ', map { sprintf '%.' . digits($_) . 'f', $_ } @$line{qw(low high)}) . ')' if defined $line->{low};
  return ' +- ' . sprintf '%.' . digits($line->{ours}) . 'f', $line->{half};
}

sub ours_cell {
  my ($line) = @_;
  return defined $line->{ours} ? with_unit(number($line->{ours}, $line), $line->{unit}) . interval($line) : '';
}

sub shipped_cell {
  my ($line) = @_;
  return ours_cell({unit => $line->{unit}, bound => $line->{bound}, near => $line->{near}, ours => $line->{shipped}, half => $line->{shipped_half}});
}

# The lines below a claim: its baseline, advantages of ours, and the reason of its verdict.
sub below_claim {
  my ($line) = @_;
  my $verdict = verdict($line);
  my @texts;
  push @texts, "*baseline:* $line->{base}" . (defined $line->{paper_base} ? "; *the paper's:* $line->{paper_base}" : '') if defined $line->{base};
  push @texts, "*the paper's baseline:* $line->{paper_base}" if !defined $line->{base} && defined $line->{paper_base};
  push @texts, "*helped:* $line->{helped}" if defined $line->{helped};
  push @texts, '*beyond:* ' . ($line->{beyond} // 'reason not given') if $verdict eq 'beyond';
  push @texts, "*device:* $line->{device}" if defined $line->{device} && $verdict =~ /in kind|not met|other device/;
  return join '', map { "<br>$_" } @texts;
}

# A footnote mark for each pair of date and command, in the order of first use.
sub mark_of {
  my ($line, $marks) = @_;
  return '' if !defined $line->{date};
  my $text = "$line->{date}, " . ($line->{command} =~ /\s/ ? "`$line->{command}`" : $line->{command});
  push @$marks, $text if !grep { $_ eq $text } @$marks;
  my ($i) = grep { $marks->[$_] eq $text } 0 .. $#$marks;
  return ' [' . ($i + 1) . ']';
}

# A row of the table; blocks collects the reasons which are printed below the table.
sub row {
  my ($line, $marks, $reasons, $blocks) = @_;
  my $claim = $line->{claim} . (defined $line->{note} ? " ($line->{note})" : '') . below_claim($line);
  my $ours = ours_cell($line) . (defined $line->{ours} ? mark_of($line, $marks) : '');
  my $verdict = verdict($line);
  my $block = block_of($line, $reasons);
  push @$blocks, $block if $block;
  $verdict = "**$verdict**" if $verdict eq 'not met';
  $verdict .= ', shown (' . @$blocks . ')' if $block;
  return '| ' . join(' | ', map { s/\|/\\|/gr } $claim, $line->{where}, paper_cell($line), $ours, shipped_cell($line), $verdict) . " |\n";
}

sub shown_text {
  my ($i, $block) = @_;
  return "$i. *$block->{claim}*: $block->{experiment} ($block->{date})\n"
    . join('', map { "   - Ruled out: $_\n" } @{$block->{'ruled out'}});
}

# ---- the page -----------------------------------------------------------------------------------
my $opening = <<'END';
Five papers (Apt-Serve, BROS, ALISE, AlignedServe, AccelGen) describe how a server for language models should choose what to
run next, and each says how much better its method is than others. llmserve has all five as plugins. Each row below is one
such claim: the paper's number, and our number from the simulator, which runs the plugins themselves and models the time of the
paper's GPU. So a row compares two schedulers on one simulated device, not two machines. *ours* is measured with the paper's own
settings (etc/paper-NAME.ini), *shipped* with the preset which users get (etc/NAME.ini; empty: not measured). Below a claim are
its baselines, here and in the paper, and advantages which only ours has. A large ratio over a baseline which serves almost
nothing is no merit: such a row is called *beyond*, not met.
END

my $rule = <<'END';
A rule gives the verdict (experiments/papers/Headlines.pm). *met*: at least as far from no effect as the paper, at most twice as
far; or a limit is kept; or a value is nearly equal. *beyond*: more than twice the paper's effect, with the reason. *in kind*: an
effect of the paper's sign which is smaller, but at least a tenth of the paper's; or a limit which is missed, but by less than
without the method. *not met*: a smaller effect, the opposite, or a 95 % interval which includes no effect. *other device*: it
would be one of the last two, but a dated experiment shows that the simulated device causes it. *open*: not run. The rule before
2026-11-29 had only met, in kind and not met, and called beyond met. No effect is a ratio of 1 or a difference of 0. Ours is the
mean over seeds; intervals are Student's, for a ratio of its logarithm; a number without an interval is of one seed or has none.
*shown*: the texts below a table name the experiment which shows what separates the number from the paper's, and two other
causes which were tested and ruled out. If the paper gives a range, its ends are compared with the least and the largest gain
over any of the baselines.
END

sub shown { my ($reasons, @lines) = @_; return scalar grep { block_of($_, $reasons) } @lines }

sub table_of_counts {
  my ($reasons, @lines) = @_;
  my $text = '| | ' . join(' | ', @verdicts, 'shown why', map { "$_, old rule" } @before) . " |\n|" . ' --- |' x (2 + @verdicts + @before) . "\n";
  for my $system (@systems, 'all') {
    my @own = grep { $system eq 'all' || $_->{system} eq $system } @lines;
    my %new = counts(\&verdict, @own);
    my %old = counts(\&verdict_before, @own);
    $text .= "| $system | " . join(' | ', map { $_ || '' } @new{@verdicts}, shown($reasons, @own), @old{@before}) . " |\n";
  }
  return $text;
}

sub result {
  my (@lines) = @_;
  my %new = counts(\&verdict, @lines);
  my %old = counts(\&verdict_before, @lines);
  my $bare = grep { verdict($_) eq 'beyond' && !defined $_->{beyond} } @lines;
  return '**Result:** of ' . @lines . " headline numbers $new{met} are met, $new{beyond} beyond the paper's"
    . ($bare ? " ($bare without a reason)" : '') . ", $new{'in kind'} in kind, $new{'not met'} not met, "
    . "$new{'other device'} another device's, $new{open} open.  \n"
    . "**By the old rule:** $old{met} met, $old{'in kind'} in kind, $old{'not met'} not met.  \n";
}

sub section {
  my ($system, $lines, $figures, $reasons, $marks) = @_;
  my $page = $reasons->{$system}{page};
  my $text = "\n## $system\n\n" . ($page ? "The set-up, and what would bring a missed number to the paper's: [$page]($page)\n\n" : '')
    . join('', map { "![$_]($_)\n\n" } @{$figures->{$system} // []})
    . "| headline | where | paper | ours | shipped | |\n|" . ' --- |' x 6 . "\n";
  my @blocks;
  $text .= row($_, $marks, $reasons, \@blocks) for grep { $_->{system} eq $system } @$lines;
  return $text . (@blocks ? "\nWhy:\n\n" . join('', map { shown_text($_ + 1, $blocks[$_]) } 0 .. $#blocks) : '');
}

# page(measured, lines, figures, reasons): measured is the page's text about the run, figures are paths relative to the
# page by system, reasons as above.
sub page {
  my ($measured, $lines, $figures, $reasons) = @_;
  my @marks;
  my $text = "# The papers' headline numbers, one line each\n\n$opening\n**Measured:** $measured  \n" . result(@$lines)
    . '**Shown:** ' . shown($reasons, @$lines) . " of the numbers below the paper's have their reason below the tables.\n\n$rule\n" . table_of_counts($reasons, @$lines);
  $text .= section($_, $lines, $figures, $reasons, \@marks) for @systems;
  $text .= "\n## On the real CPU engine\n\n"
    . "The newest real-*.md beside this page shows which of these signs hold there (experiments/papers/real).\n";
  return $text if !@marks;
  return $text . "\n## Not of this run\n\nWhat is of before 2026-11-29 is with what was shipped then, and not at the paper's preset, "
    . "where its claim does not say so.\n\n" . join("\n", map { '[' . ($_ + 1) . "] of $marks[$_]\n" } 0 .. $#marks);
}

1;
