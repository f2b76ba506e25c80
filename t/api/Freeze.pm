# SPDX-License-Identifier: Apache-2.0
# Measures how long other clients wait while the server works on one large request: a stream
# runs, /health is polled on one connection, and the largest gap of either is recorded.
package Freeze;

use strict;
use warnings;
use IO::Select;
use List::Util ();
use LlmServer;
use Time::HiRes ();

my $probe  = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
my $stream = '{"prompt":[1,403],"max_tokens":%d,"stream":true,"ignore_eos":true}';

# The fake server that measure() needs has these.
sub options { return (context => 1 << 21, requests => 5000) }

# Bodies of at most 16 MiB, each [path, body]; `spread` stretches or shrinks them, as far as the server
# reads them: it refuses what would take much more memory than its text (t/api/strangers.t).
sub bodies {
    my ($spread) = @_;
    my $n      = sub { int($_[0] * $spread) };
    my $read   = sub { List::Util::min($n->($_[0]), $_[1]) };
    my $texts  = sub { join ',', ('"' . 'word ' x $n->($_[0]) . '"') x 2047 };
    my $tool   = '{"type":"function","function":{"name":"f","parameters":{"properties":{' . join(',', map { "\"p$_\":{\"type\":\"string\"}" } 1 .. $read->(400_000, 30_000)) . '}}}}';
    my $items  = join ',', ('{"role":"user","content":"x"}') x $read->(500_000, 28_000);
    my $words  = 'word ' x $n->(3_000_000);
    my $chat   = sub { "{\"messages\":[{\"role\":\"user\",\"content\":\"$_[0]\"}],\"max_tokens\":1$_[1]}" };
    return (
        'an object of many members'  => ['/v1/completions', '{"prompt":"x"' . join('', map { ",\"k$_\":0" } 1 .. $read->(1_200_000, 80_000)) . '}'],
        'a prompt of millions of ids' => ['/v1/completions', '{"prompt":[403' . ',403' x $read->(4_000_000, 1_700_000) . ']}'],
        'a wrong value to be quoted' => ['/v1/completions', '{"prompt":"x","n":[0' . ',1' x $read->(8_000_000, 1_500_000) . ']}'],
        'a nested value'             => ['/v1/completions', '{"prompt":"x","k":[' . join(',', ('[' x 500 . ']' x 500) x $read->(15_000, 250)) . ']}'],
        'a chat that a template splits' => ['/v1/chat/completions', $chat->($words, ',"chat_template_kwargs":{"split":true}')],
        '/detokenize of many ids'    => ['/detokenize', '{"tokens":[403' . ',403' x $n->(1_000_000) . ']}'],
        '/tokenize of a long text'   => ['/tokenize', '{"prompt":"' . 'word ' x $n->(200_000) . '","return_token_strs":true}'],
        'a chat with a large tool'   => ['/v1/chat/completions', $chat->('x', ",\"tools\":[$tool]")],
        '/v1/responses of many items' => ['/v1/responses', "{\"input\":[$items]}"],
        '/v1/embeddings of many texts' => ['/v1/embeddings', '{"input":[' . $texts->(1500) . ']}'],
        '/v1/rerank of many texts'   => ['/v1/rerank', '{"query":"x","return_documents":true,"documents":[' . $texts->(1500) . ']}'],
        '/tokenize of a chat'        => ['/tokenize', $chat->('a' x $n->(1_000_000), '')],
    );
}

# A short body whose answer has megabytes of text.
sub repeated { return ['/v1/completions', '{"prompt":"' . 'word ' x 20_000 . '","echo":true,"max_tokens":1,"n":64}'] }

# CPU seconds of the server's main thread, and of all of its threads.
sub cpu {
    my ($server) = @_;
    my @threads = map { (split ' ', LlmServer::read_file($_))[0] // 0 } sort glob "/proc/$server->{pid}/task/*/schedstat";
    my ($main)  = split ' ', LlmServer::read_file("/proc/$server->{pid}/schedstat");
    return ($main / 1e9, List::Util::sum(@threads) / 1e9);
}

# Sends all but the last byte, for receiving is not what is measured.
sub upload {
    my ($server, $path, $body) = @_;
    my $socket = $server->connect;
    my $text   = LlmServer::raw_post($path, $body, 'Connection: close');
    for (my $at = 0; $at < length($text) - 1;) {
        my $n = syswrite $socket, $text, List::Util::min(1 << 20, length($text) - 1 - $at), $at;
        die "upload: $!" unless $n;
        $at += $n;
    }
    return ($socket, substr $text, -1);
}

# Runs a stream (of so many tokens) and probes until the answer to the body is there. Seconds: took, probe (the
# longest round), gap (the longest silence of the stream); of CPU: main (the most that main
# used in one round, which no other load on the machine stretches), cpu (all that was used);
# and the answer.
sub measure {
    my ($server, $path, $body, $tokens) = @_;
    my $reader = $server->connect;
    syswrite $reader, LlmServer::raw_post('/v1/completions', sprintf $stream, $tokens // -1);
    LlmServer::read_until($reader, qr/data: /);
    my ($hostile, $last) = upload($server, $path, $body);
    my $health = $server->connect;
    my $select = IO::Select->new($reader, $health, $hostile);
    my %m      = (probe => 0, rounds => 0, gap => 0, main => 0, answer => '');
    Time::HiRes::sleep(0.05);
    sysread $reader, my $before, 1 << 20;
    syswrite $hostile, $last;
    my $began = my $heard = my $asked = Time::HiRes::time();
    my ($main, $all) = cpu($server);
    my $round = sub {
        my ($now) = @_;
        my ($used) = cpu($server);
        $m{main}  = List::Util::max($m{main},  $used - $main);
        $m{probe} = List::Util::max($m{probe}, $now - $asked);
        ($main, $asked) = ($used, $now);
    };
    syswrite $health, $probe;
    for (;;) {
        my @ready = $select->can_read($LlmServer::TIMEOUT) or die "nothing in $LlmServer::TIMEOUT s";
        my $now   = Time::HiRes::time();
        for my $socket (@ready) {
            my $n = sysread $socket, my $text, 1 << 20;
            if ($socket == $reader) {
                $m{gap} = List::Util::max($m{gap}, $now - $heard);
                $heard = $now;
            } elsif ($socket == $health) {
                $round->($now);
                $m{rounds}++ if !defined $m{took};
                syswrite $health, $probe;
            } elsif ($n) {
                $m{took} //= $now - $began;
                $m{answer} .= $text;
            } else {
                $round->($now);
                $m{gap} = List::Util::max($m{gap}, $now - $heard);
                $m{took} //= $now - $began;
                $m{cpu} = (cpu($server))[1] - $all;
                return \%m;
            }
        }
    }
}

1;
