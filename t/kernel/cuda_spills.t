#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The output of ptxas when the CUDA kernels were compiled (kept by the build beside each object):
# every file is there for every architecture, and no kernel keeps registers in memory.
use strict;
use warnings;

my $folder = "$ENV{LLS_BUILDDIR}/kernels/cuda";
my @sources = map { s{.*/}{}r =~ s{\.cu$}{}r } glob "$ENV{LLS_SRCDIR}/kernels/cuda/*.cu";
my @logs = grep { -e } map { "$folder/$_.o.ptxas" } @sources;
if (!@logs) {
    print "1..0 # SKIP built without CUDA\n";
    exit 0;
}

# (architecture, kernel, bytes spilled, registers) of each kernel in a log.
sub kernels {
    my ($log) = @_;
    my (@found, $arch, $name, $spilled);
    open my $in, '<', $log or die "$log: $!\n";
    while (<$in>) {
        ($name, $arch) = ($1, $2) if /Compiling entry function '(\S+)' for '(\S+)'/;
        $spilled = $1 + $2 if /(\d+) bytes spill stores, (\d+) bytes spill loads/;
        push @found, [$arch, $name, $spilled, $1] if defined $name && /Used (\d+) registers/;
        undef $name if /Used (\d+) registers/;
    }
    return @found;
}

my $n = 0;
sub ok {
    my ($good, $what, @lines) = @_;
    print $good ? 'ok ' : 'not ok ', ++$n, " - $what\n";
    print "# $_\n" for @lines;
}

print '1..', 2 * @sources, "\n";
for my $source (@sources) {
    my $log = "$folder/$source.o.ptxas";
    my @kernels = -e $log ? kernels($log) : ();
    my %archs;
    push @{ $archs{ $_->[0] } }, $_->[1] for @kernels;
    my %counts = map { scalar @$_ => 1 } values %archs;
    ok(exists $archs{sm_80} && keys %counts == 1,
        "$source.cu compiles for " . join ', ', sort keys %archs);
    my @spilling = grep { $_->[2] > 0 } @kernels;
    ok(@kernels && !@spilling, "$source.cu spills nothing",
        map { "$_->[1] on $_->[0]: $_->[2] bytes, $_->[3] registers" } @spilling);
}
