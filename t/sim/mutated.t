#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Damaged files read by llmserve-sim: profiles, traces and decision logs. Some hundred mutations of each,
# always the same: bytes flipped, cut, doubled, numbers replaced by the limits of types. Each run ends by
# itself with an error or a result, in 1 GiB of address space: nothing is allocated because a file merely
# claims it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Sim;
use Test::More;

plan skip_all => 'a limit on address space is nothing for valgrind' if ($ENV{LLS_UNDER} // q()) ne q();

my $deadline = 60; # seconds of processor time: many thousand times what a run takes
my $memory = 1 << 20; # KiB
# A sanitizer's own address space is without bounds; ASan has a limit for each allocation.
my $sanitized = qx(nm -D "$Sim::build/llmserve-sim" "$Sim::build/.libs/llmserve-sim" 2>/dev/null; nm "$Sim::build/llmserve-sim" 2>/dev/null) =~ /__(?:asan|tsan|ubsan)_/;
my $each = $ENV{LLS_MUTATIONS} // ($sanitized ? 20 : 60);
if ($sanitized) {
  $memory = 'unlimited';
  $ENV{ASAN_OPTIONS} = join ':', grep { $_ } $ENV{ASAN_OPTIONS}, 'allocator_may_return_null=1', 'max_allocation_size_mb=1024';
}
my @numbers = qw(-1 0 1 2147483647 2147483648 4294967295 4294967296 9223372036854775807 9223372036854775808
  18446744073709551615 1e308 1e-308 nan inf -inf 99999999999999999999 16777216 16777217 0.5 -0);

# Perl's own rand differs by version; this does not.
my $state;
sub draw { $state = ($state * 1103515245 + 12345) % 2147483648; return int($state / 65536) % $_[0] }

# Two of three have one number replaced by an edge; the others are of any kind.
sub mutate {
  my ($text, $seed) = @_;
  $state = 7919 * $seed + 1;
  draw(2) for 1 .. 3;
  if ($seed % 3) {
    my @at;
    push @at, [$-[0], $+[0] - $-[0]] while $text =~ /-?\d+(?:\.\d+)?/g;
    my $one = $at[draw(scalar @at)];
    substr $text, $one->[0], $one->[1], $numbers[draw(scalar @numbers)];
    return $text;
  }
  for (0 .. draw(3)) {
    my $length = length $text or return $text;
    my $kind = draw(8);
    if ($kind < 4) { # another number
      my @at;
      push @at, [$-[0], $+[0] - $-[0]] while $text =~ /-?\d+(?:\.\d+)?/g;
      my $one = @at ? $at[draw(scalar @at)] : [0, 0];
      substr $text, $one->[0], $one->[1], $numbers[draw(scalar @numbers)];
    } elsif ($kind == 4) { substr $text, draw($length), 1, chr draw(256) }
    elsif ($kind == 5) { substr $text, draw($length), draw(20), q() }
    elsif ($kind == 6) { substr $text, draw($length), 0, substr($text, draw($length), draw(200)) }
    else { $text = substr $text, 0, draw($length) }
  }
  return $text;
}

# (how it ended, what it said)
sub limited {
  my @arguments = @_;
  my $pid = fork // die "fork: $!";
  if ($pid == 0) {
    open STDOUT, '>', "$folder/out" or die;
    open STDERR, '>', "$folder/err" or die;
    exec 'sh', '-c', "ulimit -c 0; ulimit -t $deadline; ulimit -v $memory; exec \"\$0\" \"\$@\"",
      "$Sim::build/llmserve-sim", '--quiet', @arguments or die;
  }
  waitpid $pid, 0;
  return ($? & 127 ? "signal " . ($? & 127) : $? >> 8, read_file("$folder/err"));
}

my @tiny = ('--model', "$source/t/data/models/llama", '--set', 'cache.device_memory=1MiB', 'engine.max_context=512');
my @load = ('--dataset-name', 'random', '--num-prompts', 5, '--random-input-len', 20, '--random-output-len', 5);
my $ten = profile('ten.ini');
my @on_ten = (@tiny, '--profile', $ten);

my $taken = 0; # mutations that are still a file of its kind

sub fuzz {
  my ($what, $name, $text, @arguments) = @_;
  my (@bad, %ends);
  for my $seed (1 .. $each) {
    my $path = write_file($name, mutate($text, $seed));
    my ($end, $said) = limited(@arguments, $path);
    $ends{$end}++;
    push @bad, "mutation $seed: $end: $said" if $end !~ /^[012]$/ || $end ne '0' && $said !~ /^llmserve-sim: ./m
      || $said =~ /no memory|out of memory|runtime error|Sanitizer/i;
  }
  is(scalar @bad, 0, "$what: all end with a sentence or a result") or diag(join "\n", @bad[0 .. ($#bad < 4 ? $#bad : 4)]);
  cmp_ok($ends{2} // 0, '>', 0, '  some are refused');
  $taken += $ends{0} // 0;
  return;
}

fuzz('a profile', 'mutated.ini', read_file($ten) . "[peer_link]\nbandwidth = 1000\nlatency = 1ms\n" .
  "[projection]\nrows = 1 8 64\nns_per_million = 100 120 400\n", @tiny, @load, '--profile');
fuzz('a CSV of ours', 'mutated.csv', <<'CSV', @on_ten, '--trace');
arrival_s,prompt_tokens,output_tokens,max_new_tokens,class,priority,tenant,label,ttft_ms,tbt_ms,prefix,prefix_tokens
0,40,3,4,realtime,0,1,a,500,50,1,20
0.5,50,4,8,best_effort,-3,2,b,,,1,20
1.25,60,2,2,,7,3,c,1000,100,2,10
CSV
fuzz("Azure's traces", 'mutated.csv', <<'CSV', @on_ten, '--trace');
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,40,4
2023-11-16 18:15:50.9951690,39,3
2023-11-16 18:16:51.2224670,59,2
CSV
fuzz("Mooncake's lines", 'mutated.jsonl', <<'LINES', @on_ten, '--trace');
{"timestamp": 0, "input_length": 60, "output_length": 5, "hash_ids": [0]}
{"timestamp": 3000, "input_length": 50, "output_length": 4, "hash_ids": [0]}
{"timestamp": 6000, "input_length": 40, "output_length": 3, "hash_ids": [1]}
LINES
fuzz("LLMServingSim's lines", 'mutated.jsonl', <<'LINES', @on_ten, '--trace');
{"input_toks": 4, "output_toks": 5, "arrival_time_ns": 1000, "input_tok_ids": [1, 2, 3, 4]}
{"input_toks": 3, "output_toks": 2, "arrival_time_ns": 9000000, "input_tok_ids": [5, 6, 7]}
LINES
my $stories = "$source/t/data/models/stories260K";
my @on_stories = ('--model', $stories, '--tokenizer', $stories, '--set', 'cache.device_memory=1MiB', '--profile', $ten,
  '--min-len', 1);
fuzz('lists of chats', 'mutated.json', <<'JSON', @on_stories, '--dataset-path');
[{"input": "Once upon a time", "output_length": 5}, {"input": "there was a dog", "output_length": 7}]
JSON

my $trace = write_file('three.csv', "arrival_s,prompt_tokens,output_tokens\n0,40,5\n0.005,50,4\n0.01,33,6\n");
limited(@on_ten, '--trace', $trace, '--record', "$folder/whole.log") ;
my $log = read_file("$folder/whole.log");
like($log, qr/\AH 2 /, 'a decision log');
fuzz('a decision log, replayed', 'mutated.log', $log, @on_ten, '--replay');
fuzz('a decision log, compared with', 'mutated.log', $log, @on_ten, '--trace', $trace, '--against');

cmp_ok($taken, '>', $each, 'many are still read');

done_testing;
