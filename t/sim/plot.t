#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-sim --plot: the lives of requests, computed by hand, and the page, which needs no
# other file and has a panel for each question.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Sim;
use Test::More;

# As in simulate.t: fcfs, steps of 10 ms.
my @tiny = ('--model', "$source/t/data/models/llama", '--profile', profile('ten.ini'), '--trace', write_file('three.csv', <<'CSV'),
arrival_s,prompt_tokens,output_tokens
0,40,3
0.005,50,4
0.025,60,2
CSV
    '--set', 'cache.device_memory=1MiB', 'engine.max_context=512');
my ($queued, $prefill, $decode) = (0, 1, 2);

sub near_all {
    my ($found, $expected, $what) = @_;
    my $apart = grep { abs($found->[$_] - $expected->[$_]) > 1e-4 } 0 .. $#$expected;
    ok @$found == @$expected && $apart == 0, $what or diag "found @$found, expected @$expected";
    return;
}

my $lives = simulate(@tiny)->{lives};
is_deeply [map { $_->{request} } @$lives], [0, 1, 2], 'a life for each request';
near_all $lives->[0]{phases}, [$queued, 0, $prefill, 0, $decode, 0.01], 'the first does not wait';
near_all $lives->[1]{phases}, [$queued, 0.005, $prefill, 0.01, $decode, 0.02], '  the second does, for a step';
near_all $lives->[2]{phases}, [$queued, 0.025, $prefill, 0.03, $decode, 0.04], '  and the third';
near_all [map { $_->{ended_s} } @$lives], [0.05, 0.06, 0.05], '  until they end';

my $crowd = simulate('--model', "$source/t/data/models/llama", '--profile', profile('ten.ini'), '--set', 'cache.device_memory=1MiB', 'engine.max_context=512',
    '--dataset-name', 'random', '--num-prompts', 300, '--random-input-len', 60, '--random-output-len', 40, '--request-rate', 40)->{lives};
is scalar(@$crowd), 120, 'of many requests, so many';
is $crowd->[0]{request}, 90, '  of the middle';

SKIP: {
    skip 'gnuplot is not installed', 13 if system('command -v gnuplot >/dev/null') != 0;
    my ($status, $out, $err) = run('llmserve-sim', '--quiet', '--json', "$folder/one.json", '--plot', "$folder/one.html", @tiny);
    is $status, 0, 'a page' or diag $err;
    my $page = read_file("$folder/one.html");
    is scalar(() = $page =~ /<svg/g), 6, '  of six panels';
    like $page, qr/>\Q$_\E/, "  $_" for 'Batch composition', 'Cache and work', '3 requests from the middle', 'Time to first token', 'Latency of whole requests',
        'Time per output token';
    unlike $page, qr/(?:src|href)="(?!#)|<script|url\(/, '  that needs nothing else';
    ($status, $out, $err) = run('llmserve-sim', '--quiet', '--sweep', 'request-rate=20,40', '--result-dir', "$folder/runs", '--plot', "$folder/many.html", '--slo-ttft',
        '100ms', '--dataset-name', 'random', '--num-prompts', 30, '--random-input-len', 60, '--random-output-len', 20, @tiny[0 .. 3], @tiny[6 .. $#tiny]);
    is $status, 0, 'a page of a sweep' or diag $err;
    my @sweep = ('llmserve-sim', '--quiet', '--sweep', 'request-rate=20,40', '--result-dir', "$folder/free", '--dataset-name', 'random', '--num-prompts', 30,
        '--random-input-len', 60, '--random-output-len', 20, @tiny[0 .. 3], @tiny[6 .. $#tiny]);
    is((run(@sweep, '--plot', "$folder/free.$_"))[0], 0, "without deadlines there is no attainment to draw: $_") for qw(svg html);
    like read_file("$folder/many.html"), qr/<table>.*<td>20<.*<td>40<.*Requests that met all their SLOs.*Latency of whole requests/s, '  with a table, and attainment over the rate';
}
done_testing;
