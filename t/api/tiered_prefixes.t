#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Prefixes shared by the tiered cache, on the CPU's engine: the tokens are the same as without
# sharing, in the cache's own element and in int8; and equal transformers' when requests run
# together, memory is short and sequences are swapped. A step is a block long, so that the same
# tokens are read as int8 whether or not a prefix was cached.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use JSON::PP;
use Test::More;

sub serve {
    my ($int8, $sharing, $memory) = @_;
    return LlmServer->serve("[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 16\n"
        . "max_sequences = 8\n[cache]\ndevice_memory = $memory\nhost_memory = 1MiB\nint8 = $int8\n[plugins]\ncache = tiered\n"
        . "scheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nmax_seqs = 8\nquantum = 1ms\n"
        . "[cache.tiered]\nprefix_sharing = $sharing\n");
}

# The tokens after each prompt, and how many of its own were there already.
my $begin = 'Once upon a time there was a little cat who had a big red ball and a small blue hat. ' x 2;
sub ask {
    my ($server) = @_;
    my (@ids, @cached);
    for my $end ('The cat', 'The cat', 'The ball was', 'Her mom said') {
        my $json = $server->post('/v1/completions', { prompt => "$begin$end", max_tokens => 40, temperature => 0,
            ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true })->{json};
        push @ids, $json->{choices}[0]{token_ids};
        push @cached, $json->{usage}{prompt_tokens_details}{cached_tokens};
    }
    return (\@ids, \@cached);
}

for my $int8 (qw(off swapped all)) {
    my ($alone, $none, $shared, $found);
    my $server = serve($int8, 'off', '4MiB');
    ($alone, $none) = ask($server);
    is "@$none", '0 0 0 0', "int8 = $int8: nothing is found without sharing";
    is $server->stop, 0, '  the server ends well';
    $server = serve($int8, 'on', '4MiB');
    ($shared, $found) = ask($server);
    is $found->[0], 0, '  with it, the first prompt is new';
    cmp_ok $found->[$_], '>=', 48, '  the beginning of another is there' for 1 .. 3;
    is scalar @{ $shared->[0] }, 40, '  an answer';
    is_deeply $shared, $alone, '  of the same tokens';
    is $server->stop, 0, '  the server ends well';
}

# The quantum is so short that who has memory changes often.
my $server = serve('off', 'on', '1MiB');
my ($swapped, $rounds) = (0, 0);
until ($swapped > 0 || $rounds++ == 10) {
    my @ids = Golden::all_at_once($server, 12);
    is_deeply $ids[$_], [($Golden::ANSWERS[$_]{greedy_ids}) x 12], "\"$Golden::ANSWERS[$_]{prompt}\" in company" for 0 .. $#Golden::ANSWERS;
    $swapped = $server->metric('llmserve_copied_bytes_total');
}
cmp_ok $swapped, '>', 0, 'some were swapped';
cmp_ok $server->metric('vllm:prefix_cache_hits_total{model_name="stories260K",engine="0"}'), '>', 0, 'some shared a prefix';
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
my $units = $server->metric('llmserve_cache_units{tier="device"}');
ok $server->metric_becomes('llmserve_cache_units_free{tier="device"}', $units), '  and the cache is empty again';
is $server->stop, 0, 'the server ends well';

done_testing;
