#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A hundred streams at once: each gets exactly its own text, in order.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use IO::Select;
use Test::More;

my $clients = 100;
my $server  = LlmServer->fake(together => $clients + 1);    # none ends before all were counted
my $select  = IO::Select->new;
my (%want, %got);

for my $n (1 .. $clients) {
    my $words = "client $n counts to " . join(' ', 1 .. $n % 10);
    my $ids   = join ',', 1, map { 3 + ord } split //, $words;
    my $max   = length($words) * 2;
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', "{\"prompt\":[$ids],\"max_tokens\":$max,\"stream\":true}", 'Connection: close');
    $select->add($socket);
    $want{$socket} = $words x 2;
    $got{$socket}  = '';
}
ok $server->metric_becomes('llmserve_generations_live', $clients), 'all are alive';
is $server->post('/v1/completions', { prompt => [1, 403], max_tokens => 1 })->{status}, 200, 'one more lets them run';

while ($select->count) {
    my @ready = $select->can_read($LlmServer::TIMEOUT) or last;
    for my $socket (@ready) {
        my $n = sysread($socket, $got{$socket}, 65536, length $got{$socket});
        $select->remove($socket) unless $n;
    }
}
is $select->count, 0, 'all streams end';

my ($right, $done, $ends, $events) = (0, 0, 0, 0);
for my $client (keys %want) {
    my $text = join '', $got{$client} =~ /"text":"([^"]*)"/g;
    $right++ if $text eq $want{$client};
    $events += () = $got{$client} =~ /^data: \{/mg;
    $done++  if $got{$client} =~ /data: \[DONE\]\n\n\r\n0\r\n\r\n\z/;
    $ends++  if (() = $got{$client} =~ /"finish_reason":"length"/g) == 1;
}
is $right, $clients, 'each has its own text';
cmp_ok $events, '>', 10 * $clients, 'having come bit by bit';
is $ends,  $clients, 'with one end';
is $done,  $clients, 'and [DONE]';
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
ok $server->metric_becomes('llmserve_http_connections', 1), 'no connection either';
is $server->stop, 0, 'the server ends well';
done_testing;
