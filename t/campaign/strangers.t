#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Memory of a server that strangers send to: bodies without a key, bodies that never end, JSON of many
# small values, heads of many connections, answers that nobody reads. Each figure is what the resident
# memory grew by at its peak, and what of it was given back. The server has a fresh process for each.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use LlmServer;
use File::Temp;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'sanitizers take memory of their own' if LlmServer::sanitized() || LlmServer::under();
my $end    = Campaign::begin();
my $demo   = LlmServer::source('share/demo-model');
my $folder = File::Temp->newdir;
my $path   = '/v1/completions';
my $mib    = 1 << 20;
LlmServer::write_file("$folder/keys", "good\n");
$SIG{PIPE} = 'IGNORE';

sub server { return LlmServer->serve(join('', @_) . "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\nmax_context = 512\n[cache]\ndevice_memory = 16MiB\n") }
sub kib { my ($server, $name) = @_; return LlmServer::read_file("/proc/$server->{pid}/status") =~ /^$name:\s+(\d+)/m ? $1 : 0 }
sub head { my ($bytes, @headers) = @_; return join("\r\n", "POST $path HTTP/1.1", 'Host: localhost', "Content-Length: $bytes", 'Content-Type: application/json', @headers, '', '') }
sub send_all {
    my ($socket, $text) = @_;
    for (my $at = 0; $at < length $text;) { my $n = syswrite $socket, $text, 65536, $at or last; $at += $n }
    return;
}

# Does it, and tells by how many bytes the memory grew, and by how many it stayed larger.
sub grows {
    my ($name, $server, $sent, $do) = @_;
    $server->get('/health') for 1 .. 3;
    my $before = kib($server, 'VmRSS');
    LlmServer::write_file("/proc/$server->{pid}/clear_refs", "5\n"); # VmHWM begins again
    $do->($server);
    my $peak = kib($server, 'VmHWM') - $before;
    sleep 0.5;
    my $left = kib($server, 'VmRSS') - $before;
    printf "# figure strangers: %s: %.1f MiB sent, grew by %.1f MiB at its peak (%.2f times), %.1f MiB after\n", $name, $sent / $mib, $peak / 1024, $peak * 1024 / $sent, $left / 1024;
    is $server->get('/health')->{status}, 200, "$name: it serves";
    is $server->stop, 0, '  and ends well';
    return ($peak * 1024, $left * 1024);
}

# N clients that each send this and read the answer.
sub at_once {
    my ($server, $n, $text) = @_;
    my @sockets = map { my $socket = $server->connect; my $pid = fork // die; if (!$pid) { send_all($socket, $text); LlmServer::read_until($socket, qr/\r\n\r\n/); POSIX::_exit(0) } $pid } 1 .. $n;
    waitpid $_, 0 for @sockets;
    return;
}

my ($peak, $left) = grows('8 bodies of 16 MiB without a key', server("api_keys = $folder/keys\n"), 128 * $mib,
    sub { at_once($_[0], 8, head(16 * $mib) . 'x' x (16 * $mib)) });
cmp_ok $peak, '<', 24 * $mib, '  grew by less than 24 MiB';

($peak, $left) = grows('64 bodies of 16 MiB that never end', server(), 64 * 16 * $mib, sub {
    my ($server) = @_;
    my @pids = map { my $pid = fork // die; if (!$pid) { my $socket = $server->connect; send_all($socket, head(16 * $mib) . 'x' x (15 * $mib)); sleep 2; POSIX::_exit(0) } $pid } 1 .. 64;
    waitpid $_, 0 for @pids;
});
cmp_ok $peak, '<', 320 * $mib, '  grew by less than max_bodies and a fifth';
cmp_ok $left, '<', 24 * $mib, '  gave it back';

my %values = ('[]' => '[],', '{}' => '{},', 'digits' => '1,', 'strings' => '"",', 'members' => '{"a":1},', 'nested' => '[' x 2000 . ']' x 2000 . ',');
for my $name (sort keys %values) {
    my $value = $values{$name};
    my $body = '{"prompt":"Once","max_tokens":1,"metadata":[' . $value x (16 * $mib / length($value) - 99) . '1]}';
    ($peak, $left) = grows("2 bodies of $name", server(), 2 * length $body, sub { at_once($_[0], 2, head(length $body, 'Connection: close') . $body) });
    cmp_ok $peak, '<', 6 * 2 * length $body, '  6 times their bytes at most';
    cmp_ok $left, '<', 24 * $mib, '  given back';
}

# The costliest that is still read.
my $body = '{"prompt":"Once","max_tokens":1,"metadata":[' . join(',', ('"' . 'y' x 15 . '"') x (16 * $mib / 18 - 99)) . ']}';
($peak, $left) = grows('4 bodies of short strings', server(), 4 * length $body, sub { at_once($_[0], 4, head(length $body, 'Connection: close') . $body) });
cmp_ok $peak, '<', 6 * 4 * length $body, '  6 times their bytes at most';
cmp_ok $left, '<', 24 * $mib, '  given back';

($peak, $left) = grows('1000 heads of 30 KiB that never end', server(), 1000 * 30 * 1024, sub {
    my ($server) = @_;
    my @sockets = map { $server->connect } 1 .. 1000;
    syswrite $_, "GET / HTTP/1.1\r\nHost: localhost\r\n" . join('', map { "a$_: " . 'x' x 1000 . "\r\n" } 1 .. 29) for @sockets;
    sleep 0.3;
});
cmp_ok $peak, '<', 80 * $mib, '  twice their bytes at most';

($peak, $left) = grows('2000 idle connections', server(), 2000 * 1024, sub { my ($server) = @_; my @sockets = map { $server->connect } 1 .. 2000; sleep 0.5 });
cmp_ok $peak, '<', 2000 * 8192, '  8 KiB each at most';

($peak, $left) = grows('200 clients that read no answer', server(), 200 * 64 * 1024, sub {
    my ($server) = @_;
    my $ask = "GET /console/ HTTP/1.1\r\nHost: localhost\r\n\r\n" . "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" x 1000;
    my @sockets = map { my $socket = $server->connect; setsockopt $socket, SOL_SOCKET, SO_RCVBUF, 2048; syswrite $socket, $ask; $socket } 1 .. 200;
    sleep 1;
});
cmp_ok $peak, '<', 64 * $mib, '  cost 320 KiB each at most';
done_testing;
