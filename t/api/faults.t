#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Misbehaving clients: thousands of idle connections, slow requests, floods of headers,
# malformed chunks, connections cut anywhere. Other clients are not affected, and all
# counters return to zero.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use IO::Select;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;

# More files than a shell usually allows; the server inherits it.
if (!$ENV{LLS_TEST_FILES}) {
    $ENV{LLS_TEST_FILES} = 1;
    exec 'sh', '-c', 'ulimit -n 8192 2>/dev/null || ulimit -n $(ulimit -Hn); exec "$0" "$1"', $^X, $0;
}

my $server = LlmServer->fake(period => 5);
my $ask    = LlmServer::raw_post('/v1/completions', '{"prompt":[1,403,407],"max_tokens":20,"stream":true}', 'Connection: close');

# A client that behaves gets all of its answer.
sub served_ok {
    my ($name) = @_;
    my $all = $server->exchange($ask);
    my $tokens = () = $all =~ /"text":" /g;
    is $tokens, 20, "$name: another client is served";
    return;
}

sub nothing_left {
    my ($name) = @_;
    ok $server->metric_becomes('llmserve_http_connections', 1), "$name: every connection is closed";
    ok $server->metric_becomes('llmserve_generations_live', 0), '  and no request is left';
    return;
}

sub reset_socket { my ($socket) = @_; setsockopt $socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0); close $socket; return }

# ---- 2,000 idle connections -----------------------------------------------------------
{
    my @idle = map { $server->connect } 1 .. 2000;
    is $server->metric('llmserve_http_connections'), 2001, '2,000 idle connections';
    syswrite $_, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n" for @idle[0 .. 999];
    LlmServer::read_until($_, qr/\}\z/) for @idle[0 .. 999];
    served_ok('idle');
    reset_socket($_) for @idle[0 .. 499];
    close $_ for @idle;
    nothing_left('idle');
}

# ---- requests that trickle ------------------------------------------------------------
{
    my @slow = map { $server->connect } 1 .. 200;
    for my $byte (split //, "POST /v1/comp") {
        syswrite $_, $byte for @slow;
    }
    served_ok('trickle');
    close $_ for @slow;
    nothing_left('trickle');
}

# ---- floods of headers ----------------------------------------------------------------
{
    my $flood = "GET / HTTP/1.1\r\nHost: x\r\n" . "X-Flood: aaaaaaaaaaaaaaaa\r\n" x 20000;
    for my $n (1 .. 20) {
        my $socket = $server->connect;
        local $SIG{PIPE} = 'IGNORE';
        syswrite $socket, $flood;
        like LlmServer::read_until($socket, qr/\r\n\r\n/), qr/\AHTTP\/1\.1 431 /, 'a flood of headers' if $n == 1;
        reset_socket($socket);
    }
    served_ok('flood');
    nothing_left('flood');
}

# ---- bodies that are no chunks --------------------------------------------------------
my $head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
my %chunks = (
    'no number'            => "x\r\n",
    'a negative number'    => "-1\r\n",
    'a huge number'        => "fffffffffffffffff\r\n",
    'more than there is'   => "ffffffff\r\nab",
    'no line end'          => '5',
    'data too long'        => "2\r\nabc\r\n0\r\n\r\n",
    'data too short'       => "4\r\nab\r\n0\r\n\r\n",
    'a bare line feed'     => "2\nab\n0\n\n",
    'spaces before'        => " 2\r\nab\r\n0\r\n\r\n",
    'a sign'               => "+2\r\nab\r\n0\r\n\r\n",
    'hex with a prefix'    => "0x2\r\nab\r\n0\r\n\r\n",
    'a NUL'                => "2\0\r\nab\r\n0\r\n\r\n",
    'a bad trailer'        => "2\r\n{}\r\n0\r\nbad trailer\r\n\r\n",
    'binary'               => join('', map { chr } 0 .. 255),
    'TLS to a plain port'  => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
);
for my $what (sort keys %chunks) {
    my $socket = $server->connect;
    syswrite $socket, $head . $chunks{$what};
    shutdown $socket, 1;
    unlike LlmServer::read_all($socket), qr/ 200 OK|<timeout>/, "chunks: $what";
}
served_ok('chunks');
nothing_left('chunks');

# ---- sockets cut anywhere -------------------------------------------------------------
srand 1;
for my $n (1 .. 300) {
    my $socket = $server->connect;
    my $cut    = int rand length $ask;
    syswrite $socket, substr $ask, 0, $n % 3 ? $cut : length $ask;
    sysread $socket, my $some, 1 + int rand 400 if $n % 3 == 0;
    if ($n % 2) { reset_socket($socket) } else { close $socket }
}
served_ok('cut');
nothing_left('cut');
is $server->stop, 0, 'the server ends well';
done_testing;
