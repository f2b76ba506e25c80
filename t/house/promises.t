#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Each promise of doc/reliability.md names the tests that hold it, which are there and are run by
# `make check`, or by t/campaign/run alone: they stand in a Makefile.inc.
use strict;
use warnings;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
sub slurp { my ($path) = @_; open my $file, '<', $path or die "$path: $!"; local $/; return scalar <$file> }

my $text = slurp("$top/doc/reliability.md");
my @promises = map { s/\s+/ /gr } $text =~ /^- (.*?)(?=\n- |\n\n|\z)/msg;
cmp_ok scalar @promises, '>', 30, 'promises are there';
is_deeply [grep { !/\(t\/[\w.\/]+(?:, t\/[\w.\/]+)*\)[^()]*\.?\z/ } @promises], [], 'each ends with its tests';

sub is_run {
    my ($test) = @_;
    my ($folder, $name) = $test =~ m{\A(t/\w+)/([\w.]+)\z} or return;
    my $list = slurp("$top/$folder/Makefile.inc");
    return $list =~ /%D%\/\Q$name\E(?!\w)/;
}
my %named = map { $_ => 1 } map { m{\bt/\w+/\w+\.(?:t|c)\b}g } @promises;
is_deeply [grep { !-e "$top/$_" } sort keys %named], [], 'the tests exist';
is_deeply [grep { -e "$top/$_" && !is_run($_) } sort keys %named], [], 'and are run';

my @campaign = map { s{\A\Q$top\E/}{}r } glob "$top/t/campaign/*.t";
is_deeply [grep { !$named{$_} } @campaign], [], 'each part of the campaign holds a promise';
done_testing;
