#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The output of ptxas for the CUDA kernels (kept by the build beside each object): every file was
# compiled for every architecture, and no kernel keeps registers, arrays or addresses in memory,
# except with a stated reason. Tensor-core kernels have the registers for the number of blocks on a
# multiprocessor that their launch bounds and the division of work assume. Drawing counts in shared
# memory by 32-bit atomics, since 64-bit ones are loops there.
use strict;
use warnings;

my $folder = "$ENV{LLS_BUILDDIR}/kernels/cuda";
my @sources = map { s{.*/}{}r =~ s{\.cu$}{}r } glob "$ENV{LLS_SRCDIR}/kernels/cuda/*.cu";
my @logs = grep { -e } map { "$folder/$_.o.ptxas" } @sources;
if (!@logs) {
    print "1..0 # SKIP built without CUDA\n";
    exit 0;
}

# The architectures that the build has machine code for.
sub built_for {
    open my $makefile, '<', "$ENV{LLS_BUILDDIR}/Makefile" or return 'a Makefile';
    my ($flags) = map { /^CUDA_CODE = (.+)/ } <$makefile>;
    return $flags =~ /code=\[?(sm_\w+)/g;
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

# Blocks of a kernel that have to fit one multiprocessor: threads each, so many of them.
my @fitting = (
    [ attention      => qr/attend_decodes/, 128,  3 ],
    [ attention      => qr/attend_large/,   256,  1 ],
    [ attention_hopper => qr/attend_hopper/, 384, 1 ],
    [ attention_latent => qr/attend_latent/, 256, 1 ],
    [ attention_int8 => qr/attend_decodes/, 128,  3 ],
    [ attention_int8 => qr/attend_large/,   256,  1 ],
    [ codes          => qr/multiply_codes/, 256,  2 ],
    [ codes          => qr/multiply_codes\S*form[01267]ELi1ELi1E/, 256, 3 ],
    [ few            => qr/multiply_few/, 256, 2 ],
    [ experts_few    => qr/multiply_few/,   256,  2 ],
    [ experts_many   => qr/multiply_many/,  256,  1 ],
    [ sample         => qr/choose_tokens/,  512,  2 ],
    [ sample_draw    => qr/count_weights/,  512,  3 ],
    [ sample_draw    => qr/list_weights/,   512,  2 ],
);

# A warp gets registers by 8 of each thread; there are 65,536.
sub check_fitting {
    my ($source, $name, $threads, $blocks) = @_;
    my @kernels = grep { $_->[1] =~ $name } kernels("$folder/$source.o.ptxas");
    my @wide = grep { int(($_->[3] + 7) / 8) * 8 * $threads * $blocks > 65536 } @kernels;
    ok(@kernels && !@wide, "$blocks blocks of $threads threads fit a multiprocessor: $source.cu, $name",
        map { "$_->[1] on $_->[0]: $_->[3] registers" } @wide);
}

# Atomics of shared memory in the PTX of a source: instruction => times; undef without nvcc.
sub shared_atomics {
    my ($source) = @_;
    open my $makefile, '<', "$ENV{LLS_BUILDDIR}/Makefile" or return undef;
    my %set = map { /^(NVCC|NVCC_HOST) = (.+)/ ? ($1 => $2) : () } <$makefile>;
    return undef if !defined $set{NVCC} || !-x $set{NVCC};
    my $root = $ENV{LLS_SRCDIR};
    my @command = ($set{NVCC}, ($set{NVCC_HOST} ? ('-ccbin', $set{NVCC_HOST}) : ()), qw(-std=c++17 -O3 -arch=sm_90a),
        "-I$root", "-I$root/include", qw(-ptx -o -), "$root/kernels/cuda/$source.cu");
    my %times;
    open my $in, '-|', @command or return undef;
    while (<$in>) {
        $times{$1}++ if /\b((?:atom|red)\.shared\S*)/;
    }
    close $in or return undef;
    return \%times;
}

sub check_sample {
    my $times = shared_atomics('sample_draw');
    if (!defined $times) {
        print 'ok ', ++$n, " # SKIP no nvcc to show the PTX\n";
        return;
    }
    my @kinds = sort keys %$times;
    ok("@kinds" eq 'atom.shared.add.u32', 'a draw counts by 32-bit atomics alone', @kinds);
}

# Products of a warpgroup run while it does other things, unless ptxas sees no way and says so.
sub check_serialised {
    my @said;
    for my $log (@logs) {
        open my $in, '<', $log or die "$log: $!\n";
        push @said, grep { /wgmma|GMMA|setmaxnreg/ && !/^ptxas info\s+: Compiling/ } <$in>;
    }
    chomp @said;
    ok(!@said, 'ptxas leaves products of warpgroups as they are', @said);
}

# Stacks that are meant to be: (source, kernel) => why.
my @framed = (
    [ qr/^cache$/, qr/make_angles/ => 'sines of large angles are reduced by a table of the library' ],
);

print '1..', 3 * @sources + @fitting + 2, "\n";
check_fitting(@$_) for @fitting;
check_sample();
check_serialised();
for my $source (@sources) {
    my $log = "$folder/$source.o.ptxas";
    my @kernels = -e $log ? kernels($log) : ();
    my %archs;
    push @{ $archs{ $_->[0] } }, $_->[1] for @kernels;
    my %counts = map { scalar @$_ => 1 } values %archs;
    ok(!(grep { !exists $archs{$_} } built_for()) && keys %counts == 1,
        "$source.cu compiles for " . join ', ', sort keys %archs);
    my @spilling = grep { $_->[2] > 0 } @kernels;
    ok(@kernels && !@spilling, "$source.cu spills nothing",
        map { "$_->[1] on $_->[0]: $_->[2] bytes, $_->[3] registers" } @spilling);
    my @frames = grep { my $k = $_; $k->[4] > 0 && !grep { $source =~ $_->[0] && $k->[1] =~ $_->[1] } @framed } @kernels;
    ok(@kernels && !@frames, "$source.cu has no stack", map { "$_->[1] on $_->[0]: $_->[4] bytes" } @frames);
}
