#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Which files of core call each other in a circle. A circle of files can only be read as a
# whole, so that each has to be listed here, file by file, with the reason for it.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# The circles there may be.
my %known = (
    'core/template: evaluate execute for_loop macro' =>
      'an expression may call a macro, which has statements, which have expressions',
    'core/http: answer connection server' =>
      'a connection that closes makes room for one that the server then accepts',
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
my %found;
for my $circle (@circles) {
    my ($folder) = $circle->[0] =~ m{^(.*)/};
    my $name = "$folder: " . join ' ', map { m{^\Q$folder\E/(.*)\.c\z} ? $1 : $_ } @$circle;
    $found{$name} = 1;
    ok(exists $known{$name}, "a circle that is known: $name") and next;
    my %in = map { $_ => 1 } @$circle;
    for my $file (@$circle) {
        diag("$file calls $_: $calls{$file}{$_}") for grep { $in{$_} } sort keys %{ $calls{$file} };
    }
}
ok($found{$_}, "and is still there: $_") for sort keys %known;
done_testing;
