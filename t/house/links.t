#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A page of the tree that names a file of the tree names one that exists: links of Markdown, and words that begin with
# a folder of the tree (core/step/step.c). Pages of results describe the tree of their day: there only links, dated pages
# and names in experiments/ and bench/ are checked. A release lacks experiments/ and the rest
# that t/tools/dist.t names.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
my $released = !-d "$top/experiments";
my $all = qr{core|bench|doc|etc|experiments|include|kernels|man|plugins|sdk|share|text|tools|t|debian|\.ci};
my $dated = qr{bench|experiments};
# Installed folders, a folder of llama.cpp's, and one that doc/abi.md says may be absent.
my $elsewhere = qr{\A(?:(?:etc|share|share/doc)/llmserve\b|tools/server/tests\b|include/llmserve/draft\z)};

# True if the name, as a page writes it, is of a file, of a folder, of what the build makes of a source,
# or of several files.
sub exists_in_tree {
    my ($name) = @_;
    return 1 if $name =~ $elsewhere;
    return 1 if $released && $name =~ m{\A(?:experiments|\.ci|t/fuzz/corpus|tools/(?:README|predictor|demo-model|[\w/]+\.py))\b};
    return 1 if -e "$top/$name" || grep { -e } map { "$top/$name.$_" } qw(c h cu t md);
    return 1 if $name =~ m{[A-Z]{3,}|/\.\.\.} && $name !~ /README/;    # core/NAME, "and so on"
    my @files = glob "$top/$name";
    return $name =~ /[*{?]/ && @files && -e $files[0];
}

my ($pages, $names, @missing) = (0, 0);

sub look {
    return if !-f || !m{\.md\z|/README\z|/(?:MAINTAINERS|CONTRIBUTING\.md)\z} || m{/t/data/};
    my $path = substr $_, length "$top/";
    open my $in, '<', $_ or die "$_: $!";
    my $folders = $path =~ m{\Aexperiments/results/} ? $dated : $all;
    $pages++;
    while (my $line = <$in>) {
        while ($line =~ m{\]\((?!\w+:|\#)([^)\#\s]+)[^)]*\)}g) {
            $names++;
            next if $released && $1 =~ /experiments/;
            push @missing, "$path:$.: ]($1)" if !-e dirname("$top/$path") . "/$1";
        }
        while ($line =~ m{(?<![\w./~\$\-\]<>)=*:])((?:$folders)/(?:[\w./*?+-]|\{[\w,]+\})*[\w*\}])}g) {
            $names++;
            push @missing, "$path:$.: $1" if !exists_in_tree($1);
        }
        while ($line =~ m{(?<![\w./:-])([\w.-]+-\d{4}-\d\d-\d\d\.\w+)}g) {
            $names++;
            push @missing, "$path:$.: $1" if !$released && !-e "$top/experiments/results/$1";
        }
    }
    close $in or die "$_: $!";
}
my @roots = qw(README CONTRIBUTING.md MAINTAINERS SECURITY.md bench core doc etc experiments include kernels plugins sdk
    share t text tools);
find({ no_chdir => 1, wanted => \&look }, grep { -e } map { "$top/$_" } @roots);

cmp_ok($pages, '>', 40, 'the pages are there');
cmp_ok($names, '>', 300, '  and name files');
is(join("\n", @missing), '', 'each of them exists');
done_testing;
