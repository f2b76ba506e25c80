#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [server] kv_events: which blocks of prefixes a server has, as a router reads it: by GET /admin/kv_events, and over
# ZeroMQ, of which this test speaks the wire format itself (ZMTP 3.0, rfc.zeromq.org/spec/23).
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use IO::Socket::UNIX;
use JSON::PP;
use LlmServer;
use Test::More;

my $BLOCK   = 16;
my $folder  = File::Temp->newdir;
my $stories = LlmServer::source('t/data/models/stories260K');
my $has_zmq = LlmServer::read_file(LlmServer::built('config.h')) =~ /^#define LLS_ZMQ 1/m;

sub ini {
    my ($front, $cache) = @_;
    return "$front\n[model]\npath = $stories\n[engine]\ndevice = cpu\nthreads = 1\npin = false\nmax_context = 256\n"
        . "[plugins]\nscheduler = fcfs\ncache = $cache\n[cache]\nblock_tokens = $BLOCK\ndevice_memory = 448KiB\nhost_memory = 1MiB\n";
}

sub prompt { my ($seed, $n) = @_; return [map { 3 + ($_ * $seed) % 200 } 1 .. $n] }
sub ask { my ($server, $prompt) = @_; return $server->post('/v1/completions', { prompt => $prompt, max_tokens => 1, temperature => 0 })->{status} }

# ---- msgpack ---------------------------------------------------------------------------
sub unpacked {
    my ($text) = @_;
    my $take = sub { my ($n) = @_; return substr $$text, 0, $n, '' };
    my $type = ord $take->(1);
    my $list = sub { my ($n) = @_; return [map { unpacked($text) } 1 .. $n] };
    return $type if $type < 0x80;
    return { @{ $list->(2 * ($type & 15)) } } if $type < 0x90;
    return $list->($type & 15) if $type < 0xa0;
    return $take->($type & 31) if $type < 0xc0;
    return undef if $type == 0xc0; ## no critic: a value
    return unpack 'd>', $take->(8) if $type == 0xcb;
    return unpack 'C',  $take->(1) if $type == 0xcc;
    return unpack 'n',  $take->(2) if $type == 0xcd;
    return unpack 'N',  $take->(4) if $type == 0xce;
    return unpack 'Q>', $take->(8) if $type == 0xcf;
    return $take->(ord $take->(1)) if $type == 0xd9;
    return $list->(unpack 'N', $take->(4)) if $type == 0xdd;
    die sprintf 'msgpack: type %02x', $type;
}

# ---- ZeroMQ ----------------------------------------------------------------------------
sub exactly {
    my ($socket, $n) = @_;
    my $text = '';
    local $SIG{ALRM} = sub { die "nothing came\n" };
    alarm $LlmServer::TIMEOUT;
    while (length $text < $n) {
        sysread($socket, $text, $n - length $text, length $text) or die "the socket was closed\n";
    }
    alarm 0;
    return $text;
}

sub frame { my ($flags, $text) = @_; return pack('CC', $flags, length $text) . $text }

# Flags and text of the next frame.
sub next_frame {
    my ($socket) = @_;
    my $flags = ord exactly($socket, 1);
    my $n = $flags & 2 ? unpack('Q>', exactly($socket, 8)) : ord exactly($socket, 1);
    return ($flags, exactly($socket, $n));
}

sub message {
    my ($socket) = @_;
    my @frames;
    while (1) {
        my ($flags, $text) = next_frame($socket);
        next if $flags & 4; # a command
        push @frames, $text;
        return @frames if !($flags & 1);
    }
}

sub zmq {
    my ($path, $type) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => $path) or die "$path: $!";
    syswrite $socket, pack 'C x8 C C C a20 C x31', 0xff, 0x7f, 3, 0, 'NULL', 0;
    exactly($socket, 64);
    syswrite $socket, frame(4, "\x05READY\x0bSocket-Type" . pack 'N/a*', $type);
    next_frame($socket);
    return $socket;
}

# All batches from a number on: their numbers and what they say.
sub replayed {
    my ($path, $from) = @_;
    my $socket = zmq($path, 'REQ');
    my @batches;
    syswrite $socket, "\x01\x00" . frame(0, pack 'Q>', $from);
    while (1) {
        my ($empty, $number, $payload) = message($socket);
        return @batches if $number eq "\xff" x 8;
        push @batches, [unpack('Q>', $number), unpacked(\$payload)];
    }
}

# ---- what a router does ----------------------------------------------------------------
# Follows events: the blocks of each medium; dies where one comes twice or leaves without being there.
sub follow {
    my ($there, @events) = @_;
    for my $event (@events) {
        my ($tag, $hashes) = @$event;
        my $medium = $tag eq 'BlockStored' ? $event->[6] : $event->[2];
        if ($tag eq 'AllBlocksCleared') { %$there = (); next }
        for my $hash (@$hashes) {
            my $is = exists $there->{$medium}{$hash};
            die "$hash: $tag of $medium, but it was " . ($is ? '' : 'not ') . "there\n" if $is != ($tag eq 'BlockRemoved');
            if ($is) { delete $there->{$medium}{$hash} }
            else     { $there->{$medium}{$hash} = 1 }
        }
    }
    return $there;
}

# ---- off, and refused ------------------------------------------------------------------
my $server = LlmServer->serve(ini('', 'paged'));
my $answer = $server->get('/admin/kv_events');
is_deeply [$answer->{status}, decode_json($answer->{content})->{error}{code}], [404, 'no_kv_events'], 'without the key there are none';
is $server->stop, 0;

# ---- the stream ------------------------------------------------------------------------
my ($pub, $replay) = map { "$folder/$_" } qw(pub replay);
# LeakSanitizer traces the process at its end, which seccomp refuses.
my $sandbox = LlmServer::sanitized() || LlmServer::under() ? 'off' : 'on';
my $sockets = $has_zmq ? "kv_events = ipc://$pub\nkv_events_replay = ipc://$replay\nkv_events_topic = kv\@here\@tiny\n" : "kv_events = stream\n";
$server = LlmServer->serve(ini("sandbox = $sandbox\n$sockets", 'tiered'));
my $stream = $server->connect;
print $stream "GET /admin/kv_events HTTP/1.1\r\nHost: localhost\r\n\r\n";
like LlmServer::read_until($stream, qr/\r\n\r\n/), qr{^HTTP/1\.1 200.*text/event-stream}s, 'a stream of events';
my $first = prompt(7, 40);
is ask($server, $first), 200, 'a prompt of 40 tokens';
my $text = LlmServer::read_until($stream, qr/data: .*\n\n/);
my ($data) = $text =~ /data: (.*)\n\n/;
my $batch = decode_json($data // '{}');
my $event = $batch->{events}[0];
is_deeply [@$batch{qw(seq data_parallel_rank)}], [0, 0], '  the first batch, of instance 0';
LlmServer::is_recent(int $batch->{ts}, '  just now');
is_deeply [@$event{qw(type parent_block_hash block_size medium lora_id)}], ['BlockStored', undef, $BLOCK, 'GPU', undef], '  two blocks came';
is_deeply $event->{token_ids}, [@$first[0 .. 31]], '  with their tokens';
is scalar(grep { /\A[0-9a-f]{16}\z/ } @{ $event->{block_hashes} }), 2, '  and hashes';

ask($server, [@$first, @{ prompt(11, 20) }]);
# the copies to the host of an idle server come between
$text = LlmServer::read_until($stream, qr/^data: .*"GPU".*\n\n/m);
($event) = grep { $_->{medium} eq 'GPU' } map { @{ decode_json($_)->{events} } } $text =~ /^data: (.*)\n\n/mg;
is $event->{parent_block_hash}, $batch->{events}[0]{block_hashes}[1], 'a longer prompt: the next block follows the second one';
is_deeply $event->{token_ids}, [@$first[32 .. 39], @{ prompt(11, 20) }[0 .. 7]], '  and has the tokens of both';

SKIP: {
    skip 'no ZeroMQ in this build', 1 if !$has_zmq;
    my $sub = zmq($pub, 'SUB');
    syswrite $sub, frame(0, "\x01kv\@here");
    my ($is_read, $seed) = ('', 12);
    vec($is_read, fileno $sub, 1) = 1;
    # a subscription takes a moment: until something comes
    while (!select(my $ready = $is_read, undef, undef, 0.05)) { ask($server, prompt($seed++, 90)) }
    ask($server, prompt($seed++, 100)) for 1 .. 30;
    my ($topic, $number, $payload) = message($sub);
    my $sent = unpacked(\$payload);
    is $topic, 'kv@here@tiny', 'a subscriber gets batches of the topic';
    my @all = replayed($replay, 0);
    is_deeply [map { $_->[0] } @all], [0 .. $#all], 'all batches again, without a gap';
    is_deeply $all[unpack 'Q>', $number][1], $sent, '  the one that the subscriber got is as it was';
    is_deeply [map { $_->[0] } replayed($replay, $#all)], [$#all], '  or from a number on';
    is sprintf('%016x', $all[0][1][1][0][1][0]), $batch->{events}[0]{block_hashes}[0], '  the hashes of both ways are equal';
    my $there = eval { follow({}, map { @{ $_->[1][1] } } @all) } // diag($@);
    cmp_ok scalar keys %{ $there->{GPU} }, '>', 0, 'a router that follows them sees blocks on the device';
    cmp_ok scalar keys %{ $there->{CPU} }, '>', 0, '  and on the host';
    my @removed = grep { $_->[0] eq 'BlockRemoved' } map { @{ $_->[1][1] } } @all;
    cmp_ok scalar @removed, '>', 0, '  others have left';
    my @unknown = grep { $_->[0] eq 'BlockStored' && @{ $_->[3] } != $BLOCK * @{ $_->[1] } } map { @{ $_->[1][1] } } @all;
    is scalar @unknown, 0, '  all have their tokens';

    # the manager stays, and finds nothing any more
    $server->configure(ini("sandbox = $sandbox\n$sockets", 'tiered') . "[cache.tiered]\nprefix_sharing = off\n");
    $server->signal('HUP');
    my $found;
    for (1 .. 100) { # as many events as a step sends
        ask($server, prompt(5, 40));
        @all = replayed($replay, 0);
        $found = eval { follow({}, map { @{ $_->[1][1] } } @all) } // diag($@);
        last if !grep { %$_ } values %$found;
    }
    is_deeply [map { scalar keys %$_ } values %$found], [0, 0], 'without prefix_sharing all blocks are removed';
    $there = $found;

    # another manager begins anew
    $server->configure(ini("sandbox = $sandbox\n$sockets", 'paged'));
    $server->signal('HUP');
    ok $server->log_becomes(qr/reload.*reload/s), 'another cache manager';
    my @after;
    for (1 .. 100) { # the reload is over before some of these
        ask($server, prompt(5, 40));
        @after = replayed($replay, scalar @all);
        last if grep { $_->[0] eq 'AllBlocksCleared' } map { @{ $_->[1][1] } } @after;
    }
    my $now = eval { follow($there, map { @{ $_->[1][1] } } @after) } // diag($@);
    is scalar keys %{ $now->{CPU} // {} }, 0, '  has cleared all blocks';

    # requests that are none
    for my $bad ('', "\x01", 'x' x 9, 'y' x 60) {
        my $socket = zmq($replay, 'REQ');
        syswrite $socket, "\x01\x00" . frame(0, $bad);
    }
    cmp_ok scalar(replayed($replay, 0)), '>=', scalar @all, 'a request that is none is dropped';
}
is ask($server, $first), 200, 'it serves';
close $stream;
is $server->stop, 0, '  and stops';

# ---- several models: each publishes by itself --------------------------------------------
my $models = "[engine]\ndevice = cpu\nthreads = 1\npin = false\n[plugins]\nscheduler = fcfs\ncache = paged\n[cache]\ndevice_memory = 448KiB\n"
    . "[models]\na = $stories\nb = $stories\nunload_after = 0\n";
my $shared = "kv_events = ipc://$pub\nkv_events_replay = ipc://$replay\n";
is eval { LlmServer->serve($shared . $models) }, undef, 'two models with one endpoint';
like $@, qr{\[server\] kv_events: the models 'a' and 'b' cannot both have ipc://$pub: write server.kv_events in \[model.b\]}, '  are refused by name';
like $@, qr{\[server\] kv_events_replay: the models 'a' and 'b'}, '  and that of replays';
is eval { LlmServer->serve("kv_events = tcp://*:65531\n$models\[model.b]\nserver.kv_events_replay = tcp://127.0.0.1:65531\nserver.kv_events = \n") }, undef, 'or with one port, for another key';
like $@, qr{\[server\] kv_events_replay: the models 'a' and 'b' cannot both have tcp://127.0.0.1:65531, which is tcp://\*:65531}, '  too';
my $one = LlmServer->serve("kv_events = stream\n$models");
for my $name (qw(a b)) {
    is $one->post('/v1/completions', { model => $name, prompt => $first, max_tokens => 1 })->{status}, 200, "the model $name";
    my $events = $one->connect;
    print $events "GET /admin/kv_events?model=$name HTTP/1.1\r\nHost: localhost\r\n\r\n";
    LlmServer::read_until($events, qr/\r\n\r\n/);
    $one->post('/v1/completions', { model => $name, prompt => prompt(13, 40), max_tokens => 1 });
    like LlmServer::read_until($events, qr/data: .*\n\n/), qr/data: \{.*BlockStored/, '  has a stream of its own';
}
is $one->stop, 0;

SKIP: {
    skip 'no ZeroMQ in this build', 1 if !$has_zmq;
    my $two = LlmServer->serve("$shared$models\[model.b]\nserver.kv_events = ipc://$pub.b\nserver.kv_events_replay = ipc://$replay.b\n");
    my %from = (a => $replay, b => "$replay.b");
    for my $name (sort keys %from) {
        is $two->post('/v1/completions', { model => $name, prompt => $first, max_tokens => 1 })->{status}, 200, "endpoints of each: $name";
        is_deeply [map { $_->[1][1][0][0] } replayed($from{$name}, 0)], ['BlockStored'], '  has its own events';
    }
    is $two->stop, 0;
    is eval { LlmServer->serve(ini('kv_events = tcp://nowhere', 'paged')) }, undef, 'an endpoint that cannot be';
    like $@, qr{\[server\] kv_events: tcp://nowhere: }, '  is refused by name';
    my $maps = LlmServer->serve(ini("kv_events = ipc://$pub\nkv_events_replay = ipc://$replay\nkv_events_form = map\n", 'paged'));
    ask($maps, $first);
    my @all = replayed($replay, 0);
    is_deeply [sort keys %{ $all[0][1] }], [qw(data_parallel_rank events ts)], 'batches as maps';
    is_deeply [sort keys %{ $all[0][1]{events}[0] }], [sort qw(type block_hashes parent_block_hash token_ids block_size lora_id medium lora_name)], '  with events as maps';
    is $maps->stop, 0;
}
done_testing;
