#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Schemas that take long to compile are worked on in turns of their clients, and a small body does not
# wait for large ones. The test checks the order of the answers, not their times.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use IO::Select;
use JSON::PP;
use LlmServer;
use Test::More;

my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "secret-of-the-many many\nsecret-of-the-one one\n");
chmod 0600, "$folder/keys";
my $demo   = LlmServer::source('t/data/models/stories260K');
my $server = LlmServer->serve("api_keys = $folder/keys\nany_model = true\n[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 16MiB\n");
my $number = 0;

sub ask {
    my ($who, %form) = @_;
    my $socket = $server->connect;
    my $body   = encode_json({ prompt => 'Once upon a time', max_tokens => 1, %form });
    my $bytes  = LlmServer::raw_post('/v1/completions', $body, "Authorization: Bearer secret-of-the-$who", 'Content-Type: application/json', 'Connection: close');
    for (my $at = 0 ; $at < length $bytes ;) { $at += syswrite($socket, $bytes, 1 << 20, $at) // die "write: $!" }
    return $socket;
}

# Another one each time: none is in the cache of grammars.
sub large {
    my $n = $number++;
    return (guided_json => { type => 'object', properties => { map { ("name_${n}_$_" => { type => 'string', pattern => "^[a-z]{1,9}_$n\$", description => 'x' x 60 }) } 1 .. 900 } });
}

# How many of the others were answered before the last one; whether each was.
sub before {
    my ($last, @others) = @_;
    my ($select, $n, $all) = (IO::Select->new($last, @others), 0, 0);
    my $seen;
    while (my @ready = $select->can_read(60)) {
        for my $socket (sort { ($a == $last) <=> ($b == $last) } @ready) {
            sysread $socket, my $answer, 65536;
            $all += $answer =~ m{\AHTTP/1.1 [24]0};
            $seen = $n if $socket == $last;
            $n++;
            $select->remove($socket);
        }
        last if !$select->count;
    }
    is $all, 1 + @others, 'all are answered';
    return $seen;
}

my @many = map { ask('many', large()) } 1 .. 8;
cmp_ok before(ask('one', guided_choice => ['yes', 'no']), @many), '<=', 4, 'a small one does not wait for large ones';
@many = map { ask('many', large()) } 1 .. 8;
cmp_ok before(ask('one', large()), @many), '<=', 4, 'a large one waits for one of another client';

# Those who have left leave their places.
@many = map { ask('many', large()) } 1 .. 8;
close $_ for @many;
cmp_ok before(ask('many', large())), '==', 0, 'who comes after those that left is answered';
is $server->stop, 0, 'the server ends well';
done_testing;
