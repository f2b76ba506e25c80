#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A tenant that takes all it can get, beside one that asks for a little at a time: under `vtc` the
# little one waits until an answer ends, not for the other's turn. Its answers are as ever, and
# no key of a tenant administers anything.
use strict;
use warnings;
use FindBin;
use lib ($FindBin::Bin, "$FindBin::Bin/../api");
use Campaign;
use JSON::PP;
use LlmServer;
use Streams;
use Test::More;

my $end    = Campaign::begin;
my $demo   = Campaign::model();
my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "secret-of-the-big big\nsecret-of-the-little little\n");
LlmServer::write_file("$folder/admins", "secret-of-the-admin\n");
chmod 0600, glob "$folder/*";
my $server = LlmServer->serve("api_keys = $folder/keys\nadmin_keys = $folder/admins\nany_model = true\n[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\nmax_sequences = 4\n"
      . "[cache]\ndevice_memory = 16MiB\n[plugins]\nscheduler = vtc\ncache = paged\n");
my %key = (big => ['Authorization: Bearer secret-of-the-big'], little => ['Authorization: Bearer secret-of-the-little']);
my $ask = { prompt => 'Once upon a time', max_tokens => 20, temperature => 0, ignore_eos => JSON::PP::true };
sub ask { my ($who) = @_; return $server->post('/v1/completions', $ask, { authorization => "Bearer secret-of-the-$who" }) }

my $wanted = ask('little')->{json}{choices}[0]{text};
ok defined $wanted, 'an answer to compare with';
is $server->post('/v1/completions', $ask, { authorization => 'Bearer secret-of-nobody' })->{status}, 401, 'a key of nobody is refused';
is $server->request('POST', '/admin/reload', '{}', { authorization => 'Bearer secret-of-the-big' })->{status}, 403, 'a tenant administers nothing';

# Everything that is costly: many long answers, long prompts, many choices, bodies that are wrong.
my (@open, %count);
sub flood {
    while (@open < 24) {
        my $socket = $server->connect;
        my $kind   = int rand 4;
        my $body   = encode_json({ prompt => $kind == 1 ? 'word ' x (50 + int rand 50) : 'Once', max_tokens => 100 + int rand 100, stream => JSON::PP::true,
            $kind == 2 ? (n => 4) : (), ignore_eos => JSON::PP::true });
        $body = '[' x 5000 if $kind == 3;
        syswrite $socket, LlmServer::raw_post('/v1/completions', $body, @{ $key{big} }, 'Content-Type: application/json', 'Connection: close');
        push @open, $socket;
        $count{flood}++;
    }
    return;
}
# Reads and counts what came; requests which have ended make room.
my $tokens = 0;
sub drain {
    my @still;
    for my $socket (@open) {
        $socket->blocking(0);
        my ($n, $text);
        while ($n = sysread $socket, $text, 65536) { $tokens += () = $text =~ /"text"/g }
        push @still, $socket if !defined $n;
    }
    @open = @still;
    return;
}

my (@wrong, $answers);
flood();
do {
    flood();
    drain();
    my $answer = ask('little');
    push @wrong, "status $answer->{status}: $answer->{content}" if ($answer->{json}{choices}[0]{text} // '') ne $wanted;
    $answers++;
} while (Campaign::goes_on($end) || $answers < Campaign::least(10, 2)) && !@wrong;
drain();
is_deeply \@wrong, [], "$answers answers of the little one beside $count{flood} requests of the big one";
my $per = $tokens / (20 * $answers);
# It waits for one of four places, each of which is kept for 150 steps: some 40. In turn of arrival
# it would wait for 20 such answers.
SKIP: {
    skip 'a share is not told by two answers', 1 if $answers < 10;
    cmp_ok $per, '<', 24, 'it waits for one answer of the others to end, not for all';
}
close $_ for @open;
is $server->stop, 0, 'the server ends well';
Campaign::figure('answers of the little one' => $answers, 'requests of the big one' => $count{flood}, 'tokens of the big one for each of its' => sprintf '%.1f', $per);
done_testing;
