#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-profile on a tiny model: llmserve-sim accepts the profile that it writes.
# t/sim/test_profile_fit tests the quality of the fit; nothing here depends on times.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../api";
use Sim;
use Terminal qw(has_terminal on_terminal);
use Test::More;

my @settings = ('--set', "model.path=$source/t/data/models/llama", 'model.load_format=dummy',
                'engine.threads=1', 'engine.pin=off', 'engine.max_step_tokens=64',
                'engine.max_sequences=8', 'cache.device_memory=1MiB');

my ($status, $out, $err) =
  run('llmserve-profile', '--time', '1s', '--output', "$folder/cpu.ini", '--steps', "$folder/steps.csv",
      '--cpu-time', @settings);
is($status, 0, 'measures') or diag($err);
is($err, q(), 'without a word: no terminal');
like($out, qr/^relative error, %\s+steps\s+median\s+p95\s+max\nof the fit\s+\d+/);
like($out, qr/^held out\s+\d+\s+[\d.]+\s+[\d.]+\s+[\d.]+$/m);

SKIP: {
  skip 'no script, which makes a terminal', 2 if !has_terminal();
  my $measure = join ' ', "'$ENV{LLS_BUILDDIR}/llmserve-profile'", '--time 1s --cpu-time --output', "'$folder/again.ini'", map {"'$_'"} @settings;
  like(on_terminal($measure), qr/\r\[=* *\] \d+ %/, 'progress on a terminal');
  unlike(on_terminal("$measure --quiet"), qr/\r\[/, '  none with --quiet');
}

my @steps = split /\n/, read_file("$folder/steps.csv");
is(shift @steps, 'kind,sequences,rows,drawn,pairs,cached,ns,fitted_ns,held_out,parts', 'steps as CSV');
is(scalar(grep { !/^[012],\d+,\d+,\d+,\d+,\d+,\d+,\d+,[01],\d+\+\d+/ } @steps), 0, 'a line each');
cmp_ok(scalar(@steps), '>', 4, 'all of them');

my $r = simulate('--profile', "$folder/cpu.ini", '--model', "$source/t/data/models/llama",
                 '--set', 'cache.device_memory=1MiB', '--dataset-name', 'random',
                 '--num-prompts', 10, '--random-input-len', 20, '--random-output-len', 10);
is($r->{completed}, 10, 'and llmserve-sim takes it');
like($r->{machine}{device}, qr/^cpu: /);

my $real = simulate('--device', 'cpu', '--cpu-time', @settings, '--dataset-name', 'random', '--num-prompts', 4,
                    '--random-input-len', 20, '--random-output-len', 10, '--request-rate', 0.1);
is($real->{completed}, 4, 'the real engine in processor time');
cmp_ok($real->{duration}, '>', 30, 'nobody slept for its half a minute');

($status, $out, $err) = run('llmserve-profile', '--time', '1s', '--cpu-time', @settings, 'engine.threads=2');
is($status, 2, 'processor time of two threads');
like($err, qr/--cpu-time: expected an engine of one thread/);
($status, $out, $err) = run('llmserve-profile', '--time', '1s');
is($status, 2, 'without a model');
like($err, qr/needs the key 'path'/);
($status, $out, $err) = run('llmserve-profile', '--tim', '1s');
is($status, 2, 'unknown option');
like($err, qr/did you mean --time/);
($status, $out, $err) =
  run('llmserve-profile', '--time', '1s', '--output', '/nowhere/x.ini', @settings);
is($status, 2, 'nowhere to write');
like($err, qr{/nowhere/x\.ini: cannot write});

($status, $out, $err) =
  run('llmserve-profile', '--time', '1s', @settings, map {"engine.max_sequences=$_"} 1 .. 64);
is($status, 2, 'more settings than are read');
like($err, qr/--set: expected at most 64 settings/);

done_testing;
