#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Clients that people use with OpenAI's and Anthropic's APIs, unchanged, each in a virtual environment of its own: they
# are large (100 MB and more): only `make check-clients` asks them. The official client, which
# is small, is asked by t/api/clients.t.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../api";
use LlmServer;
use Test::More;
use Venv;

# The packages, and whom the client asks: the fake, whose answers repeat the prompt, or the demo model.
my %clients = (
    anthropic   => [fake => 'anthropic', 'langchain-anthropic'],
    instructor  => [demo => 'instructor'],
    langchain   => [fake => 'langchain-openai'],
    litellm     => [fake => 'litellm', 'mcp'],
    lm_eval     => [demo => 'lm_eval[api]'],
    pydantic_ai => [fake => 'pydantic-ai-slim[openai]'],
);

plan skip_all => "make check-clients asks @{[join ', ', sort keys %clients]}" unless $ENV{LLS_CLIENTS};

my %servers = (
    demo => LlmServer->serve("[model]\npath = " . LlmServer::source('share/demo-model') . "\n[engine]\nthreads = 1\npin = false\n"),
    fake => LlmServer->fake,
);
for my $client (sort keys %clients) {
SKIP: {
        my ($whom, @packages) = @{ $clients{$client} };
        my ($python, $why) = Venv::make($client, map { "'$_'" } @packages);
        skip "$client: $why", 1 if defined $why;
        my $script = LlmServer::source("t/clients/${client}_client.py");
        local $ENV{LLS_MODEL} = $whom eq 'demo' ? 'demo-model' : 'fake/model';
        cmp_ok Venv::judge($client, "'$python' '$script' http://$servers{$whom}{address}"), '>', 6, "$client: and no less";
    }
}
for my $server (map { $servers{$_} } sort keys %servers) {
    ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
    is $server->stop, 0, 'the server ends well';
}
done_testing;
