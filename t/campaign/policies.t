#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Policies decide when, never what: every scheduler over every cache manager, prompts whole and in
# chunks, with prefixes shared and with memory that is short, answers the same tokens, streamed and
# whole. What is compared with is one request at a time over the cache that is simplest.
use strict;
use warnings;
use FindBin;
use lib ($FindBin::Bin, "$FindBin::Bin/../api");
use Campaign;
use JSON::PP;
use List::Util qw(shuffle);
use LlmServer;
use Storm;
use Streams;
use Test::More;
use Time::HiRes qw(time);

my $end  = Campaign::begin;
my $demo = Campaign::model();
my @prefix  = map { 3 + ($_ * 41) % 500 } 1 .. 40;
my @prompts = map { my $n = $_; [$n % 2 ? @prefix : (), map { 3 + ($_ * 37 + $n * 11) % 500 } 1 .. 5 + 23 * $n] } 1 .. 8;

sub base { my ($memory, $tokens) = @_; return "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = $tokens\n[cache]\ndevice_memory = $memory\nhost_memory = 8MiB\n[predictor.fixed]\nlength = 30\n" }
my $server = LlmServer->serve(base('16MiB', 512) . "[plugins]\nscheduler = fcfs\ncache = contiguous\n");
my $streams = Streams->new($server, clients => 1, tokens => 24, prompts => \@prompts);
$streams->learn;
my $answers = $streams->{answers};
is scalar(@$answers), 8, 'eight answers to compare with';
is $server->stop, 0, '  of a server of its own';

my ($triples, $compared, %seen, @wrong) = (0, 0);
sub whole_is_streamed {
    my ($server, $i) = @_;
    my $answer = $server->post('/v1/completions', { prompt => $prompts[$i], max_tokens => 24, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true });
    my $ids = join ' ', @{ $answer->{json}{choices}[0]{token_ids} // [] };
    return $ids eq $answers->[$i] ? () : "whole: $ids, not $answers->[$i]";
}

# A server with that many tokens a step at most, and then one triple after the other in it.
sub compare {
    my ($memory, $tokens, @triples) = @_;
    my $base   = base($memory, $tokens);
    my $server = LlmServer->serve($base . $triples[0]);
    my $streams = Streams->new($server, clients => 8, tokens => 24, prompts => \@prompts, answers => $answers);
    for my $triple (@triples) {
        my $name = ($triple =~ s/\[plugins\]\n//r) =~ s/\n/, /gr . "$memory, $tokens tokens a step";
        $server->configure($base . $triple);
        my $said = $server->post('/admin/reload', '');
        if ($said->{status} != 200) { push @wrong, "$name: $said->{content}" if $said->{content} !~ /needs|cannot/; next }
        my $before = $streams->{done};
        $streams->run(sub { $streams->{done} >= $before + 8 });
        $streams->finish;
        push @wrong, map { "$name: $_" } @{ $streams->{wrong} }, whole_is_streamed($server, int rand 8);
        @{ $streams->{wrong} } = ();
        $compared += $streams->{done} - $before + 1;
        $triples++;
        $seen{$triple} = 1;
        last if @wrong || (!Campaign::goes_on($end) && $triples % Campaign::least(4, 1) == 0);
    }
    push @wrong, "$memory, $tokens: the server ended badly: " . $server->log if $server->stop ne '0';
    return;
}

my @all = shuffle(Storm::triples());
my $at = 0;
do {
    my @some = map { $all[$at++ % @all] } 1 .. 32;
    compare((qw(16MiB 2MiB))[rand 2], (16, 64, 512)[rand 3], @some);
} while Campaign::goes_on($end) && !@wrong;
is_deeply [@wrong[0 .. ($#wrong < 4 ? $#wrong : 4)]], [], "$triples triples: $compared answers, all the same";
Campaign::figure(triples => $triples, 'of them different' => scalar keys %seen, of => scalar @all, answers => $compared);
done_testing;
