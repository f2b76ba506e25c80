#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [models]: an upload goes through the router as it arrives. It is never held as a whole, waits for its model, is refused
# before its body is read if its head says enough, and ends with its client and its process, or its time. A stopped process
# (SIGSTOP) stands for a slow one.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use Digest::SHA;
use IO::Select;
use JSON::PP;
use LlmServer;
use Test::More;
use Time::HiRes;

plan skip_all => $_ for Batches::missing();

my $PIECE   = 1 << 20;
my $MIB     = $ENV{LLS_UPLOAD_MIB} // 64;    # of the large file
my $GROWTH  = LlmServer::sanitized() ? 1024 : 8; # MiB that a router may need for it; a sanitizer keeps what is freed
my $folder  = File::Temp->newdir;
my $stories = LlmServer::source('t/data/models/stories260K');
mkdir "$folder/broken";
LlmServer::write_file("$folder/broken/config.json", '{"model_type": "none"}');
my $server = LlmServer->serve("state = $folder/state\nmax_body = 64KiB\nmax_upload = 512MiB\n[engine]\ndevice = cpu\nthreads = 1\npin = false\n"
        . "[cache]\ndevice_memory = 8MiB\n[models]\nchat = $stories\nbroken = $folder/broken\nunload_after = 0\n");

my $begin = "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
    . "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n";
my $end = "\r\n--x--\r\n";
sub status { my ($text) = @_; return $text =~ m{\AHTTP/1.1 (\d+)} ? $1 : "none: $text" }

# Sends the head of an upload, whose body has so many bytes; chunked if that is unknown.
sub begin {
    my ($model, $bytes, @headers) = @_;
    my $socket = $server->connect;
    my $length = defined $bytes ? "Content-Length: $bytes" : 'Transfer-Encoding: chunked';
    print {$socket} join "\r\n", "POST /v1/files?model=$model HTTP/1.1", 'Host: localhost', 'Connection: close',
        'Content-Type: multipart/form-data; boundary=x', $length, @headers, '', '';
    return $socket;
}

sub small { my ($model, $content) = @_; my $all = $begin . $content . $end; my $socket = begin($model, length $all); print {$socket} $all; return $socket }
sub grown { return LlmServer::read_file("/proc/$server->{pid}/status") =~ /^VmHWM:\s+(\d+) kB/m ? $1 / 1024 : die 'no VmHWM' }
sub resident { return LlmServer::read_file("/proc/$server->{pid}/status") =~ /^VmRSS:\s+(\d+) kB/m ? $1 / 1024 : die 'no VmRSS' }
sub pid_of { return decode_json($server->get('/admin/status')->{content})->{models}{chat}{pid} }
sub under_way { my ($n) = @_; return $server->metric_becomes('llmserve_model_requests{model_name="chat"}', $n) }

# ---- the model is loaded for it ----------------------------------------------------------

my $socket = begin('chat', length($begin . $end) + 2, 'Expect: 100-continue');
like LlmServer::read_until($socket, qr/\r\n\r\n/), qr{\AHTTP/1.1 100 }, 'a client that waits for 100';
print {$socket} $begin, '{}', $end;
is status(LlmServer::read_all($socket)), 200, '  its file is stored by a model that is loaded for it' or diag $server->log;

# ---- a large file ------------------------------------------------------------------------

my ($piece, $sha, $before) = (join('', map { chr 33 + $_ % 90 } 1 .. $PIECE), Digest::SHA->new(256), grown());
$socket = begin('chat', length($begin . $end) + $MIB * $PIECE);
print {$socket} $begin;
for (1 .. $MIB) {
    print {$socket} $piece;
    $sha->add($piece);
}
print {$socket} $end;
my $answer = LlmServer::read_all($socket);
is status($answer), 200, "$MIB MiB";
my $grew = grown() - $before;
note sprintf 'the router grew by %.1f MiB', $grew;
cmp_ok $grew, '<', $GROWTH, '  do not take them in the router';
my ($id) = $answer =~ /"id":"([^"]+)"/;
my $content = $server->get("/v1/files/$id/content")->{content};
is length $content, $MIB * $PIECE, '  all of them';
is Digest::SHA::sha256_hex($content), $sha->hexdigest, '  as they were sent';
like $answer, qr/\r\nx-request-id: (\S+)\r\n(?!.*x-request-id)/s, '  the answer has one id';
my ($named) = $answer =~ /\r\nx-request-id: (\S+)/;
my $chunked = begin('chat', undef, 'X-Request-Id: of-mine');
for my $part ($begin, '{}', $end) { printf {$chunked} "%x\r\n%s\r\n", length $part, $part }
print {$chunked} "0\r\n\r\n";
$answer = LlmServer::read_all($chunked);
is status($answer), 200, 'a file of unknown length';
like $answer, qr/\r\nx-request-id: of-mine\r\n/, '  with an id of its own';

# ---- a process that does not read ---------------------------------------------------------

kill 'STOP', my $pid = pid_of();
$before = grown();
$socket = begin('chat', length($begin . $end) + $MIB * $PIECE);
print {$socket} $begin;
$socket->blocking(0);
my ($sent, $writable) = (0, IO::Select->new($socket));
while ($sent < $MIB * $PIECE && $writable->can_write(0.5)) {
    $sent += syswrite($socket, $piece, $PIECE - $sent % $PIECE, $sent % $PIECE) // 0;
}
cmp_ok $sent, '<', $MIB * $PIECE, 'a process that reads nothing holds its client up';
cmp_ok grown() - $before, '<', $GROWTH, '  and not in the router';
is $server->get('/v1/models')->{status}, 200, '  which serves others';
kill 'CONT', $pid;
$socket->blocking(1);
while ($sent < $MIB * $PIECE) {
    $sent += syswrite($socket, $piece, $PIECE - $sent % $PIECE, $sent % $PIECE) // die $!;
}
print {$socket} $end;
is status(LlmServer::read_all($socket)), 200, '  until it reads on';

# Chunks of a byte: it is their memory that counts, which is far more than their bytes.
SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if LlmServer::sanitized();
    kill 'STOP', $pid;
    $before = resident();
    $socket = begin('chat', undef);
    $socket->blocking(0);
    my $chunks = "1\r\nx\r\n" x 10_000;
    ($sent, $writable) = (0, IO::Select->new($socket));
    while ($sent < 500 * length $chunks && $writable->can_write(0.5)) {
        $sent += syswrite($socket, $chunks, length($chunks) - $sent % length $chunks, $sent % length $chunks) // 0;
    }
    cmp_ok resident() - $before, '<', $GROWTH, 'chunks of a byte take no more';
    close $socket;
    kill 'CONT', $pid;
    ok under_way(0), '  and end with their client';
}

# ---- refusals -----------------------------------------------------------------------------

$socket = begin('none', 1 << 28);
is status(LlmServer::read_until($socket, qr/\r\n\r\n/)), 404, 'an unknown model is refused by the head';
$socket = begin('chat', (512 << 20) + 1);
is status(LlmServer::read_until($socket, qr/\r\n\r\n/)), 413, '  and so is a body beyond max_upload';
$answer = $server->request('POST', '/v1/files?model=chat', ($begin =~ s/batch/other/r) . '{}' . $end, { 'content-type' => 'multipart/form-data; boundary=x' });
is $answer->{status}, 400, "the process's refusal is passed on";
like $answer->{content}, qr/'purpose' must be/, '  with its words';
is $server->request('POST', '/v1/files?model=chat', undef, {})->{status}, 400, 'a form without a body';
$socket = small('broken', '{}');
is status(LlmServer::read_all($socket)), 503, 'a model that cannot be loaded';
$socket = small('broken', '{}');
is status(LlmServer::read_all($socket)), 503, '  nor again';

# ---- clients and processes that leave ------------------------------------------------------

$socket = begin('chat', 1 << 20);
print {$socket} $begin, 'x' x 1000;
ok under_way(1), 'an upload under way';
close $socket;
ok under_way(0), '  ends with its client';
$socket = begin('chat', length($begin . $end) + 2000);
print {$socket} $begin, 'x' x 1000;
ok under_way(1), 'another';
kill 'KILL', pid_of();
ok $server->log_becomes(qr/chat: its process was ended/), '  whose process dies';
print {$socket} 'x' x 1000, $end;
is status(LlmServer::read_all($socket)), 502, '  gets an error at the end of its body';
is status(LlmServer::read_all(small('chat', '{}'))), 200, '  and the next one is stored';
my @names = map { $_->{bytes} } @{ decode_json($server->get('/v1/files?model=chat')->{content})->{data} };
is_deeply [sort { $a <=> $b } @names], [2, 2, 2, ($MIB * $PIECE) x 2], 'the files are those that were complete';
is $server->stop, 0, 'the server ends well' or diag $server->log;

# ---- its model waits for room for longer than read_timeout ----------------------------------

$server = LlmServer->serve("state = $folder/state\nread_timeout = 1s\n[engine]\ndevice = cpu\nthreads = 1\npin = false\n"
        . "[cache]\ndevice_memory = 8MiB\n[models]\nchat = $stories\nother = $stories\nunload_after = 0\nmax_loaded = 1\n");
is $server->post('/v1/completions', { model => 'chat', prompt => 'Once', max_tokens => 1 })->{status}, 200, 'one model at a time';
kill 'STOP', $pid = pid_of();
my $busy = $server->connect;
print {$busy} LlmServer::raw_post('/v1/completions', '{"model": "chat", "prompt": "Once", "max_tokens": 1}', 'Content-Type: application/json', 'Connection: close');
ok under_way(1), '  which is busy';
$socket = begin('other', length($begin . $end) + 2);
ok $server->metric_becomes('llmserve_model_requests_waiting{model_name="other"}', 1), '  an upload waits for room';
print {$socket} $begin, '{}', $end;
Time::HiRes::sleep(1.6);    # a connection that is read would be closed by now
kill 'CONT', $pid;
is status(LlmServer::read_all($busy)), 200, '  for as long as it takes';
is status(LlmServer::read_all($socket)), 200, '  and is stored then';
is $server->stop, 0, 'the server ends well' or diag $server->log;

# ---- its client never sends it: it waits no longer than a load may take ----------------------

my $ini = "state = $folder/state\n[engine]\ndevice = cpu\nthreads = 1\npin = false\n"
    . "[cache]\ndevice_memory = 8MiB\n[models]\nchat = $stories\nother = $stories\nunload_after = 0\nmax_loaded = 1\n";
$server = LlmServer->serve($ini);
is $server->post('/v1/completions', { model => 'chat', prompt => 'Once', max_tokens => 1 })->{status}, 200, 'one model at a time';
$server->configure("${ini}load_timeout = 1s\n");
is $server->post('/admin/reload')->{status}, 200, '  and a load may take 1 s from now on';
kill 'STOP', $pid = pid_of();
$busy = $server->connect;
print {$busy} LlmServer::raw_post('/v1/completions', '{"model": "chat", "prompt": "Once", "max_tokens": 1}', 'Content-Type: application/json', 'Connection: close');
ok under_way(1), '  it is busy';
$socket = begin('other', length($begin . $end) + 2);
ok $server->metric_becomes('llmserve_model_requests_waiting{model_name="other"}', 1), 'an upload waits for room';
ok $server->metric_becomes('llmserve_model_requests_waiting{model_name="other"}', 0), '  not for ever, though its client is silent';
print {$socket} $begin, '{}', $end;
like LlmServer::read_all($socket), qr{\AHTTP/1.1 504 .*not loaded within the 1000 ms}s, '  and says so';
kill 'CONT', $pid;
is status(LlmServer::read_all($busy)), 200, '  the other one goes on';
is $server->stop, 0, 'the server ends well' or diag $server->log;
done_testing;
