#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The prose of the tree, as far as a program can read it: a comment begins with a subject or a
# verb, not with a bare "Of", "What", "Who" or "Whether"; requests and the like are "which"; nothing
# refers to a document that is not in the tree; the headings within a file have a line to themselves;
# and comments of sources name the thing or the actor in the places where a pronoun often stands.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
my ($files, @begins, @persons, @dangling, @broken, @unnamed) = (0);

my $fragment = qr/(?:Of|What|Who|Whom|Whose|Whether)/;
my $thing = qr/(?:requests?|sequences?|tokens?|plans?|blocks?|batch(?:es)?|policies|policy|plugins?)/;
my $outside = qr{\bissue\ [A-Z]\b|\bPL\d\b|\bB-\d\b|\bG\d,\ G\d\b|\bspec\ section\b|\bthe\ review\b}x;

# Words of a comment that leave the thing or the actor unnamed, and a better way to say it.
my %unnamed = (
    'begin with the noun' => qr/\A(?:\[[a-z ]+\]\s)?(?:Those|That of|The others?|One that|One (?:more|less)|They|Their|All of (?:it|them)
        |Another (?:one|of)|It|So (?:many|much|long)|As many|(?:Both|None|Likewise)[,.:;])(?:\s|\z)/x,
    'name the parameter' => qr/\b(?:for|at most|with|as|after|before|took|of|every|than)\sso\s(?:many|much|long)\b
        |,\sso\s(?:many|much|long)\s(?:of|before|behind|after|more)\b/x,
    '"Returns X if Y"' => qr/\b(?:True|False|NULL|-1|-E[A-Z0-9]+):\s(?:something|nothing|there\s(?:are|was|were|has)
        |(?:it|they|that|one)\s(?:is|are|was|were|have|had|does|ends|begins)\b|nobody|what|another)\b/x,
    'name the actor' => qr/\b(?:[Nn]obody|[Ss]omebody|[Ee]verybody|[Nn]o\sone\selse|[Ww]hoever)\b
        |\b(?:for|to|of|by|and|but|only)\swho\s(?:is|are|was|has|had|have|did|does|ran|asks?|comes?|goes|reads?|wants?|makes?|waits?|calls?)\b/x,
    'name the thing' => qr/\b(?:[Ww]hat|[Aa]ll\sthat)\s(?:is|are|was|were)\s(?:there|here|left|known|said|asked|wanted|told|kept|given|taken|gone
        |begun|listed|put|seen|read|sent|not|no|none|to\sbe|it|they|on\sits)\b
        |\b[Ww]hat\s(?:there\sis|there\swas|comes|came|goes|went|becomes|has\scome|it\swas|they\sare)\b/x,
    'code sends, calls, returns' => qr/\b(?:is|are|was|were|be|been)\s(?:told(?!\sapart)|heard|spoken|looked\sat|known\sof|gone\son\swith)\b
        |\b(?:hears?|tells|told|speaks)\s(?:of|that|it|them|the|what|its|this|main|rank)\b|\b(?:has|have|had)\sto\sdo\swith\b/x,
    'say exists, resident, loaded' => qr/\b(?:is|are|was|were)\s(?:not\s)?(?:there|elsewhere)(?:\s(?:yet|already|again|now|twice))?(?:[.,;:)]|\s*\z)/x,
    'after, next to, again, on average' => qr/\b(?:one|each|them|those|it)\s(?:behind|beside)\sthe\sother|\b(?:behind|beside)\s(?:it|them|that|those|each\sother|which)\b
        |\bstands?\s(?:behind|beside|before|there|for\sitself)\b|\bin\sthe\smean\b|\bby\snow\b|\bleft\saway\b|\b(?:as|than)\sone\slikes\b
        |\banew\b|\bgo(?:es)?\shome\b|\bwithout\sa\sword\b|\bhelpings?\b|\b(?:gone|goes|go)\son\s(?:with|from)\b/x,
    'say the verb' => qr/\b(?:all|most|both|nearly\sall|so)\s(?:are|is|were|was|do|does|has|have)[.,;]|\bthat\sis\s(?:has|is|are|does)\b/x,
);

# Sources whose comments are not all rewritten yet: tests, and the programs of experiments.
my $later = qr{\A(?:t|experiments)/};

# Where in a file a match is.
sub place {
    my ($path, $text, $at) = @_;
    return "$path:" . (1 + (substr($text, 0, $at) =~ tr/\n//));
}

# Adds the comments of a source that have such words.
sub look_at_comments {
    my ($path, $text) = @_;
    while ($text =~ m{"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|/\*+(.*?)\*/}gs) {
        next if !defined $1;
        my ($at, $comment) = ($-[0], $1);
        $comment =~ s{^\h*\*(?=\h|$)}{}mg;
        $comment =~ s{\s+}{ }g;
        $comment =~ s{\A }{};
        for my $better (sort keys %unnamed) {
            push @unnamed, place($path, $text, $at) . " '$&': $better" if $comment =~ $unnamed{$better};
        }
    }
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
    look_at_comments($path, $text) if $path =~ /\.(?:c|h|cc|cu|cuh)\z/ && $path !~ $later;
}
find({ no_chdir => 1, wanted => \&look }, grep { -e } map { "$top/$_" }
    qw(README CONTRIBUTING.md NEWS bench core doc etc experiments include kernels man plugins sdk share t text tools));

cmp_ok($files, '>', 900, 'the files are there');
is("@begins", '', 'no comment begins with a fragment');
is("@persons", '', 'requests are "which", not "who"');
is("@dangling", '', 'no reference to a document outside of the tree');
is("@broken", '', 'no heading within a file that was broken into two lines');
is(join("\n", @unnamed), '', 'comments name the thing and the actor');
done_testing;
