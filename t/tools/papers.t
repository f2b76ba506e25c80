#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# bench/papers: its scripts compile, its rule judges as it says, and canned numbers become the page they should.
# No script is run: that takes minutes, and is bench/papers/all's.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $folder;
BEGIN { $folder = ($ENV{LLS_SRCDIR} // '.') . '/bench/papers' }
use lib $folder;
use Headlines qw(headline headline_of verdict);
use Page qw(read_lines write_lines over page counts reasons proved);
use Seeds qw(mean interval first_seeds side_by_side lists_side_by_side);

# ---- the scripts ----------------------------------------------------------------------------
my @scripts = grep { -f && do { open my $file, '<', $_ or die "$_: $!"; readline($file) =~ /perl/ } } glob "$folder/*";
cmp_ok(scalar @scripts, '>', 10, 'the scripts are there');
for my $script (@scripts, glob "$folder/*.pm") {
    my $said = qx('$^X' '-I$folder' -wc '$script' 2>&1);
    like $said, qr/\A\S+ syntax OK\n\z/, $script =~ s{.*/}{}r . ' compiles without a warning';
}

# ---- the rule -------------------------------------------------------------------------------
sub judged { my ($paper, $ours, $half, $unit, @more) = @_; return verdict({ paper => $paper, ours => $ours, half => $half, unit => $unit, @more }) }

my @rule = (
    [ 'farther than the paper'           => 'met',     2.0, 2.5, 0.3, 'x' ],
    [ 'as far'                           => 'met',     2.0, 2.0, 0.3, 'x' ],
    [ 'less far'                         => 'in kind', 2.0, 1.5, 0.3, 'x' ],
    [ 'hardly at all'                    => 'not met', 2.0, 1.09, 0.01, 'x' ],
    [ 'less far, the interval reaches 1' => 'not met', 2.0, 1.2, 0.3, 'x' ],
    [ 'farther, and it does too'         => 'not met', 2.0, 9.0, 8.5, 'x' ],
    [ 'the opposite'                     => 'not met', 2.0, 0.5, 0.1, 'x' ],
    [ 'a ratio below 1'                  => 'met',     0.5, 0.4, 0.1, 'x' ],
    [ 'a fall'                           => 'met',     -46, -64, 8,   '%' ],
    [ 'a smaller fall'                   => 'in kind', -46, -20, 8,   '%' ],
    [ 'a rise instead'                   => 'not met', -46, 20,  8,   '%' ],
    [ 'an interval of logarithms'        => 'met',     2.0, 7.5, 57,  'x', low => 1.1, high => 28 ],
    [ 'one that reaches 1'               => 'not met', 2.0, 7.5, 57,  'x', low => 0.9, high => 28 ],
    [ 'no interval'                      => 'in kind', 2.0, 1.5, undef, 'x' ],
    [ 'not run'                          => 'open',    2.0, undef, undef, 'x' ],
    [ 'an effect without a number'       => 'met',     undef, 0.5, 0.1, 'x', sign => -1 ],
    [ 'and none'                         => 'not met', undef, 1.5, 0.1, 'x', sign => -1 ],
    [ 'a limit that is kept'             => 'met',     8.6, 5.3, 1.4, '%', bound => 'most' ],
    [ 'one that is not'                  => 'not met', 8.6, 10.1, 1, '%', bound => 'most' ],
    [ 'but better than without'          => 'in kind', 8.6, 10.1, 1, '%', bound => 'most', none => 90 ],
    [ 'or not by its interval'           => 'not met', 8.6, 80, 16, '%', bound => 'most', none => 90 ],
    [ 'a least'                          => 'met',     90,  91, 1, '%', bound => 'least' ],
    [ 'a loss of that much'              => 'not met', -11.3, -36.7, 1, '%', bound => 'least' ],
    [ 'a value, near it'                 => 'met',     90, 83, 9, '%', near => 0.1 ],
    [ 'and far from it'                  => 'not met', 90, 39, 9, '%', near => 0.1 ],
);
for (@rule) {
    my ($what, $verdict, @line) = @$_;
    is judged(@line), $verdict, "rule: $what";
}

# ---- seeds ----------------------------------------------------------------------------------
# By hand: 1..5 have a deviation of sqrt(2.5), and t with 4 degrees of freedom is 2.776.
is sprintf('%.3f', interval(1 .. 5)), '1.963', 'the interval of five';
is interval(7), 0, 'and of one';
{
    local $ENV{SEEDS} = 2;
    is_deeply [first_seeds(1 .. 5)], [1, 2], 'SEEDS bounds the seeds';
    local $ENV{JOBS} = 2;
    is_deeply [side_by_side(sub { { square => $_[0]**2 } }, 1 .. 4)], [map { { square => $_**2 } } 1 .. 4], 'side by side, in order';
    is_deeply [lists_side_by_side(sub { (1) x $_[0] }, 0 .. 2)], [[], [1], [1, 1]], 'lists too';
    is eval { local $SIG{__WARN__} = sub { }; side_by_side(sub { die "no\n" if $_[0] == 2 }, 1 .. 3); 1 }, undef, 'and one that fails is an error';
}

# ---- numbers to page ------------------------------------------------------------------------
my $dir = tempdir(CLEANUP => 1);
headline('BROS', 'unseen', '1', 1, 1, 1, 'x');
is_deeply [read_lines("$dir/lines")], [], 'without HEADLINES nothing is written';
{
    local $ENV{HEADLINES} = "$dir/lines";
    headline_of('BROS', 'latency', 'Figure 10', -74.2, [-70, -72, -74], '%');
    headline_of('ALISE', 'rate', 'Figure 6', 1.8, [1.7, 2, 2], 'x', says => 'up to 1.8x', note => 'of one model');
}
my @kept = (
    { system => 'BROS', claim => 'latency', where => 'Figure 10', paper => -74.2, ours => -10, half => 1, unit => '%', date => '2026-01-01', command => 'old' },
    { system => 'BROS', claim => 'shared', where => 'Figure 13', paper => 1.63, ours => 1.2, half => 0.5, unit => 'x', date => '2026-01-01', command => 'bros build' },
    { system => 'BROS', claim => 'never', where => '7', paper => 2, ours => undef, half => undef, unit => 'x' },
);
write_lines("$dir/records", @kept);
my @lines = over([read_lines("$dir/records")], [read_lines("$dir/lines")]);
is_deeply [map { $_->{claim} } @lines], ['latency', 'shared', 'never', 'rate'], 'fresh over kept, in the order of the records';
is_deeply { counts(@lines) }, { 'met' => 1, 'in kind' => 1, 'not met' => 1, 'open' => 1 }, 'counted';
{
    open my $old, '>', "$dir/bros-2026-01-01.md" or die $!;
    print $old "| never | `bench/papers/bros build` | an older page |\n";
    open my $new, '>', "$dir/bros-2026-02-01.md" or die $!;
    print $new "| lat... | `bench/papers/bros build why` | a beginning |\n| other; shared | `SEEDS=1 bench/papers/bros build` | one of two |\n",
      "| never | nothing was run | an opinion |\n";
}
my $reasons = reasons($dir);
is_deeply [map { proved($_, $reasons) } @lines], [1, 1, 0, 0], 'shown by the newest page, where a row has a command';
is $reasons->{BROS}{page}, 'bros-2026-02-01.md', '  by its name';
my $page = page('what was run', \@lines, { ALISE => ['a.svg'] }, $reasons);
like $page, qr/^\*\*Result:\*\* of 4 headline numbers 1 are met, 1 in kind, 1 are not met, 1 open\./m, 'the counts are on top';
like $page, qr/^\| latency \| Figure 10 \| -74\.2 % \| -72\.0 % \| \+- 5\.0 \| in kind, shown \|$/m, 'a line';
like $page, qr/^\| shared \| Figure 13 \| 1\.63x \| 1\.20x \[1\] \| \+- 0\.50 \| \*\*not met\*\*, shown \|$/m, 'a kept one is marked';
like $page, qr/^\[1\] of 2026-01-01, `bros build`$/m, '  with its date and command';
unlike $page, qr{-10\.0|`old`}, '  and who was replaced is gone';
like $page, qr/^\| never \| 7 \| 2x \|  \|  \| open \|$/m, 'what was not run is open';
like $page, qr/^\| rate \(of one model\) \| Figure 6 \| up to 1\.8x \| 1\.90x \| 1\.50 to 2\.39 \| met \|$/m, "the paper's own words";
like $page, qr/^!\[a\.svg\]\(a\.svg\)$/m, 'a figure';
like $page, qr/^\| BROS \|  \| 1 \| 1 \| 1 \| 1 \|$/m, 'counts by system';
like $page, qr/^\*\*Not met:\*\* see the lines\. Of 1 the/m, 'and of those not met how many are shown';
like $page, qr/^Why, and how it was run: \[bros-2026-02-01\.md\]/m, "the system's page";
done_testing;
