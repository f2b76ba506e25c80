#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The machine code of the CUDA kernels, for every compiled architecture, shows some properties without
# a GPU: they read and write 16 bytes at a time, keep nothing in local memory, use tensor cores, and
# take no more instructions than expected; those of a tile of attention are counted as by
# bench/gpu-predict. It needs CUDA's cuobjdump and a build with CUDA.
use strict;
use warnings;

my $folder = "$ENV{LLS_BUILDDIR}/kernels/cuda";

# Source, kernel, what is said of it, instructions with the least and the most of them ('all': of any kind).
my $none = [ 0, 0 ];
my %narrow = ('(?:LDG|STG)\.E\.U16' => $none);
my %local = ('LD[LG]?\.LOCAL|LDL' => $none, 'STL' => $none);
my @wanted = (
    [ codes => qr/multiply_codes/, 'codes are read 16 bytes at a time, for tensor cores',
        { %local, 'LDGSTS\.E\.BYPASS\S*\.128' => [4], HMMA => [1] } ],
    [ codes => qr/multiply_codes\S*form6ELi1ELi2E.* on sm_90a/, 'int8 by 32 outputs: no more instructions than were counted',
        { %local, HMMA => [8], all => [ 1, 660 ] } ],
    [ few => qr/multiply_few/, 'few rows: codes are copied 16 bytes at a time, for tensor cores',
        { %local, 'LDGSTS\.E\.BYPASS\S*\.128' => [4], HMMA => [1] } ],
    [ experts_few => qr/multiply_few/, 'few rows of experts: tensor cores, copies and reads of 16 bytes',
        { %local, HMMA => [12], 'LDGSTS\.E\.BYPASS\.128' => [8], 'LDG\.E\.128' => [ 6, 6 ], 'LDG\.E\.U16' => $none } ],
    [ experts_many => qr/multiply_many/, 'many rows of experts: 320 mma of 64 inputs in four kinds of tiles',
        { %local, HMMA => [ 320, 320 ], LDSM => [ 130, 130 ], 'LDGSTS\.E\.BYPASS\.(?:LTC128B\.)?128' => [60] } ],
    [ experts => qr/combine_rowsI4bf16Li8/, 'experts added up: 16 bytes at a time',
        { %local, 'LDG\.E\.128' => [2], 'STG\.E\.128' => [ 1, 1 ], %narrow } ],
    [ cache => qr/rope_writeI4bf16S0_Li8/, 'rope: 16 bytes at a time, nothing read again',
        { %local, 'LDG\.E\.128' => [ 6, 6 ], 'STG\.E\.128' => [ 4, 4 ], %narrow, all => [ 1, 320 ] } ],
    [ hidden => qr/write_restoredI4bf16S0_Li8/, 'restored K and V: 16 bytes at a time, written once',
        { %local, 'LDG\.E\.128' => [ 6, 6 ], 'STG\.E\.128' => [ 2, 2 ], %narrow, all => [ 1, 400 ] } ],
    [ hidden => qr/(?:read|write)_hiddenI4bf16S0_Li8/, 'hidden states: 16 bytes at a time',
        { %local, 'LDG\.E\.128' => [1], 'STG\.E\.128' => [ 1, 1 ], %narrow, all => [ 1, 180 ] } ],
    [ rows => qr/activate_rowsI4bf16Li8ELi1/, 'activations: 16 bytes at a time, without calls',
        { %local, 'LDG\.E\.128' => [ 2, 2 ], 'STG\.E\.128' => [ 1, 1 ], CALL => $none } ],
    [ rows => qr/activate_rowsI4bf16Li8ELi2/, 'activations of many rows: twice that, two at once',
        { %local, 'LDG\.E\.128' => [ 4, 6 ], 'STG\.E\.128' => [ 2, 2 ], CALL => $none } ],
    [ rows => qr/norm_rowsI4bf16Li8/, 'norms: 16 bytes at a time, weights too',
        { %local, %narrow, 'LDG\.E\.128' => [4], 'STG\.E\.128' => [2] } ],
    [ attention => qr/attend_decodesILi128ELi1/, 'decode attention: tensor cores, 8 queries, copies of 16 bytes',
        { %local, HMMA => [ 24, 24 ], LDSM => [ 16, 16 ], 'LDGSTS\.E\.BYPASS\.128' => [8], 'LDGSTS\.E\.64' => $none } ],
    [ attention => qr/attend_decodesILi128ELi2/, 'decode attention: tensor cores, 16 queries',
        { %local, HMMA => [ 32, 32 ], LDSM => [ 16, 16 ] } ],
    [ attention_int8 => qr/attend_decodesILi128ELi1/, 'decode attention over int8: two numbers at a time, in f16',
        { %local, 'HMMA\.16816\.F32 *$' => [ 24, 24 ], 'HADD2 *$' => [64], 'HFMA2' => [64],
            'LDGSTS\.E\.64' => $none } ],
    [ attention_hopper => qr/attend_hopperILi128.* on sm_90a/, 'prefill on Hopper: products of warpgroups, copies of 16 bytes',
        { %local, HGMMA => [ 32, 32 ], 'LDGSTS\.E\.BYPASS\.128' => [64], USETMAXREG => [ 2, 2 ] } ],
    [ sample => qr/choose_tokens/, 'logits: 16 bytes at a time', { %local, 'LDG\.E\.128' => [4] } ],
    [ sample_draw => qr/count_weights/, 'weights are counted by two atomics of 32 bits',
        { %local, 'LDG\.E\.128' => [ 4, 4 ], 'ATOMS' => [ 32, 32 ] } ],
    [ sample_draw => qr/list_weights/, 'logits: 16 bytes at a time', { %local, 'LDG\.E\.128' => [ 4, 4 ] } ],
);

if (!grep { -e "$folder/$_->[0].o" } @wanted) {
    print "1..0 # SKIP built without CUDA\n";
    exit 0;
}
my ($nvcc) = grep { -x } map { "$_/nvcc" } split /:/, $ENV{PATH};
my @folders = (split(/:/, $ENV{PATH}), defined $nvcc ? $nvcc =~ s{/nvcc$}{}r : (), '/usr/local/cuda/bin');
my ($tool) = grep { -x } map { "$_/cuobjdump" } @folders;
if (!defined $tool) {
    print "1..0 # SKIP no cuobjdump to show the machine code\n";
    exit 0;
}

# Architecture and kernel => its instructions, without predicates.
my %shown;
sub kernels {
    my ($source) = @_;
    return $shown{$source} if $shown{$source};
    my (%of, $arch, $kernel);
    open my $in, '-|', $tool, '-sass', "$folder/$source.o" or die "$tool: $!\n";
    while (<$in>) {
        $arch = $1 if /^\s*arch = (\S+)/;
        $kernel = $1 if /Function : (\S+)/;
        push @{ $of{"$kernel on $arch"} }, $1
            if defined $kernel && m{^\s*/\*[0-9a-f]{4,}\*/\s+(?:@\S+\s+)?([A-Z]\S*?);?\s};
    }
    close $in or die "$tool -sass $folder/$source.o failed\n";
    return $shown{$source} = \%of;
}

# Instructions of a warp for 64 tokens, by the shortest way through the loop.
my %of_tile = (small => 370, int8 => 640, large => 720, hopper => 600, bringing => 260);
sub check_prediction {
    my ($number) = @_;
    local $ENV{PATH} = "$ENV{PATH}:" . $tool =~ s{/cuobjdump$}{}r;
    my @lines = split /\n/, `'$^X' '$ENV{LLS_SRCDIR}/bench/gpu-predict' '$ENV{LLS_BUILDDIR}' 2>&1`;
    my %found = map { /^a tile, (\w+)\s+(\d+) instructions/ ? ($1 => $2) : () } @lines;
    my $rows = grep { m{(?: +\d\.\d\d[ !]){2}$} } @lines;
    my @wrong = grep { !defined $found{$_} || $found{$_} > $of_tile{$_} } sort keys %of_tile;
    print $? == 0 && $rows > 40 && !@wrong ? 'ok ' : 'not ok ', $number,
        " - bench/gpu-predict: a tile of attention takes no more instructions than it did\n";
    print "# $_\n" for @wrong || $rows <= 40 ? @lines : ();
}

# The second wait for products of attend_hopper is for scores, the third for values: between the two all
# weights are made, or nothing is computed while the values are.
sub check_overlap {
    my ($number) = @_;
    my $of = kernels('attention_hopper');
    my (@wrong, @found);
    for my $kernel (@found = grep { /attend_hopper.* on sm_90a/ } sort keys %$of) {
        my ($waits, $weights) = (0, 0);
        for (@{ $of->{$kernel} }) {
            $waits++ if /^WARPGROUP\.DEPBAR/;
            $weights++ if $waits == 2 && /^MUFU\.EX2/;
        }
        push @wrong, "$kernel: $waits waits, $weights exponentials" if $waits != 4 || $weights < 128;
    }
    print @found && !@wrong ? 'ok ' : 'not ok ', $number, " - attention_hopper.cu: weights are made while values are added\n";
    print "# $_\n" for @wrong;
}

print '1..', @wanted + 2, "\n";
my $n = 0;
for my $case (@wanted) {
    my ($source, $name, $what, $mix) = @$case;
    my $of = kernels($source);
    my @found = grep { /$name/ } sort keys %$of;
    my @wrong;
    for my $kernel (@found) {
        for my $kind (sort keys %$mix) {
            my $times = grep { $kind eq 'all' || /^(?:$kind)/ } @{ $of->{$kernel} };
            my ($least, $most) = @{ $mix->{$kind} };
            push @wrong, "$kernel: $kind $times times, not " . join ' to ', $least, $most // 'more'
                if $times < $least || defined $most && $times > $most;
        }
    }
    print @found && !@wrong ? 'ok ' : 'not ok ', ++$n, " - $source.cu: $what\n";
    print "# $_\n" for @found ? @wrong : "no such kernel in $source.o";
}
check_overlap(++$n);
check_prediction(++$n);
