#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# experiments/league accepts an external scheduler, given by its path relative to the folder where the league
# is started.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Test::More;

my ($source, $build) = map { abs_path($ENV{$_} // '.') } qw(LLS_SRCDIR LLS_BUILDDIR);
plan skip_all => 'a release is without experiments/league' if !-d "$source/experiments/league";
my $folder = tempdir(CLEANUP => 1);
copy("$build/.libs/scheduler_sjf.so", $folder) or BAIL_OUT("scheduler_sjf.so: $!");
chdir $folder or BAIL_OUT("$folder: $!");

my @cell = (qw(--quick --jobs 1 --workloads tenants --policies), 'scheduler_sjf,vtc');
my $out = 'a';
for my $name ('scheduler_sjf.so', './scheduler_sjf.so', "$folder/scheduler_sjf.so") {
    my $said = qx('$^X' '$source/experiments/league/league' @cell --plugin '$name' --out @{[++$out]} '$build' 2>&1);
    is $?, 0, "--plugin $name" or diag $said;
    like $said, qr/^scheduler_sjf +\d\.\d\d /m, '  it has a rank';
}
ok -s "$out/league.html", 'and there is a page';

sub runs { my ($n) = qx('$^X' '$source/experiments/league/league' @cell --plugin scheduler_sjf.so --out $out @_ '$build' 2>&1) =~ / of (\d+) runs to go/; return $n // 0 }
utime 1, 1, 'scheduler_sjf.so';
is runs(), 0, 'what is known is not run again';
utime time, time + 9, 'scheduler_sjf.so';
is runs(), 2, '  but a plugin that was built since then, with both seeds';
utime 1, 1, 'scheduler_sjf.so'; # or it is newer for as long as the clock is behind its time
is runs('--seeds', 2), 2, 'of what --quick sets, seeds that are given win';
is runs('--loads', '1,1.3'), 4, '  and so do loads';
done_testing;
