#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Messages to a service manager over NOTIFY_SOCKET: ready, reloading and ready again,
# refused reloads, watchdog, stopping.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use IO::Select;
use IO::Socket::UNIX;
use Socket qw(SOCK_DGRAM);
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K');
my $ini     = "[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n";
my $folder  = File::Temp->newdir;
my $socket  = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "$folder/notify") or die $!;

sub heard {
    my ($pattern) = @_;
    my $select = IO::Select->new($socket);
    my @others;
    while ($select->can_read($LlmServer::TIMEOUT)) {
        $socket->recv(my $text, 4096);
        return $text if $text =~ $pattern;
        push @others, $text;
    }
    return join '|', 'nothing but ', @others;
}

my $server = do {
    local $ENV{NOTIFY_SOCKET} = "$folder/notify";
    local $ENV{WATCHDOG_USEC} = 100_000;
    LlmServer->serve($ini);
};
like heard(qr/READY=1/), qr{\AREADY=1\nSTATUS=stories260K http://127\.0\.0\.1:\d+, generation 1\z}, 'ready, and where';
is heard(qr/WATCHDOG/), 'WATCHDOG=1', 'it lives';
$server->configure("${ini}[plugins]\nscheduler = sarathi\n");
$server->signal('HUP');
like heard(qr/RELOADING/), qr/\ARELOADING=1\nMONOTONIC_USEC=\d+\z/, 'reloading';
like heard(qr/READY/), qr/\AREADY=1\n.*generation 2\z/s, 'and ready again';
$server->configure("$ini\[plugins]\nscheduler = nosuch\n");
$server->signal('HUP');
heard(qr/RELOADING/);
like heard(qr/READY/), qr/\AREADY=1\n.*generation 2; last reload refused: .*no scheduler 'nosuch'/s, 'a refusal is no end';
is heard(qr/WATCHDOG/), 'WATCHDOG=1', 'it still lives';
$server->signal('TERM');
like heard(qr/STOPPING/), qr/\ASTOPPING=1\n/, 'stopping';
is $server->wait_for_end, 0, 'the server ends well';

# A plan that never ends: the main thread lives, the step thread does not.
{
    my $plugin = LlmServer::built('t/fault/.libs/scheduler_sleeping.so');
    my $hung   = do {
        local $ENV{NOTIFY_SOCKET} = "$folder/notify";
        local $ENV{WATCHDOG_USEC} = 100_000;
        LlmServer->serve("${ini}[plugins]\nscheduler = $plugin\n");
    };
    heard(qr/WATCHDOG/);
    my $client = $hung->connect;
    syswrite $client, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":3}');
    my $deadline = time + $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.05) until $hung->log =~ /no step has ended since/ || time > $deadline;
    like $hung->log, qr/no step has ended since the last look, after step 0/, 'a plan that never ends starves the watchdog';
    $hung->signal('KILL');
    $hung->wait_for_end;
}
done_testing;
