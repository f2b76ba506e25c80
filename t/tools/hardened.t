#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The build has the hardening that configure reports: programs, plugins and their objects
# are examined with readelf.
use strict;
use warnings;
use File::Find;
use Test::More;

my $build = $ENV{LLS_BUILDDIR};
open my $makefile, '<', "$build/Makefile" or die "$build/Makefile: $!";
my ($flags) = map { /^LLS_HARDENING = *(.*)/ } <$makefile>;
plan skip_all => 'configured without hardening (or with sanitizers)' unless $flags;
plan skip_all => 'readelf not found: binutils' if system('command -v readelf >/dev/null') != 0;

sub has { my ($flag) = @_; return $flags =~ /(?:\A|\s)\Q$flag\E(?:\s|\z)/ }
sub readelf { my (@arguments) = @_; open my $out, '-|', 'readelf', '-W', @arguments or die "readelf: $!"; local $/; return <$out> }

# libtool may leave a script where the program is and put it into .libs.
my @programs = map { -B "$build/$_" ? "$build/$_" : "$build/.libs/$_" } qw(llmserve llmserve-sim llmserve-bench llmserve-profile llmserve-perplexity llmserve-whatif llmserve-ctl llmserve-plugin-check);
my @plugins  = glob "$build/.libs/{scheduler,cache,predictor,drafter}_*.so";
cmp_ok scalar(@plugins), '>', 10, 'there are plugins';

my (%canary, %checked);
for my $file (@programs, @plugins) {
    my ($name) = $file =~ m{([^/]+)\z};
    my ($headers, $dynamic, $symbols) = (readelf('-lh', $file), readelf('-d', $file), readelf('--dyn-syms', $file));
    like $headers, qr/^\s+GNU_RELRO/m, "$name: relocations are read-only" if has('-Wl,-z,relro');
    like $dynamic, qr/BIND_NOW|\(FLAGS_1\).*NOW/, "$name: binds at its start" if has('-Wl,-z,now');
    like $headers, qr/^\s+GNU_STACK\s.* RW +0x/m, "$name: no executable stack";
    unlike $dynamic, qr/TEXTREL/, "$name: no relocations in the text";
    like $headers, qr/Type:\s+DYN /, "$name: independent of its position";
    $canary{$name}  = $symbols =~ / UND __stack_chk_fail/;
    $checked{$name} = $symbols =~ / UND __\w+_chk\b/;
}
# A small plugin may have no array on its stack, and nothing that is checked.
if (has('-fstack-protector-strong')) {
    ok $canary{$_}, "$_: guards its stack" for map { m{([^/]+)\z} } @programs;
    cmp_ok scalar(grep { $canary{$_} } map { m{([^/]+)\z} } @plugins), '>', @plugins / 2, 'so do most plugins';
}
if ($flags =~ /_FORTIFY_SOURCE=/) {
    ok $checked{$_}, "$_: calls checked functions of the C library" for map { m{([^/]+)\z} } @programs;
}
# In objects: the start files of a C library without CET take it from what is linked with them.
# Those of before the last configure may be of sources that are no more.
SKIP: {
    skip 'this compiler has no CET', 1 unless has('-fcf-protection=full');
    my ($since, @objects) = -M "$build/config.status";
    find({ no_chdir => 1, wanted => sub { push @objects, $_ if -M $_ < $since && m{/(?:core|text|plugins|tools|kernels/(?:cpu|sim))/.*\.o\z} } }, $build);
    skip 'no object is newer than the last configure', 1 unless @objects;
    my ($file, %tracked) = ('');
    for (split /\n/, readelf('-n', @objects)) {
        $file = $1 if /^File: (.*)/;
        $tracked{$file} = 1 if /IBT, SHSTK/;
    }
    is_deeply [grep { !$tracked{$_} } @objects], [], 'indirect branches and returns are tracked in ' . @objects . ' objects';
}
diag 'was this built before the last ./configure? make clean' if !Test::More->builder->is_passing;
done_testing;
