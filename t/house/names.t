#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A name means one thing. A basename is that of one file in core and text, so that "see reload.h"
# and a line of a debugger need no folder; and a tag with the prefix lls_ is one struct, union or
# enum, so that any two headers can be included together. A tag without the prefix belongs to
# the file, program or plugin that defines it.
use strict;
use warnings;
use File::Basename;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# Opaque to all but the device that defines them: core/device/device.h has only pointers.
my %of_each_device = map { $_ => 1 } qw(lls_weight lls_pool lls_experts);

my (%files, %homes);
sub look {
    return if !/\.(c|h|cc|cu|cuh)\z/ || m{/tests/};
    my $path = substr $_, length "$top/";
    push @{ $files{ basename $_ } }, $path if $path =~ m{^(?:core|text)/};
    open my $source, '<', $_ or die "$_: $!";
    while (my $line = <$source>) {
        my ($tag) = $line =~ /^\s*(?:typedef\s+|static\s+|const\s+)*(?:struct|union|enum)\s+(\w+)\s*\{/
            or next;
        $homes{$tag}{$path} = 1
            if $tag =~ /^lls_/ || $path =~ m{^(?:core|text)/.*\.h\z};
    }
}
find({ no_chdir => 1, wanted => \&look },
     map { "$top/$_" } qw(core text include kernels plugins sdk tools));

cmp_ok(scalar keys %files, '>', 300, 'the sources are there');
cmp_ok(scalar keys %homes, '>', 200, 'and what they define');
is(join(' ', sort @{ $files{$_} }), $files{$_}[0], "one $_ in core and text")
    for grep { @{ $files{$_} } > 1 } sort keys %files;
for my $tag (sort grep { keys %{ $homes{$_} } > 1 } keys %homes) {
    my @where = sort keys %{ $homes{$tag} };
    my $devices = $of_each_device{$tag} && !grep { !m{^kernels/} } @where;
    ok($devices, "one struct $tag") or diag("@where");
}
is_deeply([ grep { !exists $homes{$_} } sort keys %of_each_device ], [], 'no exception is idle');
done_testing;
