#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-sim and llmserve-profile on the CUDA device, here the emulated one of t/simt: loads run through the
# real engine while the clock skips idle times, and measurements become a profile.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Sim;
use File::Copy;
use Test::More;

my $build = $Sim::build;
my $plugins = $ENV{LLS_PLUGIN_PATH};
my @settings = ('--set', "model.path=$source/t/data/models/llama", 'model.load_format=dummy', 'engine.threads=1',
  'engine.pin=off', 'engine.max_step_tokens=64', 'engine.max_sequences=8', 'cache.device_memory=1MiB');
my @load = (qw(--dataset-name random --num-prompts 4 --random-input-len 20 --random-output-len 10 --request-rate 0.1));

my ($status, $out, $err) = do {
  local $ENV{LLS_PLUGIN_PATH} = "$folder:$plugins"; # what another build may have beside it comes later
  copy("$build/t/plugin/.libs/cache_null.so", "$folder/device_cuda.so") or die $!;
  local $ENV{LD_LIBRARY_PATH} = "$build/t/simt/.libs";
  run('llmserve-sim', '--device', 'cuda', @settings, @load);
};
isnt($status, 0, 'a module of another build is refused');
like($err, qr/--device cuda: \S+device_cuda.so is of another build/, 'by name');

copy("$build/t/simt/.libs/device_cuda.so", "$folder/device_cuda.so") or die $!;
$ENV{LLS_PLUGIN_PATH} = "$folder:$plugins";
$ENV{LD_LIBRARY_PATH} = "$build/t/simt/.libs";

my $began = time;
my $r = simulate('--device', 'cuda', @settings, @load);
is($r->{completed}, 4, 'a load through the real engine');
is($r->{backend}, 'cuda');
like($r->{machine}{device}, qr/^cuda: emulated GPU/, 'on the GPU');
cmp_ok($r->{duration}, '>', 5 + 2 * (time - $began), 'nobody slept until the next arrival');
cmp_ok($r->{machine}{busy_s}, '>', 0, 'steps took time');

($status, $out, $err) = do {
  local $ENV{SIMT_FAIL_AFTER} = 60; # launches: the weights take less
  run('llmserve-sim', '--device', 'cuda', @settings, @load);
};
like($err, qr/the first steps: CUDA, .*: launch failed/, 'first steps go before the load');

($status, $out, $err) =
  run('llmserve-sim', '--device', 'cuda', @settings, @load, '--set', 'engine.instances=2', 'cache.host_memory=1MiB');
isnt($status, 0, 'several instances');
like($err, qr/--device cpu and cuda run one instance, not 2/);

push @settings, 'engine.device=cuda';
($status, $out, $err) =
  run('llmserve-profile', '--time', '1s', '--output', "$folder/gpu.ini", @settings, 'cache.host_memory=1MiB');
is($status, 0, 'a GPU is measured') or diag($err);
like($out, qr/^of the fit\s+\d+/m); # the emulator is slow: perhaps one step and none held out
my $profile = read_file("$folder/gpu.ini");
like($profile, qr/^name = cuda: emulated GPU/m, 'and the profile is of it');
my ($share) = $profile =~ /^\[efficiency\].*?^memory = (\S+)/ms;
my ($memory) = $profile =~ /^memory = (\d+)/m;
cmp_ok($share, '<=', 0.01, 'with the memory that weights and cache have taken');
cmp_ok($share, '>', 0);

$r = simulate('--profile', "$folder/gpu.ini", @settings, @load);
is($r->{completed}, 4, 'llmserve-sim takes it');
like($r->{machine}{device}, qr/^cuda: emulated GPU/);

($status, $out, $err) = run('llmserve-profile', '--time', '1s', '--cpu-time', @settings);
is($status, 2, 'processor time of a GPU');
like($err, qr/--cpu-time: expected an engine on the CPU/);

done_testing;
