#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# One reader of JSON: Jansson's own refuse a whole text for a number beyond 64 bits, so all text
# that comes from outside goes through core/base/json_parse.h.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';
my ($files, @own) = (0);
sub look {
    return if !/\.(?:c|h|cc)\z/ || m{/core/base/json_parse\.c\z} || m{/schedulers/pipe/}; # a plugin has no core; its child is its operator's
    $files++;
    open my $source, '<', $_ or die "$_: $!";
    while (my $line = <$source>) {
        push @own, substr($_, length "$top/") . ":$." if $line =~ /\bjson_load(?:s|b|f|_file|_callback)\s*\(/;
    }
}
find({ no_chdir => 1, wanted => \&look }, map { "$top/$_" } qw(core text include kernels plugins sdk tools));
cmp_ok $files, '>', 300, 'the sources are there';
is "@own", '', 'JSON is read by lls_json_parse() and its like';
done_testing;
