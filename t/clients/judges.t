#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Clients that people use with OpenAI's API, unchanged, each in a virtual environment of its own: they
# are large (100 MB and more): only `make check-clients` asks them. The official client, which
# is small, is asked by t/api/clients.t.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../api";
use LlmServer;
use Test::More;
use Venv;

my %clients = (
    langchain   => [qw(langchain-openai)],
    litellm     => [qw(litellm)],
    pydantic_ai => ['pydantic-ai-slim[openai]'],
);

plan skip_all => 'make check-clients asks litellm, langchain-openai and pydantic-ai' unless $ENV{LLS_CLIENTS};

my $server = LlmServer->fake;
for my $client (sort keys %clients) {
SKIP: {
        my ($python, $why) = Venv::make($client, map { "'$_'" } @{ $clients{$client} });
        skip "$client: $why", 1 if defined $why;
        my $script = LlmServer::source("t/clients/${client}_client.py");
        cmp_ok Venv::judge($client, "'$python' '$script' http://$server->{address}"), '>', 9, "$client: and no less";
    }
}
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
is $server->stop, 0, 'the server ends well';
done_testing;
