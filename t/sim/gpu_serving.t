#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# bench/gpu_serving without a GPU: its scripts run on the CPU engine and in the simulator, and the lower bound
# of a step equals the one computed by hand. The measured values do not matter here.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Sim;
use Cwd qw(abs_path);
use File::Path qw(make_path);
use Test::More;

plan skip_all => 'no python3' if system('python3 -c "import json" 2>/dev/null') != 0;
my $scripts = abs_path("$source/bench/gpu_serving");
$ENV{PYTHONDONTWRITEBYTECODE} = 1;
$ENV{LLS_SRCDIR} = abs_path($source);
$ENV{LLS_BUILDDIR} = abs_path($Sim::build);
$ENV{LENGTHS} = $ENV{POLICIES_LENGTHS} = write_file('lengths.csv', "prompt_tokens,output_tokens\n" . join('', map { "$_,4\n" } 5 .. 14));
@ENV{qw(SEQUENCES STEP_TOKENS MORE_INI)} = (4, 32, 'device_memory = 1MiB');

# The script's exit status and what it printed.
sub script {
  my ($name, @arguments) = @_;
  my $out = qx(python3 "$scripts/$name" "$folder" @arguments 2>&1);
  return ($? >> 8, $out);
}

# A row of the last table: its cells by the first one.
sub row {
  my ($out, $first) = @_;
  my ($line) = $out =~ /^\| (\Q$first\E +\|.*)$/m or return;
  return [split / *\| */, $line];
}

# Llama-3-8B has 7,504,658,432 numbers in products; a token of its cache is 131,072 bytes.
my $floor = qx(python3 -c "import sys; sys.path.insert(0, '$scripts'); import common as c; s = c.Shape('$source/bench/llama-3-8b')
print('%.4f %.4f' % (1e3 * s.floor(1, 1, 1000, 1e12, 1e15), 1e3 * s.floor(10000, 10000, 0, 1e15, 1e12)))");
is($floor, "15.1404 150093.1686\n", 'a step is bound by bytes, or by operations');

$ENV{DEVICE} = 'cpu';
$ENV{MODELS} = abs_path("$source/t/data/models/llama");
my ($status, $out) = script('measure.py', 8);
is($status, 0, 'measure') or diag($out);
like($out, qr/^\| llama +\| of the fit +\| \d+/m, 'says how far the fit is off');
ok(-s "$folder/profile-llama.ini", 'and there is a profile');

($status, $out) = script('serve.py', 10);
is($status, 0, 'serve') or diag($out);
cmp_ok(row($out, 'output tok/s')->[1], '>', 0, 'tokens come');
cmp_ok(row($out, 'simulated: output tok/s')->[1], '>', 0, 'and are simulated');
cmp_ok(row($out, 'sequences a step')->[1], '<=', 4, 'in batches of the clients');

@ENV{qw(DEVICE PROFILE MOST_REQUESTS SEEDS SYSTEMS)} = ('sim', 'h100-80g', 20, 2, 'fcfs|alise|bros');
($status, $out) = script('policies.py', 60);
is($status, 0, 'policies') or diag($out);
is(row($out, 'fcfs-plain-3')->[4], '+0.0', 'the simulator beside itself is not off');
like($out, qr/^\| 3 +\| alise .*\| (holds|does not) *\|$/m, 'a headline');
like($out, qr/^\| 3 +\| bros /m, 'and that of mixed classes');

delete $ENV{PROFILE};
$ENV{SYSTEMS} = 'nobody';
$ENV{POLICIES_MODEL} = "$folder/no-model";
($status, $out) = script('policies.py', 60);
isnt($status, 0, 'a run that fails is no success');
like($out, qr/alone: status/, 'and is named');

done_testing;
