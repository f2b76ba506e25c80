#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A source has one idea and all of it: less than 40 lines are a part of another file's idea,
# unless there is a reason that stands here; more than 600 are two ideas.
use strict;
use warnings;
use File::Find;
use Test::More;

my $top = $ENV{LLS_SRCDIR} // '.';

# The levels of the CPU's kernels, of which core/device/isa.h has a list.
open my $isa, '<', "$top/core/device/isa.h" or die "core/device/isa.h: $!";
my $levels = join '|', map { m{^\s*FIRST\(} ? /(?:FIRST|NEXT)\((\w+)\)/g : () } <$isa>;

# Files of fewer than 40 lines, by what makes each a file of its own.
my @small = (
    [ qr{^core/http/llhttp_\w+\.c}                 => 'the only files that are compiled with llhttp' ],
    [ qr{^kernels/cpu/\w+_(?:$levels)\.c}         => 'compiled for one instruction set' ],
    [ qr{^kernels/cuda/attention(?:_\w+)?\.cu}     => 'an instance of attention.cuh, compiled beside the others' ],
    [ qr{^kernels/builtin\.c}                   => 'above the folders of devices' ],
    [ qr{^kernels/cuda/module\.c}                  => 'the one symbol of a module' ],
    [ qr{^tools/plugin-check/watch_module\.c}      => 'above the watch of each kind' ],
    [ qr{^core/plugin/trial_main\.c}               => 'a main of its own: what tries a plugin' ],
    [ qr{^core/config/tenant_keys\.c}           => 'below the reader of [tenant.NAME], as all tables are' ],
    [ qr{^core/model/\w+\.c}                       => 'an architecture is a file' ],
    [ qr{^tools/whatif/nameless\.c}              => 'the one way to a file in memory that other programs open' ],
    [ qr{^core/base/thread\.c}                     => 'the join that POSIX threads lack' ],
    [ qr{^core/base/check\.c}                      => 'what LLS_CHECK calls where there are checks' ],
    [ qr{^core/serve/descriptors\.c}               => 'one limit of the process' ],
    [ qr{^text/grammar/grammar_marks\.c}          => 'above both trees and vocabularies' ],
    [ qr{^core/instance/step_thread\.c}           => 'the status alone; core/loop runs the thread' ],
    [ qr{^core/loop/hang\.c}                       => 'a watch that both threads touch, and no more' ],
    [ qr{^core/loop/policy_stats_json\.c}          => 'above the loop, which has the stats' ],
    [ qr{^text/template/scope\.c}                  => 'below the four files that recurse' ],
    [ qr{^text/tokenizer/stage\.c}                 => 'below all stages' ],
    [ qr{^sdk/policy/\w+\.c}                       => 'a header of libllmserve-policy each' ],
    [ qr{^plugins/}                                => 'a formula or an ablation of a paper' ],
);

my (%lines, %used);
sub measure {
    return if !/\.(c|h|cc|cpp|cu|cuh)\z/;
    open my $source, '<', $_ or die "$_: $!";
    my $count = () = <$source>;
    $lines{ substr $_, length "$top/" } = $count;
}
find({ no_chdir => 1, wanted => \&measure }, map { "$top/$_" } qw(core text include kernels plugins sdk tools));

cmp_ok(scalar keys %lines, '>', 500, 'the sources are there');
is_deeply([ map { "$_: $lines{$_}" } grep { $lines{$_} > 600 } sort keys %lines ], [], 'none is over 600 lines');
my @without;
for my $path (sort grep { $lines{$_} < 40 && /\.(c|cc|cpp|cu)\z/ } keys %lines) {
    my ($reason) = grep { $path =~ $_->[0] } @small;
    $used{ $reason->[1] } = 1 if defined $reason;
    push @without, "$path: $lines{$path}" if !defined $reason;
}
is_deeply(\@without, [], 'none under 40 has no reason to be a file');
is_deeply([ grep { !$used{$_} } map { $_->[1] } @small ], [], 'no reason is idle');
done_testing;
