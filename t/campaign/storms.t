#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A storm of reloads under streaming clients: all triples of policies in random order with
# broken files between, some before a step was run with the one before. No answer changes.
# The suite comes by some tens of the triples, a minute by all.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use LlmServer;
use Storm;
use Streams;
use Test::More;

my $end    = Campaign::begin;
my $demo   = Campaign::model();
my $fault  = LlmServer::built('t/fault/.libs');
my $base   = "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\nhost_memory = 8MiB\n";
my $server = LlmServer->serve("${base}[plugins]\nscheduler = fcfs\n");

my @prompts = map { my $n = $_; [map { 3 + ($_ * 37 + $n * 11) % 500 } 1 .. 10 + 3 * $n] } 1 .. 8;
my $streams = Streams->new($server, clients => 12, tokens => Campaign::least(60, 16), prompts => \@prompts);
$streams->learn;
my $storm = Storm->new($server, $streams, base => $base, seed => Campaign::seed(), peace => 0.05,
    broken => ["${base}what is this\n", "${base}[plugins]\nscheduler = nosuch\n", "${base}[plugins]\nscheduler = $fault/scheduler_failing_create.so\n"]);
# At least so many of each, however slow the machine is.
sub enough { my ($done, $refused) = $storm->counts; return $done >= Campaign::least(40, 5) && $refused >= Campaign::least(6, 1) && $streams->{done} > 12 }
$storm->turn while Campaign::goes_on($end) || !enough();
$streams->finish;

my ($done, $refused) = $storm->counts;
is_deeply $streams->{wrong}, [], "$streams->{done} answers under $storm->{sent} reloads asked for, $done done and $refused refused, are as without";
# Which triples were at work: of reloads that come together only the last one is.
my @kinds = qw(scheduler cache predictor);
my %now   = (scheduler => 'fcfs', cache => 'paged', predictor => 'none');
my %worked;
for my $line ($server->log =~ / reload: generation \d+: ([^\n]*)/g) {
    for my $kind (@kinds) { $now{$kind} = $1 if $line =~ /\b$kind: \S+ \S+ replaced by (\S+)/ }
    $worked{"@now{@kinds}"} = 1;
}
my $triples = @{ $storm->{inis} };
cmp_ok $streams->{done}, '>', 12, 'which are many';
cmp_ok $refused, '>=', Campaign::least(6, 1), 'broken files were among them';
is $server->stop, 0, 'the server ends well';
Campaign::figure(reloads => $done, refused => $refused, triples => keys(%worked) . " of $triples", 'streamed answers' => $streams->{done});
done_testing;
