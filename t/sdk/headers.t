#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Each SDK header compiles alone, in C from C99 on and in C++, without a warning from any installed
# compiler.
use strict;
use warnings;
use Test::More;

my $include = "$ENV{LLS_SRCDIR}/include";
my @headers = map { m{include/(llmserve/.*)\z} } glob "$include/llmserve/*.h $include/llmserve/policy/*.h";
my %standards = (
    'gcc'     => [qw(c99 c11 c17)],
    'clang'   => [qw(c99 c11 c17)],
    'g++'     => [qw(c++17)],
    'clang++' => [qw(c++17)],
);
my @compilers = grep { system("command -v $_ >/dev/null") == 0 } sort keys %standards;
plan skip_all => 'no compiler is found' unless @compilers;
cmp_ok scalar(@headers), '>', 20, 'there are headers';
my $together = join ' ', map {"-include $_"} @headers;
for my $compiler (@compilers) {
    my $language = $compiler =~ /\+\+/ ? 'c++' : 'c';
    for my $standard (@{ $standards{$compiler} }) {
        for my $header (@headers, 'all together') {
            my $included = $header eq 'all together' ? $together : "-include $header";
            # a file of its own: a header of macros alone would leave it empty
            my $said = qx(echo 'typedef int something;' | $compiler -std=$standard -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I'$include' $included -x $language - 2>&1);
            ok $? == 0, "$compiler -std=$standard: $header" or diag $said;
        }
    }
}
done_testing;
