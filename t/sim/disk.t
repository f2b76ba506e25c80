#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-sim with [cache] disk_space: sessions whose beginning has left the device find it on the profile's disk, sooner
# on a fast one than on a slow one; nothing is read or written; a profile without a disk says so.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Sim;
use Test::More;

my $ini  = write_file('policies.ini', "[plugins]\nscheduler = sarathi\ncache = paged\n[cache]\ndevice_memory = 2GiB\n");
my @load = ('-c', $ini, qw(--model llama-3-8b --dataset-name agents --num-prompts 8 --request-rate 4 --agents-turns fixed:3 --agents-prefix-len 0
  --agents-first-lengths fixed:4000 --agents-added-lengths fixed:100 --agents-output-lengths fixed:20 --agents-tools :1:8 --save-detailed));

sub with {
  my ($profile, $space, @more) = @_;
  return simulate(@load, '--profile', $profile, '--set', "cache.disk_space=$space", @more);
}

# The A100 with another disk, in GB/s, or without.
sub disk {
  my ($name, $rate) = @_;
  my $text = read_file("$source/etc/profiles/a100-40g.ini");
  $text =~ s/^\[disk\]\n(?:.+\n)+//m or die 'no [disk]';
  $text .= "[disk]\nread = $rate\n" . ($rate =~ /write/ ? '' : "write = 5\n") if defined $rate;
  return write_file($name, $text);
}

# The mean time to the first token of turns that come back.
sub back {
  my ($r) = @_;
  my ($n, $sum) = (0, 0);
  for my $i (8 .. $#{ $r->{ttfts} }) { $n++; $sum += $r->{ttfts}[$i] }
  return $sum / $n;
}

chdir $Sim::folder or die $!;
my $none = with('a100-40g', 0);
my $disk = with('a100-40g', '1TiB');
my $slow = with(disk('slow.ini', 0.5), '1TiB');
is $_->{completed}, 24, 'all turns are answered' for $none, $disk, $slow;
is $none->{machine}{disk}, undef, 'without disk_space there is no disk';
my $d = $disk->{machine}{disk};
cmp_ok $d->{shared_tokens}, '>', 8 * 4000, 'what has left the device is found on disk';
cmp_ok $disk->{machine}{shared_tokens}, '>', $none->{machine}{shared_tokens} + 4 * 4000, '  and shared';
is $d->{read_bytes} % (2 << 20), 0, 'blocks of 2 MiB are read';
cmp_ok $d->{read_bytes}, '>=', $d->{shared_tokens} * (128 << 10), '  for all of it';
cmp_ok back($disk), '<', back($none), 'turns come back sooner';
cmp_ok back($slow), '>', 2 * back($disk), '  and later from a slow disk';
is_deeply with('a100-40g', '1TiB'), $disk, 'it can be repeated';
my $small = with('a100-40g', '64MiB')->{machine}{disk};
cmp_ok $small->{blocks_used}, '<=', 31, 'a small disk is full';
is $small->{shared_tokens}, 0, '  and has no whole beginning';
# 1,750 blocks of 2,128. With the order of writing alone, first blocks first, 22,176 tokens were found.
cmp_ok with('a100-40g', '3500MiB')->{machine}{disk}{shared_tokens}, '>', 30_000, 'what leaves a full disk are the ends of prompts';
# Two long beginnings and a short one come back together from a disk that takes 1.9 s for a long one; the device has room
# for one long one and the short one at a time.
my @hashes = ([1 .. 14], [101 .. 114], [201, 202], map { my $i = $_; [map { 1000 * $i + $_ } 1 .. 15] } 1 .. 3);
my ($time, $lines) = (0, '');
for my $i (0 .. 5, 0 .. 2) {
  $time = 600_000 if $lines =~ tr/\n// == 6;
  $lines .= sprintf qq({"timestamp": %d, "input_length": %d, "output_length": 2, "hash_ids": [%s]}\n), $time, 512 * @{$hashes[$i]} + 8,
    join ',', @{$hashes[$i]}, 9000 + $lines =~ tr/\n//;
  $time += $time < 600_000 ? 60_000 : 10;
}
my $trace = write_file('back.jsonl', $lines);
my $three = simulate('-c', $ini, qw(--model llama-3-8b --dataset-name timed_trace --save-detailed --dataset-path), $trace, '--profile',
  disk('slow.ini', 0.5), '--set', 'cache.disk_space=1TiB', 'cache.device_memory=2560MiB');
my ($first, $second, $short) = @{ $three->{ttfts} }[6 .. 8];
cmp_ok $three->{machine}{disk}{shared_tokens}, '>=', 2 * 7168 + 1024, 'what returns together is found on disk';
cmp_ok $first, '>', 1.8, '  after a long read';
cmp_ok $second, '>', $first + 1.8, '  one long one after the other';
cmp_ok $short, '<', 1, '  and a short one passes both';
# A scheduler sees them before they arrive (t/fault/scheduler_arriving.c). The first plan is for the short one.
my ($status, $out, $err) = run('llmserve-sim', '--json', 'r.json', '-c', $ini, qw(--model llama-3-8b --dataset-name timed_trace --dataset-path), $trace,
  '--profile', disk('slow.ini', 0.5), '--set', "plugins.scheduler=$Sim::build/t/fault/.libs/scheduler_arriving.so", 'cache.disk_space=1TiB',
  'cache.device_memory=2560MiB');
is $status, 0, 'a scheduler that looks at what arrives';
like $err, qr/arriving: 2, the last of 7176 tokens, reserve -2$/m, '  sees those that wait for the disk, and cannot reserve for them';
my @arrived = $err =~ /arrived: (\d+) tokens/g;
is_deeply \@arrived, [7176, 7176], '  until they arrive';
# A scheduler that keeps sessions on disk, and has them read before they return (t/fault/scheduler_keeping.c).
my @few     = (@load, '--profile', 'a100-40g', '--set', 'cache.disk_space=1TiB');
my $fetches = "plugins.scheduler=$Sim::build/t/fault/.libs/scheduler_keeping.so";
my ($waits, $ahead, $held) = (simulate(@few), simulate(@few, $fetches), simulate(@few, $fetches, 'cache.disk_lease_share=0.0001'));
is $waits->{machine}{disk}{fetched_tokens}, 0, 'nothing is read before a session returns';
cmp_ok $ahead->{machine}{disk}{fetched_tokens}, '>', 10_000, '  unless the scheduler has it read';
cmp_ok back($ahead), '<', back($waits), '  and then turns come back sooner';
cmp_ok $ahead->{machine}{disk}{blocks_held}, '>', 1_000, 'sessions are kept on disk';
cmp_ok $held->{machine}{disk}{blocks_held}, '<=', 52, '  up to their share of 524,271 blocks';
is_deeply simulate(@few, $fetches), $ahead, '  and it can be repeated';
($status, $out, $err) = run('llmserve-sim', '--quiet', '--json', 'r.json', @load, '--profile', disk('none.ini', undef), '--set', 'cache.disk_space=1TiB');
is $status, 0, 'a profile without a disk';
like $err, qr/the profile has no \[disk\]/, '  says so';
($status, $out, $err) = run('llmserve-sim', '--quiet', '--json', 'r.json', @load, '--profile', disk('free.ini', "0.5\nwrite = 0"));
isnt $status, 0, 'a disk that is written in no time';
like $err, qr/free\.ini:\d+: \[disk\] read and write: expected both above 0, or none/, '  is refused';
is_deeply [glob '*blocks* *prompts*'], [], 'nothing is written';
done_testing;
