#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-sim from end to end: small schedules computed by hand, repeatability,
# conservation with every scheduler, memory, and errors for bad input.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Sim;
use Test::More;

my @tiny = ('--model', "$source/t/data/models/llama", '--profile', profile('ten.ini'),
            '--set', 'cache.device_memory=1MiB', 'engine.max_context=512');

sub near {
  my ($found, $expected, $what) = @_;
  ok(abs($found - $expected) < 0.01 * $expected, "$what: $expected")
    or diag("found $found");
}

subtest 'three requests by hand' => sub {
  # fcfs, steps of 10 ms: A's prompt [0,10], B (came at 5) [10,20], A and B decode
  # [20,30], C (came at 25) [30,40], then all decode.
  my $trace = write_file('three.csv', <<'CSV');
arrival_s,prompt_tokens,output_tokens
0,40,3
0.005,50,4
0.025,60,2
CSV
  my $r = simulate(@tiny, '--trace', $trace, '--save-detailed');
  is($r->{completed}, 3);
  near($r->{ttfts}[0] * 1e3, 10, 'A first token');
  near($r->{ttfts}[1] * 1e3, 15, 'B first token');
  near($r->{ttfts}[2] * 1e3, 15, 'C first token');
  near($r->{duration}, 0.060, 'all of it');
  is($r->{engine}{steps}, 6);
  is($r->{total_output_tokens}, 9);
};

subtest 'sessions in the lists of requests' => sub {
  my $r = simulate(@tiny, qw(--dataset-name agents --num-prompts 2 --request-rate 100 --agents-turns fixed:2 --agents-prefix-len 16
    --agents-first-lengths fixed:16 --agents-added-lengths fixed:16 --agents-output-lengths fixed:4 --agents-tools :1:0.1 --save-detailed));
  is_deeply($r->{sessions}, [1, 2, 1, 2], 'first turns, then those that follow');
  is_deeply($r->{input_lens}, [32, 32, 52, 52], 'as the lengths say');
};

subtest 'what plugins log' => sub {
  my @one = (@tiny, '--trace', write_file('logged.csv', "arrival_s,prompt_tokens,output_tokens\n0,40,3\n"),
    '--set', "plugins.predictor=$Sim::build/t/fault/.libs/predictor_good.so");
  my ($status, $out, $err) = run('llmserve-sim', @one);
  like($err, qr/ info +predictor good: the good one begins$/m, 'goes to stderr');
  unlike($err, qr/ debug /, 'down to the level of the configuration');
  ($status, $out, $err) = run('llmserve-sim', @one, 'server.log_level=debug');
  like($err, qr/ debug +predictor good: asked of 40 tokens$/m, 'more with log_level = debug');
  ($status, $out, $err) = run('llmserve-sim', @one, 'server.log_level=error');
  is($err, '', 'nothing with log_level = error');
};

subtest 'a profile is the time: copies, ranks, plans' => sub {
  my $trace = write_file('one.csv', "arrival_s,prompt_tokens,output_tokens\n1,40,3\n");
  near(simulate(@tiny, '--trace', $trace)->{duration}, 0.030, 'three steps');
  near(simulate(@tiny, '--trace', $trace, '--plan-time', '5ms')->{duration}, 0.045,
       'with plans');
  my $reducing = profile('reducing.ini', "[peer_link]\nbandwidth = 1000000\nlatency = 1ms\n");
  my $r = simulate(@tiny, '--trace', $trace, '--ranks', 2, '--profile', $reducing);
  my $layers = 2;
  near($r->{duration}, 3 * (0.010 + 2 * $layers * 0.001), 'with all-reduces');
  $r = simulate(@tiny, '--trace', $trace, '--set', 'engine.tensor_parallel_size=2', '--profile', $reducing);
  near($r->{duration}, 3 * (0.010 + 2 * $layers * 0.001), 'as many ranks as the configuration says');
};

subtest 'who orders by lengths and is told none is warned of' => sub {
  my $trace = write_file('one.csv', "arrival_s,prompt_tokens,output_tokens\n1,40,3\n");
  for my $case (['sjf', 'none', 1], ['srpt', 'none', 1], ['sjf', 'fixed', 0], ['fcfs', 'none', 0]) {
    my ($scheduler, $predictor, $warned) = @$case;
    simulate(@tiny, '--trace', $trace, '--set', "plugins.scheduler=$scheduler", "plugins.predictor=$predictor");
    my $err = read_file("$folder/err");
    is($err =~ /$scheduler.*orders by predicted lengths, and .*none predicts nothing/ ? 1 : 0, $warned, "$scheduler with $predictor")
      or diag $err;
  }
};

my @load = ('--dataset-name', 'random', '--num-prompts', 80, '--random-input-len', 60,
            '--random-output-len', 40, '--random-range-ratio', 0.9, '--request-rate', 40,
            '--burstiness', 0.5);

subtest 'the same command, the same bytes' => sub {
  my @run = (@tiny, @load, '--set', 'plugins.scheduler=sarathi', 'cache.device_memory=96KiB');
  simulate(@run, '--seed', 1);
  my $first = read_file("$folder/report.json");
  simulate(@run, '--seed', 1);
  ok(read_file("$folder/report.json") eq $first, 'same seed');
  simulate(@run, '--seed', 2);
  ok(read_file("$folder/report.json") ne $first, 'other seed');
};

subtest 'every request ends once, whatever the policies' => sub {
  my $tokens = simulate(@tiny, @load)->{total_output_tokens};
  for my $scheduler (qw(fcfs sarathi)) {
    for my $memory (qw(64KiB 128KiB 1MiB)) {
      my $r = simulate(@tiny, @load, '--set', "plugins.scheduler=$scheduler",
                       "cache.device_memory=$memory", 'cache.host_memory=64KiB');
      is($r->{completed}, 80, "$scheduler with $memory");
      is($r->{total_output_tokens}, $tokens, 'as many tokens as were asked for');
    }
  }
};

subtest 'memory makes them wait' => sub {
  my $wide = simulate(@tiny, @load);
  my $narrow = simulate(@tiny, @load, '--set', 'cache.device_memory=64KiB');
  ok($narrow->{mean_ttft_ms} > 2 * $wide->{mean_ttft_ms}, 'less memory, later tokens');
  ok($narrow->{preemptions}, 'and preemptions');
  my ($said) = @{ $narrow->{machine}{policies} };
  is($said->{cache}{figures}{blocks_free} + $said->{cache}{figures}{blocks_reusable},
     $said->{cache}{figures}{blocks}, 'nobody holds a block at the end');
  cmp_ok($said->{cache}{events}{blocks_evicted}, '>', 0, '  and some were taken from the index');
};

subtest 'who waits over time' => sub {
  # Steps of 10 ms, ten of them in the first bin: B waits for A's prompt, A's decode for
  # B's, then nobody for anybody: that A ends is no waiting.
  my $trace = write_file('ends.csv',
                         "arrival_s,prompt_tokens,output_tokens\n0,40,3\n0,50,12\n");
  my @waiting = @{simulate(@tiny, '--trace', $trace, '--set', 'scheduler.fcfs.max_tokens=64')
    ->{timeline}{waiting}};
  near($waiting[0], 2 / 10, 'one waits in two of ten steps') or diag("@waiting");
  @waiting = @{simulate(@tiny, @load, '--set', 'cache.device_memory=64KiB')->{timeline}{waiting}};
  is(scalar(grep { $_ < 0 || $_ > 80 } @waiting), 0, 'never more than there are') or diag("@waiting");
};

subtest 'prefixes are shared' => sub {
  my @run = (@tiny, '--dataset-name', 'prefix_repetition', '--num-prompts', 20,
             '--prefix-repetition-num-prefixes', 2, '--prefix-repetition-prefix-len', 64,
             '--prefix-repetition-suffix-len', 16, '--prefix-repetition-output-len', 4,
             '--request-rate', 10);
  ok(simulate(@run)->{machine}{shared_tokens} >= 10 * 64, 'shared');
  is(simulate(@run, '--set', 'cache.paged.prefix_sharing=off')->{machine}{shared_tokens}, 0,
     'switched off');
};

subtest 'a session is a loop of its own, and finds its answers' => sub {
  # A's answer takes 25 steps; its tool runs for 100 ms. Of the 65 tokens that its second turn
  # repeats, 64 were computed: four blocks. B has no session, and comes meanwhile.
  my $trace = write_file('turns.csv', <<'CSV');
session,arrival_s,prompt_tokens,output_tokens,wait_ms,tool
a,0,40,25,100,search
,0.300,16,2,,
a,,100,2,,
CSV
  my $r = simulate(@tiny, '--trace', $trace, '--save-detailed');
  is($r->{completed}, 3);
  near($r->{start_times}[2], 0.350, 'the second turn is sent');
  near($r->{ttfts}[2] * 1e3, 10, 'in time');
  near($r->{duration}, 0.370, 'all of it');
  is($r->{machine}{shared_tokens}, 64, 'prompt and answer are found');
  $r = simulate(@tiny, '--trace', $trace, '--set', 'plugins.scheduler=autellix');
  is($r->{machine}{policies}[0]{scheduler}{figures}{programs}, 1, 'the scheduler sees the session');
};

subtest 'a request that never fits is refused alone' => sub {
  my $trace = write_file('long.csv',
                         "arrival_s,prompt_tokens,output_tokens\n0,40,3\n0,4000,3\n0,50,3\n");
  my $r = simulate(@tiny, '--trace', $trace);
  is($r->{completed}, 2);
  is($r->{failed}, 1);
  like(join(q(), keys %{$r->{failures}}), qr/longer than the context/);
};

sub refused {
  my ($sentence, @arguments) = @_;
  my ($status, $out, $err) = run('llmserve-sim', @arguments);
  is($status, 2, 'exit status');
  like($err, $sentence);
}

subtest 'bad input is named with its line' => sub {
  my $trace = write_file('bad.csv', "arrival_s,prompt_tokens,output_tokens\n0,40,3\n0,x,3\n");
  refused(qr/bad\.csv:3: /, @tiny, '--trace', $trace);
  refused(qr/bad\.ini:13: unknown key 'stp' in \[overhead\]/, '--model', 'opt-13b',
          '--profile', profile('bad.ini', "stp = 1ms\n"), @load);
  refused(qr/no profile 'a100': neither/, '--model', 'opt-13b', '--profile', 'a100', @load);
  refused(qr/no model 'opt': neither/, '--model', 'opt', @load);
  refused(qr/\[scheduler\.fcfs\] max_seqs: expected/, '--model', 'opt-13b', '--set',
          'scheduler.fcfs.max_seqs=none', @load);
  refused(qr/did you mean --profile/, '--profil', 'a100-40g');
  my ($status, $out, $err) = run('llmserve-sim', '--model', 'opt-66b', @load);
  is($status, 1, 'exit status of a run that fails');
  like($err, qr/the model does not fit: it needs \d+ MiB of weights/);
};

subtest 'where two schedulers part' => sub {
  # A's prompt, then B's: fcfs stops A's decode for it, sarathi does both in one step.
  my $trace = write_file('part.csv',
                         "arrival_s,prompt_tokens,output_tokens\n0,40,5\n0.005,50,4\n");
  simulate(@tiny, '--trace', $trace, '--record', "$folder/fcfs.log");
  like(read_file("$folder/fcfs.log"),
       qr/^H 2 fcfs .*\nA 1 0 40 \d+ 0 0 0 -1 .*\nP 0 1000\d+ r1:40\nA 2 5000000 50 .*\nP (1000\d+) \1 r2:50\n/);
  my $same = simulate(@tiny, '--trace', $trace, '--against', "$folder/fcfs.log");
  is_deeply($same->{decisions}, {alike => 6, parted => JSON::PP::false}, 'not from itself');
  my $other = simulate(@tiny, '--trace', $trace, '--against', "$folder/fcfs.log", '--set',
                       'plugins.scheduler=sarathi');
  ok($other->{decisions}{parted}, 'fcfs and sarathi');
  is($other->{decisions}{alike}, 1);
  is($other->{decisions}{there}, 'r2:50');
  is($other->{decisions}{here}, 'r1:1 r2:50');
};

subtest 'policies side by side' => sub {
  my @configs = map {
    write_file("$_.ini", "[plugins]\nscheduler = $_\n[cache]\ndevice_memory = 96KiB\n" .
                 "[engine]\nmax_context = 512\n")
  } qw(fcfs sarathi);
  my @grid = ('--model', "$source/t/data/models/llama", '--profile', profile('ten.ini'), @load,
              '--policies', join(',', @configs), '--sweep', 'seed=1,2', '--result-dir',
              "$folder/grid");
  my ($status, $out, $err) = run('llmserve-sim', @grid);
  is($status, 0) or diag($err);
  my @files = glob "$folder/grid/*.json";
  is(scalar @files, 4, 'a file for each run');
  my %seen = map { read_file($_) => 1 } @files;
  is(scalar keys %seen, 4, 'all of them different');
  my @times = map { (stat)[9] } @files;
  ($status, my $again) = run('llmserve-sim', @grid);
  is($again, $out . "4 of 4 runs were there already\n", 'a second time finds them done');
  is_deeply([map { (stat)[9] } @files], \@times, 'and writes none');
  my $made = decode_json(read_file($files[0]))->{made_by};
  is($made->{options}{config}{name}, 'fcfs.ini', 'a result says by which configuration');
  like($made->{options}{config}{text}, qr/scheduler = fcfs/, '  with its text');
  like($made->{plugins}{scheduler}{hash}, qr/^[0-9a-f]{16}$/, '  which plugin');
  unlike(JSON::PP->new->encode($made), qr/\Q$folder\E/, '  and no path of this machine');
  ($status, $again) = run('llmserve-sim', @grid, '--quiet');
  is($again, q(), '--quiet prints no table');
};

subtest 'what was made by something else is run again' => sub {
  my @grid = ('--model', "$source/t/data/models/llama", '--profile', profile('ten.ini'), @load,
              '--sweep', 'seed=1,2', '--set', 'plugins.scheduler=' . write_plugin('fcfs'),
              'cache.device_memory=96KiB', '--result-dir', "$folder/edited");
  my ($status, $first, $err) = run('llmserve-sim', @grid);
  is($status, 0) or diag($err);
  my $again = sub {
    my ($what, @more) = @_;
    my ($rc, $out) = run('llmserve-sim', @grid, @more);
    is($rc, 0);
    unlike($out, qr/already/, "$what: nothing old is shown");
    like($out, qr/^2 results in \S+ had been made by something else .* were replaced$/m, '  and it says so');
    return $out;
  };
  isnt($again->('a slower device', '--profile', profile('ten.ini', "row = 1ms\n")), $first, '  with new numbers');
  profile('ten.ini');
  $again->('fewer requests', '--num-prompts', 7);
  $again->('as at first');
  write_plugin('sarathi');
  isnt($again->('another build of the plugin'), $first, '  with new numbers');
};

# The loop of somebody who writes a scheduler: the same file, made anew.
sub write_plugin {
  my ($of) = @_;
  system('cp', '-f', "$Sim::build/.libs/scheduler_$of.so", "$folder/scheduler_mine.so") == 0 or die;
  return "$folder/scheduler_mine.so";
}

subtest 'the highest rate of each policy' => sub {
  my @configs = map {
    write_file("$_.ini", "[plugins]\nscheduler = $_\n[cache]\ndevice_memory = 96KiB\n" .
                 "[engine]\nmax_context = 512\n")
  } qw(fcfs sarathi);
  my ($status, $out, $err) = run('llmserve-sim', '--model', "$source/t/data/models/llama", '--profile',
    profile('ten.ini'), @load, '--policies', join(',', @configs), '--slo-ttft', '500ms', '--find-rate', 0.9,
    '--find-rate-tolerance', 0.2, '--num-runs', 2, '--result-dir', "$folder/found");
  is($status, 0) or diag($err);
  like($out, qr/^config=fcfs\.ini +\S+ +\S+ +\S+ +\S+\nconfig=sarathi\.ini +\S+ +\S+ +\S+ +\S+\n/m, 'one table');
  my $found = decode_json(read_file("$folder/found/find-rate.json"));
  is(scalar @{$found->{points}}, 2, 'and one JSON');
};

subtest 'published profiles: OPT-13B on an A100 of 40 GB' => sub {
  my $r = simulate('--model', 'opt-13b', '--profile', 'a100-40g', @load);
  my $tokens = $r->{machine}{memory}{cache_tokens};
  ok($tokens > 14_000 && $tokens < 16_000, 'about the 15.7 thousand cache slots of the vLLM paper, table 1')
    or diag($tokens);
};

done_testing;
