#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# experiments/papers: its scripts compile, its rule gives the expected verdicts, and prepared numbers give the
# expected page. No script is run: that takes minutes, and is done by experiments/papers/all.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $folder;
BEGIN {
    $folder = ($ENV{LLS_SRCDIR} // '.') . '/experiments/papers';
    plan skip_all => 'a release is without experiments/papers' if !-d $folder;
}
use lib $folder;
use Headlines qw(headline headline_of verdict verdict_before);
use Page qw(read_lines write_lines over still_said page counts reasons);
use Seeds qw(mean interval first_seeds side_by_side lists_side_by_side);
use Why qw(read_why unknown_claims);

# ---- the scripts ----------------------------------------------------------------------------
my @scripts = grep { -f && do { open my $file, '<', $_ or die "$_: $!"; readline($file) =~ /perl/ } } glob "$folder/*";
cmp_ok(scalar @scripts, '>', 10, 'the scripts are there');
for my $script (@scripts, glob "$folder/*.pm") {
    my $said = qx('$^X' '-I$folder' -wc '$script' 2>&1);
    like $said, qr/\A\S+ syntax OK\n\z/, $script =~ s{.*/}{}r . ' compiles without a warning';
}

# ---- the rule -------------------------------------------------------------------------------
sub numbered { my ($paper, $ours, $half, $unit, @more) = @_; return { paper => $paper, ours => $ours, half => $half, unit => $unit, @more } }

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
    [ 'an interval of logarithms'        => 'met',     2.0, 2.5, 57,  'x', low => 1.1, high => 28 ],
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
    is verdict(numbered(@line)),        $verdict, "rule: $what";
    is verdict_before(numbered(@line)), $verdict, '  and as before';
}
my @since = (
    [ 'just twice the effect'            => 'met',          'met',     2.0, 3.0, 0.3, 'x' ],
    [ 'more than twice'                  => 'beyond',       'met',     2.0, 3.1, 0.3, 'x' ],
    [ 'of a ratio the distance from 1'   => 'beyond',       'met',     1.1, 1.3, 0.01, 'x' ],
    [ 'a fall of more than twice'        => 'beyond',       'met',     -20, -64, 8, '%' ],
    [ 'a limit has no beyond'            => 'met',          'met',     8.6, 0.1, 0.1, '%', bound => 'most' ],
    [ 'nor has an effect without a size' => 'met',          'met',     undef, -9, 0.1, '%', sign => -1 ],
    [ 'a device with its date'           => 'other device', 'not met', 2.0, 0.5, 0.1, 'x', device => 'bench/x of 2026-11-29' ],
    [ 'also of what is in kind'          => 'other device', 'in kind', 2.0, 1.5, 0.1, 'x', device => 'bench/x of 2026-11-29' ],
    [ 'and without'                      => 'not met',      'not met', 2.0, 0.5, 0.1, 'x', device => 'it is the device' ],
    [ 'what is met is met on any'        => 'met',          'met',     2.0, 2.5, 0.1, 'x', device => 'bench/x of 2026-11-29' ],
);
for (@since) {
    my ($what, $verdict, $before, @line) = @$_;
    is verdict(numbered(@line)),        $verdict, "new rule: $what";
    is verdict_before(numbered(@line)), $before,  '  and by the old one';
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
is_deeply [map { $_->{claim} } @lines], [qw(latency shared never rate)], 'fresh over kept, in the order of the records';
push @lines, { system => 'ALISE', claim => 'gain', where => '6', paper => 1.5, ours => 3, half => 0.25, unit => 'x', shipped => 2, shipped_half => 0.5,
    base => 'FCFS 28.5 % | Sarathi 41.2 %', paper_base => 'FCFS about 70 %', helped => 'int8 cache' };
push @lines, { %{ $lines[-1] }, claim => 'far', paper => 2.5, ours => 0.5, device => 'an experiment of 2026-11-28' };
is_deeply { counts(\&verdict, @lines) }, { met => 1, beyond => 1, 'in kind' => 1, 'not met' => 1, 'other device' => 1, open => 1 }, 'counted';

# ---- what no script says any more -----------------------------------------------------------
{
    my $part = sub { my ($name, $ran, @more) = @_; return { system => 'BROS', name => $name, command => "experiments/papers/bros build $name", ran => $ran, @more } };
    my $old  = sub { my ($claim, %more) = @_; return { system => 'BROS', claim => $claim, %more } };
    my @old  = (
        $old->('said', part => 'pure'), $old->('silent', part => 'pure'), $old->('not run', part => 'rates'), $old->('hours', part => 'slow'),
        $old->('by command', command => 'N=1 experiments/papers/bros --headlines build pure'), $old->('renamed', part => 'gone'), $old->('by hand', command => 'x'),
    );
    my $left = sub { my $rates = shift; return [map { $_->{claim} } still_said(\@old, [$old->('said')], [$part->('pure', 1), $part->('rates', $rates), $part->('slow', 0, long => 1)])] };
    is_deeply $left->(0), ['said', 'not run', 'hours', 'renamed', 'by hand'], 'a part that ran takes along what it does not say';
    is_deeply $left->(1), ['said', 'hours'], 'and all of a system what is of no part';
}

# ---- why ------------------------------------------------------------------------------------
mkdir "$dir/why" or die $!;

sub why {
    my ($text) = @_;
    open my $file, '>', "$dir/why/bros" or die $!;
    print $file $text;
    close $file or die $!;
    return eval { [read_why("$dir/why/bros")] } // $@ =~ s/\A\Q$dir\E\///r;
}
my $block = "claim: latency\ndate: 2026-11-29\nexperiment: `bros build why` gave 1\n  and 2\nruled out: memory\nruled out: the link\n";
is_deeply why("$block\n\n" . $block =~ s/latency/shared/r),
    [map { { claim => $_->[0], date => '2026-11-29', experiment => '`bros build why` gave 1 and 2', 'ruled out' => ['memory', 'the link'], line => $_->[1], at => "$dir/why/bros:$_->[1]" } } ['latency', 1], ['shared', 9]],
    'blocks, and a line that goes on';
is_deeply [read_why("$dir/why/none")], [], 'none of no file';
is_deeply [unknown_claims(why($block =~ s/latency/late/r), @lines)], ["$dir/why/bros:1: no number has the claim 'late'"], 'a claim that is not there';
my @faults = (
    [ 'one cause'          => qr{^why/bros:1: 1 other cause }, $block =~ s/ruled out: the link\n//r ],
    [ 'the same twice'     => qr{^why/bros:1: both causes },    $block =~ s/the link/memory/r ],
    [ 'no experiment'      => qr{^why/bros:1: the block has no line 'experiment:'}, $block =~ s/experiment.*\n.*\n//r ],
    [ 'no claim'           => qr{^why/bros:1: the block has no line 'claim:'}, $block =~ s/claim.*\n//r ],
    [ 'no date'            => qr{^why/bros:1: the date 'today' }, $block =~ s/2026-11-29/today/r ],
    [ 'another key'        => qr{^why/bros:2: 'when: }, $block =~ s/date:/when:/r ],
    [ 'an empty value'     => qr{^why/bros:5: 'ruled out:' is not}, $block =~ s/memory//r ],
    [ 'two in one'         => qr{^why/bros:7: a second line 'claim:'}, $block . $block ],
    [ 'the same claim'     => qr{^why/bros:8: 'latency' has a block already, at line 1}, "$block\n$block" ],
    [ 'nothing to go on'   => qr{^why/bros:1: goes on with nothing}, "  $block" ],
);
like why($_->[2]), $_->[1], "a fault by file and line: $_->[0]" for @faults;
for my $path (grep { !/README\z/ } glob "$folder/why/*") {
    is eval { scalar(read_why($path)); 1 }, 1, "$path is whole" or diag $@;
}

# ---- the page -------------------------------------------------------------------------------
why("$block\n" . $block =~ s/latency/never/r);
for my $day (1, 2) { open my $file, '>', "$dir/bros-2026-02-0$day.md" or die $! }
my $reasons = reasons($dir, "$dir/why");
my $page = page('what was run', \@lines, { ALISE => ['a.svg'] }, $reasons);
like $page, qr/^\*\*Result:\*\* of 6 headline numbers 1 are met, 1 beyond the paper's \(1 without a reason\), 1 in kind, 1 not met, 1 another device's, 1 open\./m, 'the counts are on top';
like $page, qr/^\*\*By the old rule:\*\* 2 met, 1 in kind, 2 not met\./m, '  and those of the old rule';
like $page, qr/^\*\*Shown:\*\* 1 of the numbers/m, '  and how many are shown: what is open is not';
like $page, qr/^\| latency \| Figure 10 \| -74\.2 % \| -72\.0 % \+- 5\.0 \|  \| in kind, shown \(1\) \|$/m, 'a line';
like $page, qr/^1\. \*latency\*: `bros build why` gave 1 and 2 \(2026-11-29\)\n   - Ruled out: memory\n   - Ruled out: the link\n\n/m, '  and below the table why';
like $page, qr/^\| shared \| Figure 13 \| 1\.63x \| 1\.20x \+- 0\.50 \[1\] \|  \| \*\*not met\*\* \|$/m, 'a kept one is marked';
like $page, qr/^\[1\] of 2026-01-01, `bros build`$/m, '  with its date and command';
unlike $page, qr{-10\.0|`old`}, '  and who was replaced is gone';
like $page, qr/^\| never \| 7 \| 2x \|  \|  \| open \|$/m, 'what was not run is open';
like $page, qr/^\| rate \(of one model\) \| Figure 6 \| up to 1\.8x \| 1\.90x \(1\.50 to 2\.39\) \|  \| met \|$/m, "the paper's own words";
like $page, qr/^\| gain<br>\*baseline:\* FCFS 28\.5 % \\\| Sarathi 41\.2 %; \*the paper's:\* FCFS about 70 %<br>\*helped:\* int8 cache<br>\*beyond:\* reason not given \| 6 \| 1\.5x \| 3\.00x \+- 0\.25 \| 2\.00x \+- 0\.50 \| beyond \|$/m, 'what it is compared with, and as shipped';
like $page, qr/^\| far<br>.*<br>\*device:\* an experiment of 2026-11-28 \| .* \| other device \|$/m, 'a device';
like $page, qr/^!\[a\.svg\]\(a\.svg\)$/m, 'a figure';
like $page, qr/^\| BROS \|  \|  \| 1 \| 1 \|  \| 1 \| 1 \|  \| 1 \| 1 \|$/m, 'counts by system';
like $page, qr/^The set-up, and what would bring a missed number to the paper's: \[bros-2026-02-02\.md\]/m, "the system's newest page";
done_testing;
