# SPDX-License-Identifier: Apache-2.0
# Why a number is below the paper's: the blocks of why/NAME, a file for each system.
#
# A block says of one claim when and by what experiment its reason was shown, and which two other causes were tried and
# ruled out. It is read strictly: a reason with only one cause ruled out is an opinion. Blocks stand apart by an empty
# line, a line that begins with two spaces goes on with the one before it:
#
#   claim: what the script says, to the letter
#   date: 2026-11-29
#   experiment: what was run, with its command, and what came out
#   ruled out: another cause, how it was tried, what came out
#   ruled out: a second one
package Why;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(read_why unknown_claims);

my @once = qw(claim date experiment);

# The lines of a file as [number, text] without their continuations, an empty one between blocks.
sub whole_lines {
  my ($path) = @_;
  open my $file, '<', $path or die "$path: $!\n";
  my @lines;
  while (my $text = <$file>) {
    chomp $text;
    if ($text =~ /\A  \s*(\S.*)/) {
      die "$path:$.: goes on with nothing: a line with two spaces in front follows one that has a key\n"
        if !@lines || $lines[-1][1] eq '';
      $lines[-1][1] .= " $1";
    }
    else { push @lines, [$., $text =~ s/\s+\z//r] }
  }
  return @lines;
}

sub check {
  my ($path, $block) = @_;
  my $at = "$path:$block->{line}";
  defined $block->{$_} or die "$at: the block has no line '$_:'\n" for @once;
  die "$at: the date '$block->{date}' is not like 2026-11-29\n" if $block->{date} !~ /\A\d{4}-\d\d-\d\d\z/;
  my $causes = @{$block->{'ruled out'} // []};
  die "$at: $causes other cause" . ($causes == 1 ? '' : 's') . " 'ruled out:': two are needed\n" if $causes < 2;
  my ($first, $second) = @{$block->{'ruled out'}};
  die "$at: both causes ruled out are the same one\n" if $first eq $second;
}

# read_why(path): its blocks in order, each {claim, date, experiment, 'ruled out' => [...], at => "FILE:LINE"}; none of a
# file that is not there. Dies with file and line on a block that is not whole.
sub read_why {
  my ($path) = @_;
  return if !-e $path;
  my (@blocks, %claims, $block);
  for (whole_lines($path), [0, '']) {
    my ($number, $text) = @$_;
    if ($text eq '') {
      check($path, $block) if $block;
      undef $block;
      next;
    }
    my ($key, $value) = $text =~ /\A(claim|date|experiment|ruled out): (\S.*)\z/
      or die "$path:$number: '$text' is not 'claim: ...', 'date: ...', 'experiment: ...' or 'ruled out: ...'\n";
    push @blocks, $block = {line => $number, at => "$path:$number"} if !$block;
    if ($key eq 'ruled out') { push @{$block->{$key}}, $value; next }
    die "$path:$number: a second line '$key:' in one block: an empty line stands between blocks\n" if defined $block->{$key};
    $block->{$key} = $value;
    die "$path:$number: '$value' has a block already, at line $claims{$value}\n" if $key eq 'claim' && $claims{$value};
    $claims{$value} = $number if $key eq 'claim';
  }
  return @blocks;
}

# unknown_claims(blocks, lines of the same system): a text for each block whose claim no line has.
sub unknown_claims {
  my ($blocks, @lines) = @_;
  my %claims = map { $_->{claim} => 1 } @lines;
  return map { "$_->{at}: no number has the claim '$_->{claim}'" } grep { !$claims{$_->{claim}} } @$blocks;
}

1;
