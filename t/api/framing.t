#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# HTTP/1.1 byte by byte: what the server sends, and what it accepts.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my $server = LlmServer->fake;
my $date   = qr/date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/;
my $id     = qr/x-request-id: [0-9a-f]{32}\r\n/;

# ---- answers --------------------------------------------------------------------------

like $server->exchange("GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    qr/\AHTTP\/1\.1\ 200\ OK\r\n
       content-type:\ application\/json\r\n
       content-length:\ 19\r\n
       ${date}connection:\ close\r\n${id}\r\n
       \{"version":"0\.1\.0"\}\z/x, 'a fixed answer';

like $server->exchange("HEAD /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    qr/\AHTTP\/1\.1 200 OK\r\n.*content-length: 19\r\n.*\r\n\r\n\z/s, 'HEAD has no body';
like $server->exchange("HEAD /admin/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    qr/\AHTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream; .*\r\n\r\n\z/s, 'nor has that of a stream, which ends';

like $server->exchange("GET /version HTTP/1.0\r\n\r\n"),
    qr/\AHTTP\/1\.1 200 OK\r\n.*connection: close\r\n.*\}\z/s, 'HTTP/1.0 closes';

like $server->exchange("GET http://x/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    qr/\AHTTP\/1\.1 200 /, 'an absolute target';

like $server->exchange("GET /v1/models/fake%2Fmodel?x=%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    qr/\AHTTP\/1\.1 200 /, 'an escaped path; the query is not looked at';

# ---- a stream -------------------------------------------------------------------------

my $prompt = '{"prompt":[1,403,407],"max_tokens":2,"stream":true}';
my $stream = $server->exchange(LlmServer::raw_post('/v1/completions', $prompt, 'Connection: close'));
my ($head, $body) = split /\r\n\r\n/, $stream, 2;
like $head,
    qr/\AHTTP\/1\.1\ 200\ OK\r\n
       content-type:\ text\/event-stream;\ charset=utf-8\r\n
       transfer-encoding:\ chunked\r\n
       ${date}connection:\ close\r\n${id}
       x-llmserve-prefix-hash:\ [0-9a-f]{16}\r\n
       cache-control:\ no-cache\r\n
       x-accel-buffering:\ no\z/x, 'the head of a stream';

my @chunks;
while ($body =~ s/\A([0-9a-f]+)\r\n//) {
    my $length = hex $1;
    push @chunks, substr($body, 0, $length, '');
    last unless $body =~ s/\A\r\n//;
}
is $body,       '', 'the chunks are whole';
is $chunks[-1], '', 'and the last is empty';
my $event = qr/\Adata: \{"id":"cmpl-[0-9a-f]{32}","object":"text_completion","created":\d+,"model":"fake\/model","choices":\[\{"index":0,"text":"([^"]*)","logprobs":null,"finish_reason":(null|"length"),"stop_reason":null\}\],"system_fingerprint":"fp_[0-9a-f]{16}"\}\n\n\z/;
like $chunks[0], $event, 'an event is one data line and a blank line';
like $chunks[1], $event, 'the last token has its own';
like $chunks[1], qr/"finish_reason":"length"/, 'which has the finish reason';
is $chunks[2], "data: [DONE]\n\n", 'then [DONE]';
is scalar @chunks, 4, 'and nothing else';

my $old = $server->exchange("POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: "
        . length($prompt) . "\r\n\r\n$prompt");
like $old, qr/\AHTTP\/1\.1 200 OK\r\n(?!.*chunked).*connection: close\r\n.*\r\n\r\ndata: .*data: \[DONE\]\n\n\z/s,
    'a stream to HTTP/1.0 is not chunked and ends with the connection';

# ---- connections ----------------------------------------------------------------------

{
    my $socket = $server->connect;
    for my $n (1 .. 3) {
        syswrite $socket, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
        like LlmServer::read_until($socket, qr/\}\z/), qr/\AHTTP\/1\.1 200 OK.*\}\z/s, "request $n of a connection";
    }
}
{
    my $socket = $server->connect;
    syswrite $socket, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n" x 99
        . "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    my @answers = LlmServer::read_all($socket) =~ /(HTTP\/1\.1 200 OK)/g;
    is scalar @answers, 100, '100 requests sent ahead get 100 answers';
}
{
    my $socket = $server->connect;
    my $slow   = LlmServer::raw_post('/v1/completions', $prompt);
    my $end    = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    syswrite $socket, $slow . $slow . $end;
    my $all = LlmServer::read_all($socket);
    like $all, qr/\A(HTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream.*?0\r\n\r\n){2}HTTP\/1\.1 200 OK\r\ncontent-type: application\/json.*\z/s,
        'requests behind a stream wait for its end, in order';
}
{
    my $socket = $server->connect;
    for my $byte (split //, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":1}', 'Connection: close')) {
        syswrite $socket, $byte;
    }
    like LlmServer::read_all($socket), qr/\AHTTP\/1\.1 200 OK/, 'a request byte by byte';
}

# ---- bodies ---------------------------------------------------------------------------

my $chunked = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
like $server->exchange($chunked . "b;ext=1\r\n{\"prompt\":[\r\n1B\r\n1,403,407],\"max_tokens\":2 }\r\n0\r\nTrailer: x\r\n\r\n"),
    qr/\AHTTP\/1\.1 200 OK.*"finish_reason":"length"/s, 'a chunked body, with extension and trailer';
like $server->exchange($chunked . "zz\r\n"), qr/\AHTTP\/1\.1 400 Bad Request\r\n.*"type":"invalid_request_error"/s,
    'a malformed chunk size';
{
    my $socket = $server->connect;
    syswrite $socket, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 33\r\n\r\n";
    is LlmServer::read_until($socket, qr/\r\n\r\n/), "HTTP/1.1 100 Continue\r\n\r\n", '100 Continue is sent';
    syswrite $socket, '{"prompt":[1,403],"max_tokens":1}';
    like LlmServer::read_all($socket), qr/\AHTTP\/1\.1 200 OK/, 'and then the answer';
}

# ---- what is no request ---------------------------------------------------------------

my %malformed = (
    'no HTTP at all'                => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    'no version'                    => "GET /\r\n\r\n",
    'an unknown method'             => "FETCH / HTTP/1.1\r\nHost: x\r\n\r\n",
    'no Host'                       => "GET /version HTTP/1.1\r\n\r\n",
    'a bad escape'                  => "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    'an escaped NUL'                => "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    'two lengths'                   => "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    'a negative length'             => "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    'a huge length'                 => "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    'length and chunks'             => "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    'a space in a header name'      => "GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
    'a control character in a value' => "GET / HTTP/1.1\r\nHost: x\x01y\r\n\r\n",
    'an HTTP/2 preface'             => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    'two Hosts'                     => "GET /version HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    'a folded header'               => "GET /version HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    'an escaped letter'             => "GET /%76ersion HTTP/1.1\r\nHost: x\r\n\r\n",
    'TLS'                           => "\x16\x03\x01\x00\xa5\x01",
    'a raw NUL'                     => "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
);
for my $what (sort keys %malformed) {
    like $server->exchange($malformed{$what}),
        qr/\AHTTP\/1\.1 400 Bad Request\r\n.*connection: close\r\n.*\{"error":\{"message":"[^"]+","type":"invalid_request_error","param":null,"code":null\}\}\z/s,
        $what;
}
like $server->exchange("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    qr/\AHTTP\/1\.1 501 Not Implemented\r\n.*Transfer-Encoding must be/s, 'another transfer coding';
like $server->exchange("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), qr/speaks HTTP\/1\.1, not HTTP\/2/, 'a sentence for HTTP/2';
{
    my $socket = $server->connect;
    local $SIG{PIPE} = 'IGNORE';
    syswrite $socket, $chunked . '1;a=' . 'x' x 100_000 . "\r\na\r\n0\r\n\r\n";
    like LlmServer::read_all($socket), qr/\AHTTP\/1\.1 431 .*padding is too large/s, '100 kB of chunk extensions';
}
like $server->exchange("GET /version HTTP/2.0\r\nHost: x\r\n\r\n"), qr/\AHTTP\/1\.1 400 /, 'another version';
like $server->exchange("GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"),
    qr/\AHTTP\/1\.1 200 /, 'an offer to upgrade is ignored';
like $server->exchange("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"), qr/\AHTTP\/1\.1 40[045] /, 'CONNECT is no way through';

# ---- paths ----------------------------------------------------------------------------

my $lost = $server->get('/nowhere');
is $lost->{status}, 404, 'an unknown path';
is decode_json($lost->{content})->{error}{code}, 'not_found', 'in the shape of errors';
$lost = $server->exchange("GET /%ff%fe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
like $lost, qr/"message":"GET \/\xef\xbf\xbd\xef\xbf\xbd: there is no such path"/, 'one that is no UTF-8';
like $server->exchange("OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), qr/\AHTTP\/1\.1 200 OK\r\ncontent-length: 0\r\n.*allow: GET, HEAD\r\n/s,
    'OPTIONS says what there is';
is $server->request('OPTIONS', '/nowhere')->{status}, 404, '  and what is not';
my $wrong = $server->get('/v1/completions');
is $wrong->{status}, 405, 'a wrong method';
is $wrong->{headers}{allow}, 'POST', 'Allow says which is right';
is $server->request('DELETE', '/v1/models')->{headers}{allow}, 'GET, HEAD', 'HEAD is right where GET is';

ok $server->metric_becomes('llmserve_http_connections', 1), 'no connection is left but ours';
is $server->stop, 0, 'the server ends well';
done_testing;
