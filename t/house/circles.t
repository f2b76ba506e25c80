#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Which files of core call each other in a circle. A circle of files can only be read as a
# whole, so that each has to be listed here with the reason for it; core/loop has none: the
# phases of a step call the verbs of the transaction and of a request's life, and never the
# other way.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# Files that may call each other in a circle.
my %known = (
    'core/template' => 'expressions contain expressions: parser and evaluation recurse',
    'core/http'     => 'a connection tells the server when it closes, which accepts it',
    'core/api'      => 'events end a generation, whose end wakes work and timers',
    'core/config'   => 'one loading: a section of a policy is read within the file',
);

# Text of a source without comments.
sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    my $text = <$file>;
    $text =~ s{/\*.*?\*/}{}gs;
    return $text;
}

my (%text, %home, %calls);
find({ no_chdir => 1, wanted => sub { $text{ substr $_, length "$top/" } = text_of($_) if /\.c\z/ } },
     "$top/core");
# A definition begins a line: return type, name, arguments and no semicolon.
for my $file (keys %text) {
    $home{$1} = $file while $text{$file} =~ /^(?!static\b)\w[\w\s*]*?\b(lls_\w+)\([^;{}]*\)\s*\{/gm;
}
for my $file (keys %text) {
    while ($text{$file} =~ /\b(lls_\w+)\s*\(/g) {
        $calls{$file}{ $home{$1} } = $1 if exists $home{$1} && $home{$1} ne $file;
    }
}

# Strongly connected files, by Tarjan.
my ($next, %index, %low, %open, @stack, @circles) = (0);
sub visit {
    my ($file) = @_;
    $index{$file} = $low{$file} = $next++;
    push @stack, $file;
    $open{$file} = 1;
    for my $called (sort keys %{ $calls{$file} // {} }) {
        visit($called) if !exists $index{$called};
        $low{$file} = $low{$called} if $open{$called} && $low{$called} < $low{$file};
    }
    return if $low{$file} != $index{$file};
    my @circle;
    do { push @circle, pop @stack; $open{ $circle[-1] } = 0 } until $circle[-1] eq $file;
    push @circles, [sort @circle] if @circle > 1;
}
for my $file (sort keys %text) { visit($file) if !exists $index{$file} }

cmp_ok(scalar keys %home, '>', 500, 'the functions are there');
for my $circle (@circles) {
    my %folders = map { m{^(.*)/}; $1 => 1 } @$circle;
    my @unknown = grep { !exists $known{$_} } keys %folders;
    ok(!@unknown && keys %folders == 1, "a circle that is known: @$circle") or do {
        my %in = map { $_ => 1 } @$circle;
        for my $file (@$circle) {
            diag("$file calls $_: $calls{$file}{$_}") for grep { $in{$_} } sort keys %{ $calls{$file} };
        }
    };
}
ok(!(grep { $_->[0] =~ m{^core/loop/} } @circles), 'none in core/loop');
done_testing;
