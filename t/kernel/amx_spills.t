#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The loops of kernels/cpu/codes_amx.c, disassembled. Few machines that run tests have AMX, so this
# checks what can be checked anywhere: the instruction is used, and the 16 sums stay in registers.
use strict;
use warnings;

my ($object) = grep { -e } $ARGV[0] // "$ENV{LLS_BUILDDIR}/kernels/cpu/.libs/libamx_la-codes_amx.o",
    "$ENV{LLS_BUILDDIR}/kernels/cpu/libamx_la-codes_amx.o";

sub skip { print "1..0 # SKIP $_[0]\n"; exit 0 }
skip('built without AMX') if !defined $object;
skip('no objdump') if system('objdump --version >/dev/null 2>&1') != 0;
my @symbols = qx(objdump -t '$object');
skip('built with a sanitizer') if grep { /__(?:[at]san|ubsan)/ } @symbols;
if (open my $makefile, '<', "$ENV{LLS_BUILDDIR}/Makefile") {
    my ($flags) = grep { /^CFLAGS =/ } <$makefile>;
    skip('built without optimisation') if ($flags // '-O2') !~ /-O[23]/;
}

# Instructions of each function.
my (%code, $function);
for (qx(objdump -d --no-show-raw-insn '$object')) {
    $function = $1 if /^[0-9a-f]+ <(\w+)>:/;
    push @{ $code{$function} }, $1 if /^\s+[0-9a-f]+:\s+(\S.*?)\s*$/;
}

my @tiles = map { "tile_$_" } qw(signed8 signed8_offset signed8_short);
print '1..', scalar @tiles, "\n";
for my $n (1 .. @tiles) {
    my $name = $tiles[$n - 1];
    my @lines = @{ $code{$name} // [] };
    my @products = grep { $lines[$_] =~ /^tdpbssd/ } 0 .. $#lines;
    my @spills = @products ? grep { /^vmov\w+\s+%zmm\d+,.*\(/ } @lines[$products[0] .. $products[-1]] : ();
    print @products && !@spills ? 'ok' : 'not ok', " $n - $name multiplies tiles, and its sums stay in registers\n";
    print "# $_\n" for @products ? @spills : 'no tdpbssd';
}
