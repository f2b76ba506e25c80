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
sub page { open my $file, '<', "$out/league.html" or return ''; local $/; return scalar <$file> }
like page(), qr/<h1>.*?loses most.*?<td>attained %<\/td><td[^>]*>tenants 1: \d+\.\d<\/td>.*?<h2>All policies/s, 'and there is a page, with worst cells first';
unlike page(), qr/Agents in closed loops/, '  and without agents';

sub runs { my ($n) = qx('$^X' '$source/experiments/league/league' @cell --plugin scheduler_sjf.so --out $out @_ '$build' 2>&1) =~ / of (\d+) runs to go/; return $n // 0 }
utime 1, 1, 'scheduler_sjf.so';
open my $agents, '>', 'agents.csv' or BAIL_OUT("agents.csv: $!");
print $agents "workload,agents,policy,back p50,back p99,first p99,gap p99,e2e,hits\n", "coding,90,a,2,8,1,100,9,40\n", "coding,90,b,1,16,1,100,9,80\n",
  "chats,30,a,2,1,1,20,5,100\n", "chats,30,b,2,1,1,20,5,100\n";
close $agents or BAIL_OUT("agents.csv: $!");
is runs('--agents', 'agents.csv'), 0, 'what is known is not run again';
like page(), qr/Agents in closed loops.*?<td>a<\/td><td[^>]*>1\.41x \(2\.0 coding, 90\)<\/td><td[^>]*>1\.00x \(1\.0 .*?<td>b<\/td>.*?All policies/s, '  and agents are on the page';
utime time, time + 9, 'scheduler_sjf.so';
is runs(), 2, '  but a plugin that was built since then, with both seeds';
utime 1, 1, 'scheduler_sjf.so'; # or it is newer for as long as the clock is behind its time
is runs('--seeds', 2), 2, 'of what --quick sets, seeds that are given win';
is runs('--loads', '1,1.3'), 4, '  and so do loads';

# Two sessions of 48 tokens come back, at 11 and at 21 s. A third one needs as many of 112 tokens before: the one that
# comes back last loses 32.
sub found {
    my ($device, @options) = @_;
    open my $file, '>', 'report.json' or BAIL_OUT("report.json: $!");
    print $file qq({"sessions": [1, 2, 3, 1, 2], "start_times": [0, 3, 6, 10, 20], "input_lens": [32, 32, 32, 64, 64],
      "output_lens": [16, 16, 16, 16, 16], "ttfts": [1, 1, 1, 1, 1], "latencies": [2, 2, 2, 2, 2], "shared_tokens": 40,
      "cache_bytes": 1000, "cache_tokens": $device, "host_cache_bytes": 0, "block_tokens": 16});
    close $file or BAIL_OUT("report.json: $!");
    my $said = qx('$^X' '$source/experiments/league/returns' @options report.json 2>&1);
    return $said =~ /^report\.json +40 +(\d+) /m ? $1 : $said;
}
is found(1000), 96, 'with memory for all the oracle of returns finds both prefixes';
is found(112), 64, '  with less the one that comes back last loses its last tokens';
is found(12, '--host-tokens', 100), 64, '  device and host count together';
is found(12), 0, '  without room nothing stays';
is found(80), 32, '  the later one all of them';
is found(80, '--knows', 'nothing'), 0, '  if it knows nothing, the one that has been away longest, which is back first';
like found(112, '--knows', 'median'), qr/^[1-9]\d*$/, '  with medians it finds some';
my ($order, $age) = map { found(112, '--knows', $_) } qw(order nothing);
ok $order =~ /^\d+$/ && $order > $age, '  in an order that holds medians more than in that of age' or diag "$order, $age";
like found(112, '--knows', 'mode'), qr/--knows: all, median/, '  other words are refused';
is found(1000, '--shared', '16,1'), 144, '  instructions that sessions share are found by first turns, too';
done_testing;
