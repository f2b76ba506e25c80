#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The log's line for requests that reach no model, for refused ones or for all: the
# contents of the line, and what it must not contain.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;
use Time::HiRes ();

my $stories = LlmServer::source('t/data/models/stories260K');
my $model   = "[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\nmax_context = 64\n";
my $folder  = File::Temp->newdir;
my $path    = '/v1/completions';
LlmServer::write_file("$folder/keys", "sk-secret ann\n");

# The lines of requests in a JSON log.
sub lines { my ($server) = @_; return grep { $_->{where} eq 'http' } map { decode_json($_) } split /\n/, $server->log }

# ---- what is refused ------------------------------------------------------------------
{
    my $server = LlmServer->serve("log_format = json\nread_timeout = 300ms\nmax_body = 2000\nmax_header = 2000\napi_keys = $folder/keys\n$model");
    my %key    = (authorization => 'Bearer sk-secret');
    my $slow   = $server->connect;
    syswrite $slow, "GET /version HTTP/1.1\r\nHo";
    $server->get('/v1/models?api_key=sk-guess', { 'x-request-id' => 'r-401', authorization => 'Bearer sk-guess' });
    $server->get('/nowhere', { 'x-request-id' => 'r-404', %key });
    $server->get($path, { 'x-request-id' => 'r-405', %key });
    $server->post('/tokenize', '{', { 'x-request-id' => 'r-400', %key });
    $server->post($path, 'x', { 'x-request-id' => 'r-415', 'content-type' => 'text/plain', %key });
    $server->post($path, '{}', { 'x-request-id' => 'r-403', origin => 'http://evil.example', %key });
    $server->get("/a%0Ainfo%1B[2J%FF", { 'x-request-id' => 'r-odd', %key });
    $server->exchange("POST $path HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-secret\r\nContent-Type: application/json\r\nContent-Length: 2001\r\n\r\n");
    $server->exchange("GET /" . 'x' x 3000 . " HTTP/1.1\r\nHost: x\r\n\r\n");
    $server->exchange("NONSENSE\r\n\r\n");
    LlmServer::read_all($slow);
    $server->post($path, { prompt => 1 }, { 'x-request-id' => 'r-model', %key });
    $server->get('/health');
    is $server->post('/admin/drain', undef, { 'x-request-id' => 'r-drain', %key })->{status}, 202, 'drained';
    is $server->wait_for_end, 3, 'the server ends, as one that was drained';

    my @lines = lines($server);
    my %by    = map { $_->{request} => $_ } @lines;
    for my $status (400, 401, 403, 404, 405, 415) {
        my $line = $by{"r-$status"} // {};
        is_deeply [@$line{qw(level status client)}], ['info', $status, '127.0.0.1'], "a $status";
        like $line->{why}, qr/\w/, '  with its reason';
        cmp_ok $line->{ms} // -1, '>=', 0, '  and its time';
        cmp_ok $line->{bytes} // 0, '>', 0, '  and its size';
    }
    is_deeply [@{ $by{'r-404'} // {} }{qw(method path why)}], ['GET', '/nowhere', 'GET /nowhere: there is no such path'], 'with method and path';
    is(($by{'r-401'} // {})->{path}, '/v1/models', 'without the query');
    is(($by{'r-odd'} // {})->{path}, "/a\ninfo\e[2J\x{fffd}", 'whatever it is');
    is_deeply [@{ $by{'r-drain'} // {} }{qw(method path status)}], ['POST', '/admin/drain', 202], 'what is done to the server';
    my %malformed = map { $_->{status} => $_ } grep { $_->{request} eq '-' } @lines;
    is_deeply [sort keys %malformed], [400, 408, 413, 431], 'what is no request';
    like $malformed{413}{why}, qr/request body is too large/, '  with its reason';
    is_deeply [@{ $malformed{413} }{qw(method path)}], ['POST', $path], '  and as much as is known';
    is $malformed{408}{path}, undef, '  or not';
    ok !exists $by{'r-model'}, 'those to the model have their own line';
    is scalar(grep { ($_->{path} // '') eq '/health' } @lines), 0, 'what is well has none';
    unlike $server->log, qr/sk-(?:secret|guess)/, 'and no key is in any';
    like $server->log, qr/\/admin\/drain, asked for by request r-drain:/, 'which is named where the drain is said';
}

# ---- as text, and floods --------------------------------------------------------------
{
    my $server = LlmServer->serve($model);
    $server->get('/a%0Ab', { 'x-request-id' => 'mine-1' });
    my $n      = 2000;
    my $socket = $server->connect;
    for my $part (1 .. 20) {
        syswrite $socket, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" x ($n / 20);
        my $answers = '';
        $answers .= LlmServer::read_until($socket, qr/\}\}\z/) while (() = $answers =~ /\}\}/g) < $n / 20;
    }
    Time::HiRes::sleep(1.1);    # a second is counted in seconds
    $server->get('/nowhere', { 'x-request-id' => 'mine-2' });
    is $server->stop, 0, 'the server ends well';
    like $server->log, qr{^\S+ info    http: mine-1: client 127\.0\.0\.1, status 404, ms [\d.]+, bytes \d+, method GET, path /a\?b, why GET /a\?b: there is no such path$}m, 'a line as text';
    my $log    = $server->log;
    my $lines  = () = $log =~ m{path /nowhere}g;
    my $unsaid = 0;
    $unsaid += $1 while $log =~ /(\d+) more requests were refused, too many to log/g;
    cmp_ok $lines, '<', $n, 'a flood is not logged line by line';
    is $lines + $unsaid, $n + 1, '  but counted';
    like $server->log, qr/mine-2: client/, '  and what comes later is logged again';
}

# ---- connections, of which there is no request -----------------------------------------
{
    my $server = LlmServer->serve("max_connections = 3\n$model");
    my @held   = map { $server->connect } 1 .. 3;
    syswrite $_, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n" for @held;
    LlmServer::read_until($_, qr/\}\z/) for @held;
    is LlmServer::read_all($server->connect), '', 'a connection beyond max_connections is closed';
    ok $server->log_becomes(qr/warning http: 1 connections were closed at once: \[server\] max_connections = 3 are open/), '  which the log tells';
    LlmServer::read_all($server->connect) for 1 .. 5;
    Time::HiRes::sleep(2.5);
    is scalar(() = $server->log =~ /closed at once/g), 1, '  once a minute';
}

# ---- all, or nothing ------------------------------------------------------------------
{
    my $server = LlmServer->serve("access_log = all\nlog_format = json\n$model");
    $server->get('/health', { 'x-request-id' => 'r-1' });
    $server->post($path, { prompt => 'Once', max_tokens => 1 }, { 'x-request-id' => 'r-2' });
    $server->configure("access_log = off\nlog_format = json\n$model");
    $server->post('/admin/reload', undef);
    $server->get('/nowhere', { 'x-request-id' => 'r-3' });
    is $server->stop, 0, 'the server ends well';
    my %by = map { $_->{request} => $_ } lines($server);
    is_deeply [@{ $by{'r-1'} // {} }{qw(path status)}], ['/health', 200], 'all';
    is_deeply [@{ $by{'r-2'} // {} }{qw(path status)}], [$path, 200], '  those to the model too';
    ok !exists $by{'r-3'}, 'none';
}
done_testing;
