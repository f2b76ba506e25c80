# SPDX-License-Identifier: Apache-2.0
# Why a number is below the paper's: the blocks of why/NAME, a file for each system.
#
# A block has the date and the experiment which showed the reason for one claim, and at least two other causes which
# were tested and ruled out. Reading is strict: a reason with only one cause ruled out is an opinion. An empty line
# separates blocks; a line which begins with two spaces continues the one before it:
#
#   claim: the script's text of the claim, to the letter
#   date: 2026-11-29
#   experiment: the command, and its result
#   ruled out: another cause, how it was tested, the result
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

# read_why(path): the file's blocks in order, each {claim, date, experiment, 'ruled out' => [...], at => "FILE:LINE"}; none
# if there is no file. Dies with file and line if a block is incomplete.
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

# unknown_claims(blocks, lines of the same system): an error text for each block whose claim is on no line.
sub unknown_claims {
  my ($blocks, @lines) = @_;
  my %claims = map { $_->{claim} => 1 } @lines;
  return map { "$_->{at}: no number has the claim '$_->{claim}'" } grep { !$claims{$_->{claim}} } @$blocks;
}

1;
