#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Answers that match a schema, wherever and however they are computed: several choices of a
# request, among many others, with and without jumps, preempted, swapped, handed over from
# an instance that prefills to one that decodes. All must equal, token by token, the
# answers of one instance that runs each request alone and never jumps; and jsonschema must
# find them valid.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

use constant COPIES => 2;    # requests of each schema

sub config {
    my ($engine, $cache, $plugins) = @_;
    return '[model]' . "\npath = " . LlmServer::source('share/demo-model')
        . "\n[engine]\nthreads = 1\npin = false\nmax_context = 512\n$engine\[cache]\n$cache\[plugins]\n$plugins";
}

# Long names are forced, what is between them is drawn. The text keeps the order.
my %schemas = (
    delivery => '{"type":"object","additionalProperties":false,"properties":{'
        . '"customer_identification_number":{"type":"integer","minimum":0,"maximum":999},'
        . '"delivery_address_confirmed":{"type":"boolean"},'
        . '"preferred_method_of_payment":{"enum":["credit_card","bank_transfer"]}},'
        . '"required":["customer_identification_number","delivery_address_confirmed","preferred_method_of_payment"]}',
    rows => '{"type":"array","minItems":2,"maxItems":4,"items":{"type":"object","additionalProperties":false,'
        . '"properties":{"measured_temperature":{"type":"integer","minimum":-40,"maximum":60},'
        . '"comment":{"type":"string","maxLength":12}},"required":["measured_temperature","comment"]}}',
    tree => '{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","additionalProperties":false,'
        . '"properties":{"kind_of_node":{"enum":["leaf","branch"]},"children_of_node":{"type":"array","maxItems":2,'
        . '"items":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}}},"required":["kind_of_node"]}}}',
);

# Two choices each; one of the copies is greedy, the others are drawn by their seeds; and
# a request without a schema beside them.
my (@bodies, @names);
for my $name (sort keys %schemas) {
    for my $copy (1 .. COPIES) {
        push @bodies, { prompt => "Once upon a time $copy", n => 2, max_tokens => 160, seed => $copy, return_token_ids => JSON::PP::true,
            temperature => $copy == 1 ? 0 : 1, guided_json => $schemas{$name} };
        push @names, $name;
    }
}
push @bodies, { prompt => 'The cat', n => 2, max_tokens => 60, seed => 5, temperature => 1, return_token_ids => JSON::PP::true };
push @names, undef;

sub choices {
    my (@answers) = @_;
    return [map { [map { [@$_{qw(index token_ids text finish_reason)}] } sort { $a->{index} <=> $b->{index} } @{ $_->{choices} }] } @answers];
}

my $alone = LlmServer->serve(config('', '', "scheduler = fcfs\njump_ahead = false\n"));
my $expected = choices(map { $alone->post('/v1/completions', $_)->{json} } @bodies);
is $alone->metric('llmserve_forced_tokens_total'), 0, 'the one that all are held against never jumps';
is $alone->stop, 0;
is scalar(map { @$_ } @$expected), 2 * 3 * COPIES + 2, 'choices of all requests';
my %different = map { $_->[2] => 1 } map { @$_ } @{$expected}[0 .. $#bodies - 1];
cmp_ok scalar keys %different, '>', 2 * COPIES, '  of many texts';

# ---- on one instance and on several ---------------------------------------------------

my $small = "block_tokens = 8\ndevice_memory = 384KiB\nhost_memory = 16MiB\n";
my @places = (
    ['all at once', '', '', "scheduler = fcfs\n"],
    ['in chunks',   '', '', "scheduler = sarathi\n[scheduler.sarathi]\nchunk = 32\n"],
    ['preempted, computed again', '', $small, "scheduler = sarathi\n", 'preempted'],
    ['preempted, swapped', '', $small, "scheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nmax_seqs = 64\nquantum = 1ms\n", 'preempted'],
    ['prefill and decode', "roles = prefill, decode\n", '', "scheduler = distserve\n", 'handed over'],
    ['two that decode', "roles = prefill, decode, decode\n", '', "scheduler = distserve\n", 'handed over'],
    ['prefill and decode, without jumps', "roles = prefill, decode\n", '', "scheduler = distserve\njump_ahead = false\n", 'handed over'],
);
for my $place (@places) {
    my ($name, $engine, $cache, $plugins, $what) = @$place;
    my $server = LlmServer->serve(config($engine, $cache, $plugins));
    my $got = choices($server->at_once(@bodies));
    is_deeply $got->[$_], $expected->[$_], "$name: " . ($names[$_] // 'no schema') . ", request $_" for 0 .. $#bodies;
    cmp_ok $server->metric('llmserve_forced_tokens_total'), $plugins =~ /jump_ahead/ ? '==' : '>', 0, "$name: forced tokens";
    $what //= '';
    my ($preempted) = $server->get('/metrics')->{content} =~ /^vllm:num_preemptions_total\{\S* (\d+)/m;
    cmp_ok $preempted, '>', 0, "$name: some were" if $what eq 'preempted';
    is $server->metric('llmserve_handed_over_total'), 2 * 3 * COPIES + 2, "$name: all were" if $what eq 'handed over';
    is $server->stop, 0, "$name: the server ends well";
}

# ---- the reference validator ----------------------------------------------------------

SKIP: {
    my $venv = LlmServer::built('t/jsonschema-venv');
    my $why = LlmServer::make_venv($venv, 'jsonschema');
    skip "jsonschema: $why", 1 if defined $why;
    my @whole = map { my $i = $_; map { { schema => $schemas{$names[$i]}, text => $_->[2] } } grep { $_->[3] eq 'stop' } @{ $expected->[$i] } } 0 .. $#bodies - 1;
    cmp_ok scalar @whole, '>=', 3 * COPIES, 'most answers are whole';
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/answers.json", encode_json(\@whole));
    my $script = 'import json, sys, jsonschema; [jsonschema.validate(json.loads(a["text"]), json.loads(a["schema"])) for a in json.load(open(sys.argv[1]))]';
    is system("$venv/bin/python", '-c', $script, "$folder/answers.json"), 0, '  and jsonschema finds each of them valid';
}
done_testing;
