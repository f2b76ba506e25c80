#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Each function that a header gives to others has a user: another file of the product or of bench; or its
# own file, with tests that call it too. What no other file calls is static, what tests alone need belongs
# to them. Objects say who takes a function, macros and inline functions included; the text says it of files
# that are not built here, such as those of CUDA. sdk is a library for plugins of others: t/sdk looks at it.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
my $build = $ENV{LLS_BUILDDIR} // '.';
my @rooms = qw(core text kernels tools);

# Functions that may lack one.
my %without = (
    lls_check_failed         => 'is called by LLS_CHECK in a build with --enable-checks',
    lls_is_main_thread       => 'likewise',
    lls_policy_host_is_owned => 'likewise',
    lls_api_listen           => 'an API without the daemon, as in t/api/fake_server, has no listening socket yet',
    lls_loop_idle_ns         => 'whoever turns a manual loop of one clock waits so long; all such loops are in t',
    lls_dtype_has_offset     => 'which weights the references of t/kernel and t/unit may expect to be exact',
    lls_report_outcomes      => "a report's figures are made of these, which tests see before they are rounded",
    lls_workload_write       => 'the format that formats.c reads: tests compare workloads by it',
);

my (%source, %words, $of_tests);

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    return <$file> =~ s{/\*.*?\*/|//[^\n]*}{}gsr;
}

find({ no_chdir => 1, wanted => sub {
    return if !/\.(c|cc|cu|cuh)\z/;
    my $path = substr $_, length "$top/";
    my $source = $path =~ s{\.\w+\z}{}r;
    $source{$source} = 1;
    my $text = text_of($_);
    $words{$1}{$source}++ while $text =~ /\b((?:lls|server)_\w+)/g;
} }, map { "$top/$_" } @rooms, 'sdk', 'plugins', 'bench');
find({ no_chdir => 1, wanted => sub { $of_tests .= text_of($_) if /\.(c|h|cc)\z/ } }, "$top/t");

# The source of an object, without its ending; automake puts the program's name and a dash before some.
sub source_of {
    my ($object) = @_;
    my $path = substr $object, length "$build/";
    return $path =~ s{/\.libs/}{/}r =~ s{/[^/]*-([^/-]+)\z}{/$1}r =~ s{\.o\z}{}r;
}

my @objects;
find({ no_chdir => 1, wanted => sub { push @objects, $_ if /\.o\z/ && $source{ source_of($_) } } },
     grep { -d } map { "$build/$_" } @rooms, 'sdk', 'plugins');
plan skip_all => 'nothing is built' if @objects < 100;

my (%home, %taken);
while (my @some = splice @objects, 0, 200) {
    open my $nm, '-|', 'nm', '-A', '-P', '-g', @some or plan skip_all => "no nm: $!";
    while (<$nm>) {
        my ($object, $symbol, $kind) = /^(\S+): ((?:lls|server)_\S+) ([A-Za-z])/ or next;
        my $source = source_of($object);
        $taken{$symbol} = 1 if $kind eq 'U';
        $home{$symbol} = $source if $kind eq 'T' && $source !~ m{^(?:sdk|plugins)/};
    }
    close $nm or die "nm: $?";
}
cmp_ok(scalar keys %home, '>', 1000, 'the functions are there');
my @unused;
for my $function (sort keys %home) {
    my $own = $home{$function};
    next if $taken{$function} || grep { $_ ne $own } keys %{ $words{$function} };
    my $tested = $of_tests =~ /\b$function\b/;
    next if $tested && ($words{$function}{$own} // 0) > 1;
    push @unused, "$own: $function is called by " . ($tested ? 'tests alone' : 'no other file')
        if !exists $without{$function};
}
is_deeply(\@unused, [], 'each has a user, or a reason to have none');
is_deeply([ grep { !exists $home{$_} } sort keys %without ], [], 'and no reason is idle');
done_testing;
