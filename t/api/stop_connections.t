#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A server that ends: an accepted connection is answered, all others are refused, and none is
# reset in between: a proxy may repeat a request that was refused, and no other.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use IO::Socket::INET;
use POSIX ();
use Test::More;

my $CLIENTS = 6;
my @STOPS = LlmServer::rounds(6);
my $folder = File::Temp->newdir;
my $port   = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
my $body   = '{"prompt": "x", "max_tokens": 1}';
my $text   = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: " . length($body) . "\r\n\r\n$body";

# Sends one request; returns its status, `refused`, or `lost`.
sub ask {
    my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => $LlmServer::TIMEOUT) or return 'refused';
    local $SIG{PIPE} = 'IGNORE';
    print {$socket} $text;
    my $line = <$socket>;
    return defined $line && $line =~ m{\AHTTP/1.1 (\d+) } ? $1 : 'lost';
}

# Asks until the folder has a file `stop`; counts by outcome are left in a file.
sub client {
    my ($n) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    my %count;
    $count{ask()}++ until -e "$folder/stop";
    LlmServer::write_file("$folder/client$n", join ' ', %count);
    POSIX::_exit(0);
}

my @clients;
for my $stop (@STOPS) {
    my $server = LlmServer->serve("listen = 127.0.0.1:$port\n[model]\npath = " . LlmServer::source('share/demo-model') . "\n[engine]\nthreads = 1\npin = false\n");
    @clients = map { client($_) } 1 .. $CLIENTS if !@clients;
    select undef, undef, undef, 0.2;
    is $server->stop, 0, "stop $stop: it ends well";
}
LlmServer::write_file("$folder/stop", '');
waitpid $_, 0 for @clients;
my %count;
for my $n (1 .. $CLIENTS) {
    my %one = split / /, LlmServer::read_file("$folder/client$n");
    $count{$_} += $one{$_} for keys %one;
}
cmp_ok $count{200} // 0, '>', 0, 'requests are answered';
cmp_ok $count{refused} // 0, '>', 0, 'connections are refused while no server is there';
is $count{lost} // 0, 0, 'no request that a connection took is lost' or diag join ', ', map { "$_: $count{$_}" } sort keys %count;
done_testing;
