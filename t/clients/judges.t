#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Clients that people use with OpenAI's, Anthropic's, Ollama's and TGI's APIs, unchanged, each in a virtual environment
# of its own: they are large (100 MB and more): only `make check-clients` asks them. The official client, which is
# small, is asked by t/api/clients.t.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../api";
use File::Temp;
use LlmServer;
use Script;
use Test::More;
use Venv;

# The packages, and whom the client asks: the fake, whose answers repeat the prompt; the demo model; or one that
# replays a call of Read and then an answer.
my %clients = (
    anthropic   => [fake => 'anthropic', 'langchain-anthropic'],
    claude_agent => [replay => 'claude-agent-sdk'],
    huggingface => [fake => 'huggingface_hub', 'openai'],
    instructor  => [demo => 'instructor'],
    langchain   => [fake => 'langchain-openai'],
    litellm     => [fake => 'litellm', 'mcp'],
    lm_eval     => [demo => 'lm_eval[api]'],
    ollama      => [fake => 'ollama'],
    openai_agents => [demo => 'openai-agents'],
    parameters => [demo => 'openai', 'anthropic'],
    pydantic_ai => [fake => 'pydantic-ai-slim[openai]'],
);

plan skip_all => "make check-clients asks @{[join ', ', sort keys %clients]}" unless $ENV{LLS_CLIENTS};

# The answer depends on the length of the prompt, which the template makes of the number of turns alone.
my $folder = File::Temp->newdir;
my $note   = "$folder/note.txt";
my $call   = qq(<tool_call>{"name": "Read", "arguments": {"file_path": "$note"}}</tool_call>);
my $second = 600 + length($call) + 96;
my $replay = Script->new(model => "tool_format = hermes\n", answers => [$call, 'The note says hello.'],
    template => "{%- set turns = messages | selectattr('role', 'equalto', 'assistant') | list | length %}{% for i in range($second if turns > 0 else 600) %}x{% endfor %}");
is $replay->start(1), $second, 'the second answer is where the template says';
LlmServer::write_file($note, "hello\n");
LlmServer::write_file("$folder/keys", "one\n");

my %servers = (
    full  => LlmServer->fake(requests => 1, period => 100),
    keyed => LlmServer->serve("api_keys = $folder/keys\n[model]\npath = " . $replay->folder . "\n[engine]\nthreads = 1\npin = false\n[tenants]\nrequests_per_minute = 2\n"),
    replay => $replay->server,
    demo => LlmServer->serve("[model]\npath = " . LlmServer::source('share/demo-model') . "\n[engine]\nthreads = 1\npin = false\n"),
    fake => LlmServer->fake,
);
my %more = (anthropic => "http://$servers{keyed}{address} http://$servers{full}{address}", claude_agent => "'$note'");
for my $client (sort keys %clients) {
SKIP: {
        my ($whom, @packages) = @{ $clients{$client} };
        my ($python, $why) = Venv::make($client, map { "'$_'" } @packages);
        skip "$client: $why", 1 if defined $why;
        my $script = LlmServer::source("t/clients/${client}_client.py");
        local $ENV{LLS_MODEL} = $whom eq 'demo' ? 'demo-model' : 'fake/model';
        cmp_ok Venv::judge($client, "'$python' '$script' http://$servers{$whom}{address} @{[$more{$client} // '']}"), '>', 6, "$client: and no less";
    }
}
for my $server (map { $servers{$_} } sort keys %servers) {
    ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left' if $server != $servers{keyed};
    is $server->stop, 0, 'the server ends well';
}
done_testing;
