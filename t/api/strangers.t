#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The memory that clients may use: a client without a key is refused as soon as the head of its request
# has arrived; all bodies together have a limit, and so has the parsed JSON.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use Test::More;
use Time::HiRes ();

my $stories = LlmServer::source('t/data/models/stories260K');
my $model   = "[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\nmax_context = 64\n";
my $folder  = File::Temp->newdir;
my $path    = '/v1/completions';
my @json    = ('Content-Type: application/json', 'Authorization: Bearer good');
$SIG{PIPE} = 'IGNORE';

sub head { my ($method, $where, @headers) = @_; return join("\r\n", "$method $where HTTP/1.1", 'Host: localhost', @headers, '', '') }
# The answer to a head whose body is never sent.
sub at_head { my ($server, @head) = @_; my $socket = $server->connect; syswrite $socket, head(@head); return LlmServer::read_all($socket) }
# Looks until so many bytes are held beside the heads of some requests.
sub holds {
    my ($server, $bytes, $name) = @_;
    my $held = 0;
    for my $try (1 .. 100 * $LlmServer::TIMEOUT) {
        $held = number($server, 'llmserve_http_held_bytes');
        return pass $name if $held >= $bytes && $held < $bytes + 2000;
        Time::HiRes::sleep(0.01);
    }
    return fail "$name: $held, not $bytes";
}
sub number { my ($server, $name) = @_; return $server->metric($name) // -1 }

# ---- the head -------------------------------------------------------------------------
{
    LlmServer::write_file("$folder/keys", "good\n");
    my $server = LlmServer->serve("api_keys = $folder/keys\nmax_body = 1MiB\n$model");
    my @large = ('Content-Length: 1000000', 'Content-Type: application/json');
    my %refused = (
        'no key'                       => [401, 'POST', $path, @large],
        'a wrong key'                  => [401, 'POST', $path, @large, 'Authorization: Bearer bad'],
        'no key, in chunks'            => [401, 'POST', $path, 'Transfer-Encoding: chunked'],
        'no key, before a body is sent' => [401, 'POST', $path, @large, 'Expect: 100-continue'],
        'no key for an upload'         => [401, 'POST', '/v1/files', 'Content-Length: 9', 'Content-Type: multipart/form-data; boundary=x'],
        'no key, and too large'        => [401, 'POST', $path, 'Content-Length: 99999999999'],
        'a page of the web'            => [403, 'POST', $path, @large, 'Origin: http://evil.example', $json[1]],
        'no admin'                     => [403, 'POST', '/admin/reload', @large, $json[1], 'Via: 1.1 x'],
        'no such path'                 => [404, 'POST', '/v1/nothing', @large, $json[1]],
        'another method'               => [405, 'PUT', $path, @large, $json[1]],
        'another type'                 => [415, 'POST', $path, 'Content-Length: 9', 'Content-Type: text/plain', $json[1]],
        'too large'                    => [413, 'POST', $path, 'Content-Length: 1048577', @json],
        'too large, after a question'  => [413, 'POST', $path, 'Content-Length: 1048577', 'Expect: 100-continue', @json],
        'a body that nobody reads'     => [413, 'GET', '/health', 'Content-Length: 1000000'],
    );
    for my $name (sort keys %refused) {
        my ($status, @head) = @{ $refused{$name} };
        my $answer = at_head($server, @head);
        like $answer, qr/\AHTTP\/1\.1 $status .*^connection: close\r$/ms, "$name: $status at the head";
        like $answer, qr/^www-authenticate: Bearer\r$/m, '  says how' if $status == 401;
        like $answer, qr/^allow: POST\r$/m, '  says which' if $status == 405;
    }
    like $server->exchange(head('POST', '/v1/nothing', 'Host: x')), qr/ 400 .*more than one Host/s, 'a malformed head is one all the same';
    my $kept = $server->connect;
    for my $i (1, 2) {
        syswrite $kept, head('GET', '/v1/models');
        like LlmServer::read_until($kept, qr/\r\n\r\n.*\}/s), qr/ 401 /, "without a body a refused client may ask again ($i)";
    }
    my $asks = $server->connect;
    my $body = '{"prompt":"Once","max_tokens":1}';
    syswrite $asks, head('POST', $path, @json, 'Connection: close', 'Expect: 100-continue', 'Content-Length: ' . length $body);
    is LlmServer::read_until($asks, qr/\r\n\r\n/), "HTTP/1.1 100 Continue\r\n\r\n", 'who may ask is told to go on';
    syswrite $asks, $body;
    like LlmServer::read_all($asks), qr/ 200 OK/, '  and answered';

    # Eight bodies without a key: the answer is read after all was sent, and nothing is held.
    my @sockets = map { $server->connect } 1 .. 8;
    for my $socket (@sockets) {
        syswrite $socket, head('POST', $path, 'Content-Type: application/json', 'Content-Length: ' . (1 << 20));
        syswrite $socket, 'x' x 65536 for 1 .. 15;
    }
    holds($server, 0, 'nothing is held of bodies without a key');
    syswrite $_, 'x' x 65536 for @sockets;
    like LlmServer::read_all($_), qr/ 401 /, '  whose clients read why' for @sockets;
    is $server->stop, 0, 'the server ends well';
}

# ---- the sum --------------------------------------------------------------------------
{
    my $server = LlmServer->serve("max_body = 600KiB\nmax_bodies = 1MiB\n$model");
    my @held = map { $server->connect } 1, 2;
    for my $i (0, 1) {
        syswrite $held[$i], head('POST', $path, "Content-Length: 400000", $json[0]);
        syswrite $held[$i], ' ' x 40_000 for 1 .. 9;
    }
    holds($server, 2 * 360_000, 'bytes of bodies are counted as they come');
    my $crowded = qr/\AHTTP\/1\.1 503 .*^retry-after: 1\r\n.*max_bodies/ms;
    like at_head($server, 'POST', $path, 'Content-Length: 400000', $json[0]), $crowded, 'a third is refused at its head';
    my $chunks = sprintf("%x\r\n%s\r\n", 40_000, ' ' x 40_000) x 10;
    like $server->exchange(head('POST', $path, 'Transfer-Encoding: chunked', $json[0]) . $chunks), $crowded, 'in chunks as soon as it is too much';
    is $server->post($path, { prompt => 'Once', max_tokens => 1 })->{status}, 200, 'small ones go on';
    is number($server, 'llmserve_http_crowded_total'), 2, '  and refusals are counted';
    syswrite $held[0], ' ' x 8000 . '{"prompt":"Once","max_tokens":1}' . ' ' x (32_000 - 32);
    like LlmServer::read_until($held[0], qr/\}\z/), qr/ 200 OK/, 'one that is complete is answered';
    close $held[1];
    holds($server, 0, 'and nothing is held when all are over');
    is $server->stop, 0, 'the server ends well';
}

# ---- trees ----------------------------------------------------------------------------
{
    my $server = LlmServer->serve($model);
    my $n      = 3 << 20;
    my %costly = (
        'empty arrays'       => '[],' x ($n / 3) . '[]',
        'empty objects'      => '{},' x ($n / 3) . '{}',
        'arrays in arrays'   => '[[[[[]]]]],' x ($n / 11) . '1',
        'members'            => join(',', map { "{\"$_\":1}" } 1 .. $n / 12),
        'digits'             => '1,' x ($n / 2) . '1',
        'empty strings'      => '"",' x ($n / 3) . '""',
    );
    for my $name (sort keys %costly) {
        my $body = "{\"prompt\":\"Once\",\"max_tokens\":1,\"metadata\":[$costly{$name}]}";
        my $answer = $server->post($path, $body);
        is_deeply [$answer->{status}, $answer->{json}{error}{code}], [413, 'too_many_values'], "3 MiB of $name";
        $answer = $server->post('/v1/chat/completions', { messages => [
            { role => 'assistant', content => '', tool_calls => [{ id => 'a', type => 'function', function => { name => 'f', arguments => "[$costly{$name}]" } }] },
            { role => 'user', content => 'Hi' } ] });
        is_deeply [$answer->{status}, $answer->{json}{error}{code}], [413, 'too_many_values'], '  as the arguments of a call';
    }
    like $server->post($path, '[' . $costly{'empty arrays'} . ']')->{json}{error}{message}, qr/is not read: it has so many small values that they would take \d+ MiB of memory/, 'the message says why';
    is $server->post($path, '{"prompt":"Once","max_tokens":1,"user":"' . '[]{},:' x 100_000 . '"}')->{status}, 200, 'a long text may have any signs';
    is $server->post($path, { prompt => [map { 1 + $_ % 300 } 1 .. 100_000], max_tokens => 1 })->{json}{error}{code}, 'context_length_exceeded', 'a long prompt of tokens is read';
    is $server->stop, 0, 'the server ends well';
}

# ---- files ----------------------------------------------------------------------------
{
    umask 0022;
    my $server = LlmServer->serve("decisions = $folder/decisions\n$model");
    is $server->post($path, { prompt => 'Once', max_tokens => 1 })->{status}, 200, 'a request that is recorded';
    is sprintf('%o', (stat "$folder/decisions")[2] & 0777), '600', '  for nobody but its owner';

    my $many = { set => { 'scheduler.fcfs' => { map { ("k$_" => 1) } 1 .. 32_000 } } };
    my $answer = $server->post('/admin/reload', $many);
    is_deeply [$answer->{status}, $answer->{json}{error}{code}], [413, 'too_many_settings'], 'a reload sets no more than there is to set';
    is $server->post('/admin/reload', { set => { 'scheduler.fcfs' => { map { ("k$_" => 1) } 1 .. 400 } } })->{json}{error}{code}, 'reload_refused', '  and as many are looked at';
    is $server->stop, 0, 'the server ends well';
}
done_testing;
