#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A client that disconnects, in every state: its request is cancelled, and nothing of it
# remains anywhere.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;

my $server = LlmServer->fake(silence => 100);    # what finds out who left a stream in which nothing comes
my $aborts = 'vllm:request_success_total{model_name="fake/model",engine="0",finished_reason="abort"}';
my $gone   = 0;
my $choices = 0;

# Sends a request, waits for `pattern` of the answer if there is one, and leaves.
sub leave {
    my ($name, $request, $how, $n, $pattern) = @_;
    my $socket = $server->connect;
    syswrite $socket, $request;
    LlmServer::read_until($socket, $pattern) if defined $pattern;
    ok $server->metric_becomes('llmserve_generations_live', 1), "$name: alive" unless defined $pattern;
    setsockopt($socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)) if $how eq 'reset';
    close $socket;
    $gone++;
    $choices += $n;
    ok $server->metric_becomes('llmserve_generations_live', 0), "$name: gone";
    is $server->metric('llmserve_http_clients_gone_total'), $gone, '  counted';
    is $server->metric($aborts), $choices, '  and cancelled';
    ok $server->metric_becomes('llmserve_http_connections', 1), '  and its connection closed';
    return;
}

my $endless = '"prompt":[1,403,407],"max_tokens":500';
my $pause   = 'x-request-id: pause-1';    # which is alive until its client leaves
for my $path ('/v1/completions') {
    for my $how ('close', 'reset') {
        for my $stream ('true', 'false') {
            my $kind = "$how, stream: $stream";
            my $body = "{$endless,\"stream\":$stream}";
            leave("$kind, queued", LlmServer::raw_post($path, $body, 'x-request-id: hold-1'), $how, 1);
            leave("$kind, running", LlmServer::raw_post($path, $body, $pause), $how, 1);
            leave("$kind, three choices", LlmServer::raw_post($path, "{$endless,\"n\":3,\"stream\":$stream}", $pause), $how, 3);
            leave("$kind, streaming", LlmServer::raw_post($path, $body, $pause), $how, 1, qr/data: /) if $stream eq 'true';
        }
    }
}
leave('with another request sent ahead', LlmServer::raw_post('/v1/completions', "{$endless}", $pause) . "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 'close', 1);

# ---- clients that only send nothing more, as nc -N -------------------------------------

# Ends its own side; the answer and the connection's end.
sub end_sending {
    my ($request) = @_;
    my $socket = $server->connect;
    syswrite $socket, $request;
    shutdown $socket, 1;
    return LlmServer::read_all($socket);
}

for my $stream ('true', 'false') {
    my $answer = end_sending(LlmServer::raw_post('/v1/completions', qq({"prompt":[1,403],"max_tokens":50,"stream":$stream})));
    like $answer, qr/\A(?:HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 200 OK\r\n.*"finish_reason":"length".*(?:\}|0\r\n\r\n)\z/s, "stream $stream: answered";
}
{
    my @answers = end_sending(LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":5}') . "GET /version HTTP/1.1\r\nHost: x\r\n\r\n" x 3) =~ /(HTTP\/1\.1 200 )/g;
    is scalar @answers, 4, 'and what was sent ahead too';
    is scalar(() = end_sending("GET /version HTTP/1.1\r\nHost: x\r\n\r\nGET /ver") =~ /200 OK/g), 1, 'but nothing for half a request';
}
{
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', "{$endless}", 'x-request-id: hold-1');
    ok $server->metric_becomes('llmserve_generations_live', 1), 'one that waits';
    shutdown $socket, 1;
    is LlmServer::read_until($socket, qr/\n\r\n/), "HTTP/1.1 100 Continue\r\n\r\n", '  is asked whether it still reads';
    is $server->metric('llmserve_generations_live'), 1, '  and is not given up';
    setsockopt($socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
    close $socket;
    ok $server->metric_becomes('llmserve_generations_live', 0), '  until it vanishes';
    is $server->metric('llmserve_http_clients_gone_total'), ++$gone, '  counted';

    $socket = $server->connect;
    my $body = "{$endless}";
    syswrite $socket, "POST /v1/completions HTTP/1.0\r\nx-request-id: hold-1\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
    ok $server->metric_becomes('llmserve_generations_live', 1), 'HTTP/1.0, which cannot be asked';
    shutdown $socket, 1;
    ok $server->metric_becomes('llmserve_generations_live', 0), '  is given up';
    is $server->metric('llmserve_http_clients_gone_total'), ++$gone, '  and counted';
    is LlmServer::read_all($socket), '', '  and closed';
}
ok $server->metric_becomes('llmserve_http_connections', 1), 'all these are closed';

# A stream that has begun, in which nothing comes for an hour: a comment asks whether who has closed reads.
{
    my $still  = LlmServer->fake(silence => 3600 * 1000);
    my $socket = $still->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', "{$endless,\"stream\":true}", $pause);
    LlmServer::read_until($socket, qr/data: /);
    close $socket;
    ok $still->metric_becomes('llmserve_generations_live', 0), 'who leaves a stream that is still is found out';
    is $still->metric('llmserve_http_clients_gone_total'), 1, '  and counted';
    is $still->stop, 0, '  and nothing is left';
}

# Half a request, then nothing.
for my $part ("GET", "GET / HTTP/1.1\r\nHo", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{") {
    my $socket = $server->connect;
    syswrite $socket, $part;
    close $socket;
}
ok $server->metric_becomes('llmserve_http_connections', 1), 'half requests leave nothing';
is $server->metric('llmserve_http_clients_gone_total'), $gone, 'and are no clients that waited';

# Others don't notice.
{
    my @leavers = map {
        my $socket = $server->connect;
        syswrite $socket, LlmServer::raw_post('/v1/completions', "{$endless,\"stream\":true}", $pause);
        $socket
    } 1 .. 20;
    my $stayer = $server->connect;
    syswrite $stayer, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":50,"stream":true}', 'Connection: close');
    LlmServer::read_until($stayer, qr/data: /);
    close $_ for @leavers;
    my $rest = LlmServer::read_all($stayer);
    like $rest, qr/"finish_reason":"length".*data: \[DONE\]/s, 'who stays gets all of it';
    ok $server->metric_becomes('llmserve_generations_live', 0), 'and who left is forgotten';
}
ok $server->metric_becomes('vllm:num_requests_running{model_name="fake/model",engine="0"}', 0), 'nothing runs';
ok $server->metric_becomes('vllm:num_requests_waiting{model_name="fake/model",engine="0"}', 0), 'nothing waits';
is $server->stop, 0, 'the server ends well';
done_testing;
