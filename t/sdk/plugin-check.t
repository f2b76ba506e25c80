#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-plugin-check: correct plugins pass, and every hostile or broken one is detected,
# by the check made for it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use Terminal qw(has_terminal on_terminal);
use Test::More;

my $build = $ENV{LLS_BUILDDIR};
my $fault = "$build/t/fault/.libs";
my $sdk   = "$build/t/sdk/.libs";

# No plugin has a limit of time here, which a slow machine would not keep: --time-limit=0.
sub check {
  my @arguments = @_;
  my $quoted = join ' ', map {"'$_'"} @arguments;
  my $out = qx("$build/llmserve-plugin-check" $quoted 2>&1);
  return ($? >> 8, $out);
}

sub fit {
  my ($file, @options) = @_;
  my ($status, $out) = check('--time-limit=0', @options, $file);    # the last limit counts
  my ($name) = $file =~ m{([^/]+)$};
  ok($status == 0 && $out =~ /^# verdict: .* keeps the contract/m && $out !~ /^not ok/m,
    "fit: $name @options")
    or diag $out;
  return $out;
}

# A sanitizer has its own word about crashes, and its own allocator to count in.
sub unfit {
  my ($file, $expected, @options) = @_;
  if (defined $ENV{ASAN_OPTIONS} && "$file @options" =~ /crash|mode=leak|mode=table/) {
    pass("left to the sanitizer: $file");
    return;
  }
  push @options, '--time-limit=0' unless grep /time-limit/, @options;
  my ($status, $out) = check('--fail-fast', @options, $file);
  my ($name) = $file =~ m{([^/]+)$};
  ok($status == 1 && $out =~ /^not ok/m && $out =~ /not fit to serve/ && $out =~ $expected,
    "unfit: $name @options")
    or diag "expected $expected:\n$out";
}

# ---- what llmserve ships, and the smallest there are
# `pipe` has no policy of its own: t/tools/pipe.t.
my @shipped = grep { !/hostile|broken|null|_pipe/ } glob "$build/.libs/{scheduler,cache,predictor,drafter}_*.so";
# Each takes seconds, and ten times as many under a sanitizer: there without those whose code is shortest.
@shipped = grep { !m{(?:scheduler_(?:edf|fastgen|fcfs|mlfq|orca|random|rr|sarathi|sjf|srpt|vtc)|predictor_(?:none|fixed))\.so} } @shipped if defined $ENV{ASAN_OPTIONS};
my %report = map { m{([^/]+)\.so$}; $1 => fit($_) } @shipped;
like($report{$_}, qr/^# [1-9]\d* requests were handed over/m, "  $_: requests move between instances")
  for grep { /^cache_|distserve|aligned/ } sort keys %report;
like($report{$_}, qr/^# [1-9]\d* transfers/m, "  $_: sequences move beside the steps") for qw(cache_bidirectional cache_tiered scheduler_aligned);
is_deeply([grep { $report{$_} =~ /import_state refused/ } sort keys %report], [], 'none of them loses its state in a reload');
fit("$build/t/plugin/.libs/$_.so") for qw(scheduler_null cache_null);
fit("$build/.libs/cache_bidirectional.so", qw(--scheduler bros)); # slots change hands
like(fit("$build/.libs/scheduler_mlfq.so", '--set=preempt=swap'), qr/^# \d+ transfers/m, '  it moves some');
fit("$fault/${_}_good.so") for qw(predictor drafter);

# ---- t/fault: refused before anything of them runs
my %refused = (
  cache_before_caps      => qr/lls_cache_vtable: caps: expected a struct of .* bytes, found something else; build it with the headers of this/,
  cache_before_groups    => qr/lls_cache_vtable: size: expected \d+, found 256; build it .* doc\/abi.md says what has changed/,
  cache_half_transfer    => qr/expected upload beside offload/,
  cache_no_audit         => qr/expected the callback audit/,
  predictor_no_predict   => qr/expected the callback predict/,
  drafter_no_draft       => qr{expected the callback draft},
  scheduler_api_version  => qr/api_version: expected 1, found 99/,
  scheduler_before_groups => qr/lls_scheduler_vtable: size: expected \d+, found 136; build it .* doc\/abi.md says what has changed/,
  scheduler_bad_default  => qr/default of 'budget'/,
  scheduler_bad_id       => qr/found 'Bad Id'/,
  scheduler_bad_param_size => qr/param_size: expected/,
  scheduler_bad_offset   => qr/'budget': offset/,
  scheduler_half_pair    => qr/expected import_state beside export_state/,
  scheduler_no_licence   => qr/licence: expected a text/,
  scheduler_no_plan      => qr/expected the callback plan/,
  scheduler_no_sentence  => qr/sentence: expected what it does/,
  scheduler_no_symbol    => qr/expected the symbol llmserve_plugin/,
  scheduler_no_vtable    => qr/vtable: expected a struct/,
  scheduler_same_name    => qr/two parameters are called/,
  scheduler_small        => qr/struct lls_plugin: size/,
  scheduler_undefined    => qr/undefined symbol: lls_not_there/,
  scheduler_vtable_small => qr/scheduler_vtable: size/,
  scheduler_vtable_version => qr/api_version: expected 1, found 2/,
  scheduler_wrong_kind   => qr/struct lls_predictor_vtable: size/,
);
unfit("$fault/$_.so", $refused{$_}) for sort keys %refused;

# ---- t/fault: they load; under load they show what they are
my %weak = (
  cache_good                 => qr/cannot start|want of memory/,
  drafter_beyond             => qr/draft wrote token \d+ where there is room for \d/,
  drafter_odd                => qr/draft gives token 0 odds of 2, expected 0 to 1/,
  scheduler_crashing         => qr/crashed in plan/,
  scheduler_failing_create   => qr/this fixture never starts/,
  scheduler_good             => qr/marked reloadable, but there is no reconfigure/,
  scheduler_needs_roles => qr/1000 empty plans in a row/,
  scheduler_other_id         => qr/the plugin in it needs scheduler_somebody\.so/,
  scheduler_positive_create  => qr/create returned 1: expected 0 or a negative errno/,
  twin_1                     => qr/1000 empty plans in a row/,
  twin_2                     => qr/1000 empty plans in a row/,
);
unfit("$fault/$_.so", $weak{$_}) for sort keys %weak;

# whatever else there is is unfit for some reason
my %named = map { $_ => 1 } keys %refused, keys %weak, qw(predictor_good drafter_good scheduler_sleeping scheduler_slow_create);
unfit($_, qr/^not ok/m) for grep { !$named{ m{([^/]+)\.so$} ? $1 : '' } } glob "$fault/*.so";
unfit("$fault/scheduler_sleeping.so", qr/hung in plan/, '--patience=1s');
unfit("$fault/scheduler_slow_create.so", qr/hung in create/, '--patience=1s');

# ---- t/plugin: legal in each single answer, but not what a server can be run with
my $hostile = "$build/t/plugin/.libs";
unfit("$hostile/scheduler_hostile.so", qr/fits the cache alone/);
unfit("$hostile/scheduler_hostile.so", qr/plans were bad and were refused/,
  '--set=mode=illegal');
unfit("$hostile/cache_hostile.so", qr/LATER .* there is nothing to wait for/);
unfit("$hostile/predictor_hostile.so", qr/predicts \d+ tokens where/);

# ---- t/sdk: one fault each, and the check that finds it
unfit("$sdk/scheduler_loud.so", qr/exports a_helper/);
unfit("$sdk/scheduler_loud.so", qr/calls time: time and randomness come from the host/);
my $broken = "$sdk/scheduler_broken.so";
fit($broken);
my %ways = (
  silent  => qr/create with limit = 100 fails without a sentence/,
  leak    => qr/not ok \d+ - nothing leaks/,
  static  => qr/not ok \d+ - two instances side by side/,
  crash   => qr/crashed in plan: Segmentation fault/,
  hang    => qr/hung in plan/,
  writes  => qr/wrote to the view or to a request/,
  tags    => qr/calls host->random, which is \[step\], in create, which is \[main\]/,
  lies    => qr/runs more tokens than a request has left/,
  forgets => qr/have not ended after \d+ steps, and nothing moves/,
  exit    => qr/ended the process in plan/,
  moving  => qr/plans were bad and were refused: .*runs a request that is being moved/,
  strands => qr/have not ended after \d+ steps, and nothing moves/,
  nowhere => qr/plans were bad and were refused: .*hands a request over to an instance that is not there/,
  ignores => qr/have not ended after \d+ steps, and nothing moves/,
  table   => qr/crashed in plan: Segmentation fault/,
  names   => qr/stats names a figure 'Plans so far': expected less than 32 letters/,
);
unfit($broken, $ways{$_}, "--set=mode=$_", $_ eq 'hang' ? '--patience=2s' : ()) for sort keys %ways;

# ---- time: a plan of mode slow takes hundreds of times as long as one of the others, on any machine
unless (defined $ENV{ASAN_OPTIONS}) {
  my (undef, $report) = check('--time-limit=0', $broken);
  my ($quick_us) = $report =~ /a plan takes ([\d.]+) us with 1600 requests/ or BAIL_OUT("no time:\n$report");
  my $limit = sprintf '--time-limit=%.1fus', 20 * ($quick_us + 0.1);
  fit($broken, $limit);
  unfit($broken, qr/a plan takes .* with 1600 requests; at most/, '--set=mode=slow', $limit);
}

# ---- who waits for what
my (undef, $stuck) = check('--set=mode=forgets', '--patience=2s', '--fail-fast', '--time-limit=0', $broken);
like($stuck, qr/^# \d+ running, \d+ preempted, \d+ waiting; \d+ of \d+ units free on the device/m, 'who holds what where nothing moves');
like($stuck, qr/^#   request \d+ is \w+: \d+ \+ \d+ tokens, \d+ cached, holds \d+ units/m, '  request by request');
my %cache_ways = (
  overlap => qr/is not where its \w+ list says/,
  lose    => qr/units are free on the device/,
  forget  => qr/leaves another state than mark saw/,
  early   => qr/the block table begins with token \d+ where token \d+ is still read/,
  import  => qr/units free of \d+, in a pool of/,
);
like(fit("$sdk/cache_broken.so"), qr/^# import_state refused what export_state of the same plugin gave [1-9]/m, '  its state is lost in a reload');
unfit("$sdk/cache_broken.so", $cache_ways{$_}, "--set=mode=$_") for sort keys %cache_ways;

# ---- prefix caches that give a request what was computed behind another's prompt
my $wrong = qr/is not where its \w+ list says/;
my %mutants = (
  partial       => $wrong,
  whole         => qr/prefix: (\d+) tokens of request \d+, which has \1: the last one must be left/,
  any_parent    => $wrong,
  by_tokens     => $wrong,
  not_held      => $wrong,
  silent        => qr/has shown 0: it has not said that they were stored/,
  stale         => qr/stored, but it was there/,
);
fit("$sdk/cache_prefix.so");
unfit("$sdk/cache_prefix.so", $mutants{$_}, "--set=mutant=$_") for sort keys %mutants;

# ---- caches that are wrong about groups of layers, each found by the check made for it
my %group_ways = (
  in_place       => qr/is not the state of request \d+ after \d+ tokens/,
  early          => qr/is not in its list of group 1, where a step after \d+ tokens reads from token/,
  half_hit       => qr/is not in its list of group 1/,
  other_position => qr/is not the state of request \d+ after \d+ tokens/,
  by_tokens      => qr/is not in the block at \d+, form 1/,
  rejected       => qr/is not in the block at \d+, form 1/,
  overlap        => qr/of group 1 is also one of the block at \d+/,
  before_copy    => qr/is not in the block at \d+, form 3/,
  half_rollback  => qr/leaves another state than mark saw/,
  half_swap      => qr/with a host: token \d+ .* list of group 1 has it/,
  half_reload    => qr/is not in the block at \d+, form 1, where its list of group 1 has it/,
);
my $all_kinds = fit("$sdk/cache_groups.so");
like($all_kinds, qr/^# 48 of 48 sets of groups were tried, and 0 refused: [1-9]\d+ prefixes taken, [1-9]\d+ swaps, 10 sets with int8/m,
  '  it keeps all kinds of groups');
like($report{cache_paged}, qr/^# 48 of 48 sets of groups were tried, and 0 refused: [1-9]\d+ prefixes taken, [1-9]\d+ swaps/m,
  '  cache_paged keeps all kinds');
like($report{cache_tiered}, qr/^# 48 of 48 sets of groups were tried, and 0 refused: [1-9]\d+ prefixes taken, .* 10 sets with int8 blocks, [1-9]\d+ moves beside the steps/m,
  '  cache_tiered moves all kinds beside the steps, with int8 beside them');
like($report{cache_bidirectional}, qr/^# 42 of 48 sets of groups were tried, and 6 refused: .* [1-9]\d+ moves beside/m,
  '  cache_bidirectional moves all, but refuses states alone');
like($report{$_}, qr/^# [1-9]\d* of 48 sets of groups were tried/m, "  $_ keeps some") for grep { /^cache_/ } sort keys %report;
unfit("$sdk/cache_groups.so", qr/ - groups of layers .*\n#   groups .*$group_ways{$_}/, "--set=mutant=$_", '--only=groups') for sort keys %group_ways;

# ---- caches that lose what moves beside the steps, or between instances
my %movers = (
  crashes => qr/crashed in release/,
  early   => $wrong,
  half    => qr/to the host and ended: expected residency 2 with (\d+) tokens cached, \1 of them missing .* info says/,
  keeps   => qr/no other request in a pool of \d+: there is nothing to wait for/,
  reuses  => qr/is written in step \d+ where ASYNC copy \d+ of the same step reads or writes/,
  same    => qr/gave request \d+ transfer 7, which is under way for request/,
  still   => qr/has just begun: expected LLS_RESIDENT_MOVING, found residency 1/,
  stray   => qr/copies: number \d+ is ASYNC, of transfer \d+, which is not under way/,
  stuck   => qr/is under way, and has copied nothing for \d+ steps/,
  takes   => qr/was handed over with \d+ tokens, and token \d+ is gone from its \w+ list before release/,
  undo    => qr/leaves another state than mark saw/,
);
my $moved = fit("$sdk/cache_moving.so");
like($moved, qr/^# [1-9]\d* transfers/m, '  it moves some beside the steps');
like($moved, qr/^# [1-9]\d* requests were handed over/m, '  and some between instances');
unfit("$sdk/cache_moving.so", $movers{$_}, "--set=mutant=$_") for sort keys %movers;

my (undef, $whole) = check('--set=mode=import', '--time-limit=0', "$sdk/cache_broken.so");
like($whole, qr/import_state of version 1000001, /, 'foreign state is taken');

# ---- the command line
my ($status, $out) = check('--help');
ok($status == 0 && $out =~ /^Usage: llmserve-plugin-check/, '--help');
($status, $out) = check();
ok($status == 2 && $out =~ /expected one file/, 'no file');
($status, $out) = check('--set=mode', $broken);
ok($status == 2 && $out =~ /expected KEY=VALUE/, 'a parameter without a value');
($status, $out) = check('--set=speed=3', $broken);
ok($status == 1 && $out =~ /has no parameter speed/, 'a parameter it does not have');
($status, $out) = check('--cache=nobody', $broken);
ok($status == 2 && $out =~ /no cache 'nobody'/, 'a companion that is not there');
# ---- how much it prints, and in which colour
my @one = ("$build/.libs/scheduler_fcfs.so", '--time-limit=0', '--only=a request alone');
is((check(@one, '--quiet'))[1] =~ s/^# verdict: .* keeps the contract: .*\n\z//mr, '', '--quiet: of a fit plugin the verdict alone');
like((check($broken, '--time-limit=0', '--only=a request alone', '--set=mode=lies', '--quiet'))[1], qr/\Anot ok 2 - .*\n(?:#   .*\n)+# verdict: .* is not fit to serve: /, '  of another its faults, too');
unlike((check(@one))[1], qr/\e/, 'no colour in a file');
SKIP: {
  skip 'no script, which makes a terminal', 2 if !has_terminal();
  my $quoted = join ' ', "'$build/llmserve-plugin-check'", map {"'$_'"} @one;
  like(on_terminal("env -u NO_COLOR $quoted"), qr/^\e\[32mok\e\[0m 1 - /m, 'colour on a terminal');
  unlike(on_terminal("env NO_COLOR=1 $quoted"), qr/\e/, '  unless NO_COLOR is set');
}
done_testing;
