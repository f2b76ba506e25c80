#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The output of ptxas when the CUDA kernels were compiled (kept by the build beside each object):
# every file is there for every architecture, and no kernel keeps registers in memory. Products of
# codes have all their arrays in registers too, of which two blocks fit a multiprocessor, and read
# codes 16 bytes at a time (the machine code says so, where CUDA's cuobjdump is there to show it).
use strict;
use warnings;

my $folder = "$ENV{LLS_BUILDDIR}/kernels/cuda";
my @sources = map { s{.*/}{}r =~ s{\.cu$}{}r } glob "$ENV{LLS_SRCDIR}/kernels/cuda/*.cu";
my @logs = grep { -e } map { "$folder/$_.o.ptxas" } @sources;
if (!@logs) {
    print "1..0 # SKIP built without CUDA\n";
    exit 0;
}

# (architecture, kernel, bytes spilled, registers, bytes of stack) of each kernel in a log.
sub kernels {
    my ($log) = @_;
    my (@found, $arch, $name, $spilled, $stack);
    open my $in, '<', $log or die "$log: $!\n";
    while (<$in>) {
        ($name, $arch) = ($1, $2) if /Compiling entry function '(\S+)' for '(\S+)'/;
        $spilled = $1 + $2 if /(\d+) bytes spill stores, (\d+) bytes spill loads/;
        $stack = $1 if /(\d+) bytes stack frame/;
        push @found, [$arch, $name, $spilled, $1, $stack] if defined $name && /Used (\d+) registers/;
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

# Loads of codes and local loads and stores of each kernel that multiplies codes: architecture =>
# kernel => instruction => times; undef where nothing shows them.
sub instructions {
    my ($nvcc) = grep { -x } map { "$_/nvcc" } split /:/, $ENV{PATH};
    my @folders = (split(/:/, $ENV{PATH}), defined $nvcc ? $nvcc =~ s{/nvcc$}{}r : ());
    my ($tool) = grep { -x } map { "$_/cuobjdump" } @folders;
    return undef if !defined $tool;
    my (%times, $arch, $kernel);
    open my $in, '-|', $tool, '-sass', "$folder/codes.o" or return undef;
    while (<$in>) {
        $arch = $1 if /^\s*arch = (\S+)/;
        $kernel = $1 if /Function : (\S+)/;
        next if !defined $kernel || $kernel !~ /multiply_codes/;
        $times{$arch}{$kernel}{$1}++ if m{^\s*/\*[0-9a-f]+\*/\s+(?:@\S+\s+)?(LDG\.E\.NA\.128|LDL|STL|HMMA)};
    }
    close $in or return undef;
    return \%times;
}

sub check_codes {
    my @products = grep { $_->[1] =~ /multiply_codes/ } kernels("$folder/codes.o.ptxas");
    my @wide = grep { $_->[3] > 128 || $_->[4] > 0 } @products;
    ok(@products && !@wide, 'products of codes take 128 registers at most and no stack',
        map { "$_->[1] on $_->[0]: $_->[3] registers, $_->[4] bytes" } @wide);
    my $times = instructions();
    if (!defined $times || !%$times) {
        print 'ok ', ++$n, " # SKIP no cuobjdump to show the machine code\n";
        return;
    }
    my @wrong;
    for my $arch (sort keys %$times) {
        while (my ($kernel, $of) = each %{ $times->{$arch} }) {
            push @wrong, "$kernel on $arch" if $of->{LDL} || $of->{STL} || !$of->{HMMA};
            push @wrong, "$kernel on $arch: loads" if ($of->{'LDG.E.NA.128'} // 0) < 4;
        }
    }
    ok(!@wrong, 'products of codes read 16 bytes at a time, for tensor cores', @wrong);
}

print '1..', 2 * @sources + 2, "\n";
check_codes();
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
