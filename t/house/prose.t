#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The prose of the tree, as far as a program can read it: a comment begins with a subject or a
# verb, not with a bare "Of", "What", "Who" or "Whether"; requests and the like are "which"; nothing
# refers to a document that is not in the tree; and the headings within a file have a line to themselves.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
my ($files, @begins, @persons, @dangling, @broken) = (0);

my $fragment = qr/(?:Of|What|Who|Whom|Whose|Whether)/;
my $thing = qr/(?:requests?|sequences?|tokens?|plans?|blocks?|batch(?:es)?|policies|policy|plugins?)/;
my $outside = qr{\bissue\ [A-Z]\b|\bPL\d\b|\bB-\d\b|\bG\d,\ G\d\b|\bspec\ section\b|\bthe\ review\b}x;

# Where in a file a match is.
sub place {
    my ($path, $text, $at) = @_;
    return "$path:" . (1 + (substr($text, 0, $at) =~ tr/\n//));
}

sub look {
    return if !-f || m{/t/(?:data|fuzz/corpus)/} || m{/t/house/prose\.t\z};
    return if !m{\.(?:c|h|cc|cu|cuh|pl|pm|t|py|md|ini|inc|more|head|[157])\z} && !m{/README\z};
    my $path = substr $_, length "$top/";
    open my $in, '<', $_ or die "$_: $!";
    my $text = do { local $/; <$in> };
    $files++;
    push @begins, place($path, $text, $-[0])
        while $text =~ m{^\h*/\*(?:\n\h*\*)?\h+$fragment\b}mg;
    push @begins, place($path, $text, $-[0])
        while $path !~ /\.md\z/ && $text =~ m{(?:\A|\n)(?!\h*#\h(?!SPDX)[^\n]*\n)[^\n]*\n\h*#\h$fragment\b}g;
    push @persons, place($path, $text, $-[0]) while $text =~ /\b$thing,?\s(?:\h*[*#;]\h)?\h*who\b(?![,)])/g;
    push @broken, place($path, $text, $-[0]) while $text =~ m{^/\* ---- [^\n]*(?<!\*/)\n}mg;
    push @dangling, place($path, $text, $-[0]) . " $&" while $text =~ /$outside/g;
}
find({ no_chdir => 1, wanted => \&look }, grep { -e } map { "$top/$_" }
    qw(README CONTRIBUTING.md NEWS bench core doc etc experiments include kernels man plugins sdk share t text tools));

cmp_ok($files, '>', 900, 'the files are there');
is("@begins", '', 'no comment begins with a fragment');
is("@persons", '', 'requests are "which", not "who"');
is("@dangling", '', 'no reference to a document outside of the tree');
is("@broken", '', 'no heading within a file that was broken into two lines');
done_testing;
