#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Limits on what clients may send, keep waiting, or leave unread.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my $close = 'Connection: close';
my $there = "/v1/completions";

# ---- sizes ----------------------------------------------------------------------------
{
    my $server = LlmServer->fake(body => 1000, header => 2000);
    my $fits   = '{"prompt":[1,403],"max_tokens":1' . ' ' x 967 . '}';
    like $server->exchange(LlmServer::raw_post('/v1/completions', $fits, $close)), qr/\AHTTP\/1\.1 200 /, 'a body of the size';
    my $large = qr/\AHTTP\/1\.1 413 Content Too Large\r\n.*"message":"request body is too large: this server takes at most 1000 bytes"/s;
    like $server->exchange(LlmServer::raw_post('/v1/completions', "$fits ")), $large, 'one byte more';
    like $server->exchange("POST $there HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n"), $large,
        'refused before it is sent';
    my $chunks = sprintf("%x\r\n%s\r\n", 200, 'x' x 200) x 6;
    like $server->exchange("POST $there HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n$chunks"), $large, 'in chunks';
    like $server->exchange("GET / HTTP/1.1\r\nHost: x\r\nA: " . 'x' x 3000 . "\r\n\r\n"), qr/\AHTTP\/1\.1 431 /, 'a long header';
    like $server->exchange("GET /" . 'x' x 3000 . " HTTP/1.1\r\nHost: x\r\n\r\n"), qr/\AHTTP\/1\.1 431 /, 'a long target';
    like $server->exchange("GET / HTTP/1.1\r\nHost: x\r\n" . "A: b\r\n" x 100 . "\r\n"), qr/\AHTTP\/1\.1 431 /, 'many headers';

    # A body that goes on while the refusal is under way must not destroy it.
    my $socket = $server->connect;
    syswrite $socket, "POST $there HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n";
    { local $SIG{PIPE} = 'IGNORE'; syswrite $socket, 'x' x 65536 for 1 .. 20; }
    shutdown $socket, 1;
    like LlmServer::read_all($socket), $large, 'a client that goes on sending reads the refusal';
    ok $server->metric_becomes('llmserve_http_connections', 1), 'and all these are closed';
    is $server->stop, 0, 'the server ends well';
}

# ---- times ----------------------------------------------------------------------------
{
    my $server = LlmServer->fake(idle => 60000, read => 200);
    my $slow   = $server->connect;
    syswrite $slow, "GET /version HTTP/1.1\r\nHo";
    my $body = $server->connect;
    syswrite $body, "POST $there HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx";
    my $late = qr/\AHTTP\/1\.1 408 Request Timeout\r\n.*connection: close\r\n.*took too long/s;
    like LlmServer::read_all($slow), $late, 'a header that never ends';
    like LlmServer::read_all($body), $late, 'a body that never comes';
    is $server->stop, 0, 'the server ends well';

    $server = LlmServer->fake(idle => 400, read => 200);
    is LlmServer::read_all($server->connect), '', 'a connection without a request';
    my $kept = '';    # may have been closed before its request on a very busy machine
    for (my $deadline = time + $LlmServer::TIMEOUT; $kept eq '' && time < $deadline;) {
        $kept = $server->exchange("GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    like $kept, qr/\AHTTP\/1\.1 200 OK\r\n.*\}\z/s, 'one that is not used again';
    my $long = $server->connect;    # an answer may take longer than all of these
    syswrite $long, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":400,"stream":true}', $close);
    like LlmServer::read_all($long), qr/data: \[DONE\]/, 'an answer has no such limit';
    is $server->stop, 0, 'the server ends well';
}

# ---- unread answers -------------------------------------------------------------------

# More than any socket buffer takes, sent by the fake as fast as it can.
my $flood = LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":30000,"stream":true}', 'x-request-id: burst-1');
{
    my $server = LlmServer->fake(context => 100000, unsent => 100000, silence => 100);
    my $reader = $server->connect;
    my $stuck  = $server->connect(Sockopts => [[SOL_SOCKET, SO_RCVBUF, pack('i', 4096)]]);
    my $other  = $server->connect;
    syswrite $other, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":200,"stream":true}', 'x-request-id: pause-1');
    syswrite $reader, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":200,"stream":true}', $close);
    LlmServer::read_until($_, qr/data: /) for $other, $reader;
    syswrite $stuck, $flood;
    ok $server->metric_becomes('llmserve_http_slow_readers_total', 1), 'who does not read is cut off';
    like LlmServer::read_all($reader), qr/"finish_reason":"length".*data: \[DONE\]/s, 'who reads does not notice';
    ok $server->metric_becomes('llmserve_generations_live', 1), 'who was cut off is cancelled, and who waits is not';
    unlike LlmServer::read_all($stuck), qr/\[DONE\]/, 'the stream that was cut off has no end';
    close $other;
    ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
    is $server->stop, 0, 'the server ends well';
}
{
    my $server = LlmServer->fake(context => 100000, unsent => 100000000, write => 300);
    my $stuck  = $server->connect(Sockopts => [[SOL_SOCKET, SO_RCVBUF, pack('i', 4096)]]);
    syswrite $stuck, $flood;
    ok $server->metric_becomes('llmserve_http_timeouts_total', 1), 'who takes nothing for a while is cut off';
    ok $server->metric_becomes('llmserve_http_connections', 1), 'and closed';
    is $server->stop, 0, 'the server ends well';
}
{
    my $server = LlmServer->fake(context => 100000, unsent => 100000000);
    # A receive buffer smaller than a segment of the loopback would do too, but there TCP drops
    # and tries again after 0.2, 0.4, ... seconds, which on a busy machine adds up to minutes.
    my $slow = $server->connect;
    syswrite $slow, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":30000,"stream":true}', 'x-request-id: burst-1', $close);
    ok $server->metric_becomes('vllm:generation_tokens_total{model_name="fake/model",engine="0"}', 30000), 'all of it waits in the server';
    my @chunks = LlmServer::read_all($slow) =~ /"text":" /g;
    is scalar @chunks, 30000, 'who reads slowly gets every token';
    is $server->stop, 0, 'the server ends well';
}

# ---- the queue ------------------------------------------------------------------------
{
    my $server = LlmServer->fake(requests => 1, period => 25, silence => 100);
    $server->post('/v1/completions', '{"prompt":[1,403],"max_tokens":100,"ignore_eos":true}');
    my $held = $server->connect;
    syswrite $held, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":400,"stream":true}', 'x-request-id: pause-1');
    LlmServer::read_until($held, qr/data: /);
    my $refused = $server->post('/v1/completions', { prompt => [1, 403] });
    is_deeply [$refused->{status}, $refused->{json}{error}{code}], [429, 'queue_full'], 'one more than the queue takes';
    cmp_ok $refused->{headers}{'retry-after'}, '>=', 2, '  may come again when one like those before will be done, after 2.5 s';
    cmp_ok $refused->{headers}{'retry-after'}, '<=', 60, '  not later than clients wait';
    close $held;
    ok $server->metric_becomes('llmserve_generations_live', 0), 'and there is room again';
    is $server->post('/v1/completions', { prompt => [1, 403], max_tokens => 1 })->{status}, 200, '  which is had';
    is $server->stop, 0, 'the server ends well';
}

# ---- connections ----------------------------------------------------------------------
{
    my $server = LlmServer->fake(connections => 3);
    my @held   = map { $server->connect } 1 .. 3;
    syswrite $_, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n" for @held;
    like LlmServer::read_until($_, qr/\}\z/), qr/\AHTTP\/1\.1 200 /, 'a connection' for @held;
    is LlmServer::read_all($server->connect), '', 'one too many is closed';
    close pop @held;
    # a scrape that comes before the server has seen the close is refused too, and counted
    my ($page, $deadline) = ('', time + $LlmServer::TIMEOUT);
    $page = $server->get('/metrics')->{content} while $page !~ /^llmserve_http_connections_refused_total/m && time < $deadline;
    like $page, qr/^llmserve_http_connections_refused_total [1-9]\d*$/m, 'and there is room again';
    undef @held;
    is $server->stop, 0, 'the server ends well';
}
done_testing;
