#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The index of results: each page of experiments/results has one row in experiments/README.md, each row is of a page
# and has a question, a date, a command and a state; a page which supersedes another exists. Each page opens with a
# title and at most ten lines with the question, what was measured, what was found and what was missed.
use strict;
use warnings;
use Test::More;

my $folder = ($ENV{LLS_SRCDIR} // '.') . '/experiments';
plan skip_all => 'a release has no experiments' if !-d $folder;

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    return readline $file;
}

my @rows = map { [split / *\| */, $_] } grep { /^\| \[/ } split /\n/, text_of("$folder/README.md");
my %row = map { $_->[1] =~ /\A\[(\S+)\]\(results\/\1\)\z/ ? ($1 => $_) : () } @rows;
is scalar(keys %row), scalar(@rows), 'each row links to one page, by its name, and no two to the same';
my @pages = map { s{.*/}{}r } glob "$folder/results/*.md";
cmp_ok scalar(@pages), '>', 40, 'the pages are there';
is_deeply [sort keys %row], [sort @pages], 'each page has a row, and each row a page';
for my $page (sort keys %row) {
    my (undef, undef, $question, $date, $command, $state) = @{ $row{$page} };
    ok length $question && $date =~ /\A2026-/ && length $command, "$page: question, date and command";
    like $state, qr/\A(?:current|superseded by|historical)\b/, '  and a state';
    ok $row{$_}, "  after it came $_" for $state =~ /superseded by (\S+\.md)/ ? $1 : ();
}

# The opening is the first paragraph below the title.
for my $page (grep { $_ ne 'papers.md' } @pages) { # which experiments/papers/Page.pm writes
    my (undef, $opening) = split /\n\n+/, text_of("$folder/results/$page");
    my $lines = () = $opening =~ /^/mg;
    ok $lines <= 10 && $opening !~ /.{150}/, "$page opens in at most ten lines" or diag "$lines lines";
    like $opening, qr/^\*\*Question:.*^\*\*Measured:.*^\*\*Found[^*]*\*\*.*^\*\*Missed:/ms, '  with question, what was measured, found and missed';
}
done_testing;
