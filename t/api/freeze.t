#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Large bodies are processed on other threads: streams do not wait for them, and a client
# that disconnects, or a server that stops, is not blocked by half-done work.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use Freeze;
use LlmServer;
use Test::More;

my $close  = 'Connection: close';
# Some have to be longer than the context that the server has below.
my %bodies = Freeze::bodies(LlmServer::sanitized() ? 0.08 : 0.15);
my %status = map { $_ => 400 } 'a prompt of millions of ids', 'a wrong value to be quoted', 'a chat that a template splits', '/v1/responses of many items';
my %part   = ('/v1/embeddings of many texts' => 3, '/v1/rerank of many texts' => 3); # main submits each

# ---- others go on ---------------------------------------------------------------------

# CPU and counts, not time: what else runs on the machine must not decide. Main has a part
# of it at most. A sanitizer adds to main's part by what it does at each access, and bodies are
# smaller there: the other build judges.
sub little {
    my ($m, $part, $name) = @_;
  SKIP: {
        skip 'no schedstat here', 1 if $m->{cpu} == 0;
        skip 'the parts of main and others are judged without a sanitizer', 1 if LlmServer::sanitized();
        ok $part * $m->{main} < $m->{cpu}, "$name: main does little of it"
            or diag sprintf 'main used %.1f ms at once, of %.1f ms', map { 1e3 * $_ } $m->{main}, $m->{cpu};
    }
    return;
}

{
    my $state  = File::Temp->newdir;
    my $server = LlmServer->fake(context => 1 << 18, requests => 5000, Batches::missing() ? () : (state => $state));
    for my $name (sort keys %bodies) {
        my $m = Freeze::measure($server, @{ $bodies{$name} });
        like $m->{answer}, qr{\AHTTP/1.1 @{[ $status{$name} // 200 ]} .*\}\z}s, "$name: is answered";
        little($m, $part{$name} // 20, $name);
        cmp_ok $m->{rounds}, '>=', 3, "$name: /health is answered meanwhile";
    }
    is $server->stop, 0, 'the server ends well';
}

# A long answer: its prompt again, each token of it with its likelihood and that of others.
{
    my $demo   = LlmServer::source('share/demo-model');
    my $server = LlmServer->serve("[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 12MiB\n");
    my $ids    = join ',', map { $_ % 400 + 5 } 1 .. 900;
    my $m      = Freeze::measure($server, '/v1/completions', "{\"prompt\":[$ids],\"echo\":true,\"logprobs\":20,\"max_tokens\":1,\"n\":16}", 900);
    like $m->{answer}, qr{\AHTTP/1.1 200 .*\}\z}s, 'a long answer comes';
    little($m, 20, 'a long answer');
    is $server->stop, 0, 'the server ends well';
}

{
    my $server = LlmServer->fake(context => 1 << 18);
    my $m      = Freeze::measure($server, @{ Freeze::repeated() });
    like $m->{answer}, qr{\AHTTP/1.1 200 .*\}\z}s, 'an answer of megabytes comes';
    little($m, 3, 'an answer of megabytes');
    is $server->stop, 0, 'the server ends well';
}

# ---- order, and what is counted -------------------------------------------------------
{
    my $server = LlmServer->fake;
    my ($path, $body) = @{ $bodies{'/detokenize of many ids'} };
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post($path, $body) . LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":1}', $close);
    like LlmServer::read_all($socket), qr{\AHTTP/1.1 200 .*"content":.*HTTP/1.1 200 .*"text_completion"}s, 'answers keep their order on a connection';
    is $server->metric('http_request_size_bytes_sum{handler="/detokenize"}'), length $body, 'the body that was worked on is counted';
    my $many = $server->post('/detokenize', '{"tokens":[1' . ',1' x 1048576 . ']}');
    is $many->{status}, 413, 'more ids than are turned into text at once';
    like $many->{json}{error}{message}, qr/'tokens' has 1048577 ids; at most 1048576/, '  with both numbers';
    my $unknown = $server->post('/v1/completions', { prompt => 'x', max_tokens => 1, map { ("k$_" => 0) } 1 .. 5000 });
    is $unknown->{status}, 200, 'thousands of unknown parameters';
    my $slow = $server->post('/v1/completions', { prompt => 'x ' x 20000, max_tokens => 1 }, { 'x-slo-ttft-ms' => 'soon' });
    like $slow->{content}, qr/context_length_exceeded/, 'a prompt that is too long';
    $slow = $server->post('/v1/completions', { prompt => 'x', max_tokens => 1, metadata => 'x' x 20000 }, { 'x-slo-ttft-ms' => 'soon' });
    like $slow->{content}, qr/the header x-slo-ttft-ms must be a number/, 'headers count for a large body as well';
    is $server->stop, 0, 'the server ends well';
}

# ---- clients that leave ---------------------------------------------------------------

# More than are worked on at once, so that some of those who leave still wait.
{
    my $server  = LlmServer->fake(context => 1 << 18);
    my @clients = map { [Freeze::upload($server, @$_)] } map { ($bodies{'/detokenize of many ids'}, $bodies{'an object of many members'}) } 1 .. 4;
    syswrite $_->[0], $_->[1] for @clients;
    my @leave = splice @clients, 2, 4;
    close $_->[0] for @leave;
    like LlmServer::read_all($_->[0]), qr{\AHTTP/1.1 200 .*\}\z}s, 'who stays is answered' for @clients;
    ok $server->metric_becomes('llmserve_http_connections', 1), 'who left has left nothing open';
    ok $server->metric_becomes('llmserve_generations_live', 0), 'and nothing running';
    is $server->stop, 0, 'the server ends well';
}

# ---- a server that stops --------------------------------------------------------------
{
    my $server  = LlmServer->fake;
    my @clients = map { [Freeze::upload($server, @{ $bodies{'/detokenize of many ids'} })] } 1 .. 4;
    syswrite $_->[0], $_->[1] for @clients;
    LlmServer::read_until($clients[0][0], qr/./);    # the others are at work, or wait
    $server->signal('TERM');
    like LlmServer::read_all($_->[0]), qr{\}\z}, 'work that was begun is answered' for @clients;
    is $server->wait_for_end, 0, 'then the server ends, as nothing is left';
}
{
    my $stories = LlmServer::source('t/data/models/stories260K');
    my $server  = LlmServer->serve("[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n");
    my @clients = map { [Freeze::upload($server, @{ $bodies{'an object of many members'} })] } 1 .. 4;
    syswrite $_->[0], $_->[1] for @clients;
    $server->get('/live');
    $server->signal('TERM');
    $server->signal('INT');
    is $server->wait_for_end, 0, 'a server that stops at once waits for its threads, not for clients';
}

done_testing;
