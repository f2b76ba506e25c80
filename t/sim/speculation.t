#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-sim --draft-acceptance: guesses shorten the answers of few streams by what their acceptance predicts,
# and cost a loaded device nothing; the same command prints the same bytes.
use strict;
use warnings;
use File::Temp 'tempdir';
use FindBin;
use JSON::PP;
use lib $FindBin::Bin;
use Sim ();
use Test::More;

my $build  = $Sim::build;
my $folder = tempdir(CLEANUP => 1);
my $ini    = "$folder/policies.ini";
open my $out, '>', $ini or die "$ini: $!";
print $out "[plugins]\nscheduler = sarathi\nmax_drafts = 4\n";
close $out;

sub simulate {
    my ($clients, $acceptance, @more) = @_;
    my $n = $clients * 4;
    qx('$build/llmserve-sim' -c '$ini' --model llama-3-8b --profile h100-80g --random-input-len 128 --random-output-len 128 --num-prompts $n --max-concurrency $clients --draft-acceptance $acceptance --quiet --json '$folder/report.json' @more);
    is $? >> 8, 0, "$clients streams, acceptance $acceptance" or return {};
    open my $in, '<', "$folder/report.json" or die "report: $!";
    return decode_json(do { local $/; <$in> });
}

my ($plain, $guessed, $sure) = map { simulate(1, $_) } 0, 0.8, 1;
# 1 + .8 + .64 + .512 + .41 = 3.36 tokens a step at most, 5 where all are right
my $faster = $guessed->{output_throughput} / $plain->{output_throughput};
cmp_ok $faster, '>', 2.2, 'guesses that are right in four of five cases';
cmp_ok $faster, '<', 3.4, '  give no more than that predicts';
cmp_ok $sure->{output_throughput} / $plain->{output_throughput}, '>', 3.5, 'sure ones give more';
is $guessed->{total_output_tokens}, $plain->{total_output_tokens}, 'the answers are as long';
my ($loaded, $with) = map { simulate(256, $_) } 0, 0.3;
cmp_ok $with->{output_throughput} / $loaded->{output_throughput}, '>', 0.99, 'a loaded device loses nothing by unlikely guesses';
is_deeply simulate(1, 0.8), $guessed, 'it can be repeated';

# ---- a trace says it for each row --------------------------------------------------
my @rows = (['realtime', 1], ['best_effort', 0], ['', '']);
open my $trace, '>', "$folder/trace.csv" or die "trace: $!";
print $trace "arrival_s,prompt_tokens,output_tokens,class,draft_acceptance\n";
print $trace join(',', 20 * $_, 128, 128, @{ $rows[$_] }), "\n" for 0 .. $#rows;
close $trace;
qx('$build/llmserve-sim' -c '$ini' --model llama-3-8b --profile h100-80g --trace '$folder/trace.csv' --draft-acceptance 0.8 --quiet --json '$folder/report.json');
is $? >> 8, 0, 'a trace with a column draft_acceptance';
open my $in, '<', "$folder/report.json" or die "report: $!";
my $by   = decode_json(do { local $/; <$in> })->{by_class};
my %tpot = map { $_ => $by->{$_}{mean_tpot_ms} } qw(realtime best_effort none);
cmp_ok $tpot{realtime}, '<', 0.35 * $tpot{best_effort}, '  a row whose guesses are right is the fastest';
cmp_ok $tpot{none}, '<', 0.6 * $tpot{best_effort}, '  one that says none has the option\'s';
cmp_ok $tpot{none}, '>', $tpot{realtime}, '  which is less';
done_testing;
