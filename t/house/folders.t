#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# No circle of folders: neither do the headers that files include lead back to a folder, nor the functions
# and data that objects take from each other. Whoever reads a folder need not have read those that use it.
# Devices come to the core as a table that a main function passes on (kernels/builtin.h), and nothing of
# core but core/main.c names one.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
my $build = $ENV{LLS_BUILDDIR} // '.';
my @rooms = qw(core text kernels sdk tools);

# Defines what the C library has, to watch a plugin's use of it.
my %stands_in = ('tools/plugin-check/heap' => 1);

sub folder_of {
    my ($path) = @_;
    return $path =~ s{/[^/]*\z}{}r;
}

# Folder => folder => one of the reasons. What is in no circle goes: a folder that needs none of those
# left, and one that none of those left needs.
sub circle_in {
    my (%needs) = @_;
    my %left = map { $_ => 1 } keys %needs, map { keys %$_ } values %needs;
    for (my $n = 0; $n != keys %left;) {
        $n = keys %left;
        for my $folder (sort keys %left) {
            my @needed = grep { $left{$_} } keys %{ $needs{$folder} // {} };
            my @users = grep { exists $needs{$_}{$folder} } grep { exists $needs{$_} } keys %left;
            delete $left{$folder} if !@needed || !@users;
        }
    }
    my @edges;
    for my $folder (sort keys %left) {
        push @edges, map { "$folder needs $_: $needs{$folder}{$_}" } grep { $left{$_} } sort keys %{ $needs{$folder} };
    }
    return \@edges;
}

# ---- headers

my (%includes, %source, @devices, $n);
find({ no_chdir => 1, wanted => sub {
    return if !/\.(c|h|cc|cpp|cu|cuh)\z/;
    my $path = substr $_, length "$top/";
    $source{ $path =~ s{\.\w+\z}{}r } = 1 if !/\.(h|cuh)\z/;
    open my $file, '<', $_ or die "$_: $!";
    while (my $line = <$file>) {
        my ($header) = $line =~ m{^\s*#\s*include\s+"([^"]+)"} or next;
        my ($own, $other) = (folder_of($path), folder_of($header));
        push @devices, "$path:$. includes $header" if $header =~ m{^kernels/} && $path =~ m{^(?:core|text)/};
        next if $own eq $other || !grep { $header =~ m{^$_/} } @rooms;
        $includes{$own}{$other} //= "$path:$. includes $header";
        $n++;
    }
} }, map { "$top/$_" } @rooms);
cmp_ok($n, '>', 500, 'the headers are there');
is_deeply(circle_in(%includes), [], 'no circle of folders by what they include');
is_deeply([ map { s{:\d+ .*/}{ includes }r } @devices ], ['core/main.c includes builtin.h'],
          'of core, main.c alone includes a header of kernels');

# ---- symbols

my @objects;
find({ no_chdir => 1, wanted => sub { push @objects, $_ if /\.o\z/ } }, grep { -d } map { "$build/$_" } @rooms);

# The source of an object, without its ending; automake puts the program's name and a dash before some.
sub source_of {
    my ($object) = @_;
    my $path = substr $object, length "$build/";
    return $path =~ s{/\.libs/}{/}r =~ s{/[^/]*-([^/-]+)\z}{/$1}r =~ s{\.o\z}{}r;
}

# Objects of a source that is no longer there stay in a build tree.
@objects = grep { $source{ source_of($_) } && !$stands_in{ source_of($_) } } @objects;
SKIP: {
    skip 'nothing is built', 2 if @objects < 100;
    my (%home, %takes, %needs, $taken);
    while (my @some = splice @objects, 0, 200) {
        open my $nm, '-|', 'nm', '-A', '-P', '-g', @some or skip "no nm: $!", 2;
        while (<$nm>) {
            my ($object, $symbol, $kind) = /^(\S+): (\S+) ([A-Za-z])/ or next;
            my $source = source_of($object);
            $home{$symbol}{ folder_of($source) } = $source if $kind =~ /[TDRBCVW]/;
            $takes{$source}{$symbol} = 1 if $kind eq 'U';
        }
        close $nm or die "nm: $?";
    }
    for my $source (sort keys %takes) {
        my $own = folder_of($source);
        for my $symbol (sort keys %{ $takes{$source} }) {
            my $homes = $home{$symbol} // next;
            next if exists $homes->{$own};
            $taken++;
            $needs{$own}{$_} //= "$source takes $symbol of $homes->{$_}" for sort keys %$homes;
        }
    }
    cmp_ok($taken, '>', 1000, 'the symbols are there');
    is_deeply(circle_in(%needs), [], 'no circle of folders by the symbols that objects take');
}
done_testing;
