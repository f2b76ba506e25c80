#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A plugin's callback that does not return: it is logged once with its name, visible in
# the server's status, over when it returns, and does not prevent the server from ending.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Test::More;
use Time::HiRes qw(sleep time);

my $stories = LlmServer::source('t/data/models/stories260K');
my $plugin  = LlmServer::built('t/fault/.libs/scheduler_sleeping.so');
my $ask     = LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":3}', 'Content-Type: application/json', 'Connection: close');
my $folder  = File::Temp->newdir;

sub serve {
    my ($keys) = @_;
    my $server = LlmServer->serve("$keys\n[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n"
        . "[plugins]\nscheduler = $plugin\n[scheduler.sleeping]\nuntil = $folder/go\n");
    $server->{asked} = $server->connect;
    syswrite $server->{asked}, $ask;
    return $server;
}

# Until /live answers so.
sub live_becomes {
    my ($server, $status) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    my $answer;
    do { sleep 0.02; $answer = $server->get('/live') } until $answer->{status} == $status || time > $deadline;
    return $answer;
}

my $name = 'scheduler sleeping: plan has not returned for [\d.]+ s';
{
    my $server = serve('watchdog = 200ms');
    like live_becomes($server, 503)->{content}, qr/\A\{"status":"hangs","error":"$name"\}\z/, '/live says that it hangs, and where';
    my $health = $server->get('/health');
    is $health->{status}, 503, 'so does /health';
    like $health->{content}, qr/"status":"hangs".*"error":"$name"/, '  with the reason';
    is $server->get('/ready')->{status}, 503, 'and /ready';
    my $refused = $server->post('/v1/completions', { prompt => 'Once', max_tokens => 1 });
    is_deeply [$refused->{status}, $refused->{json}{error}{code}], [503, 'plugin_hangs'], 'nothing more is taken';
    sleep 0.5;
    is scalar(() = $server->log =~ /error +watchdog: $name/g), 1, 'one line says so';

    LlmServer::write_file("$folder/go", '');
    is live_becomes($server, 200)->{content}, '{"status":"ok"}', 'it returns: all is well again';
    like $server->log, qr/watchdog: it has returned/, '  and a line says so';
    like LlmServer::read_all($server->{asked}), qr/ 200 OK/, '  and the request is answered';
    is $server->stop, 0, '  and the server ends well';
    unlink "$folder/go";
}
{
    my $server = serve("watchdog = 200ms\ndrain_timeout = 300ms");
    live_becomes($server, 503);
    $server->signal('TERM');
    is $server->wait_for_end, 1, 'SIGTERM ends a server that hangs, with a failure';
    like $server->log, qr/drain_timeout passed.*\n.* error +server: $name: ending without it\n\z/, '  after drain_timeout, and says why';
}
{
    my $server = serve('watchdog = 0');
    sleep 0.5;
    is $server->get('/live')->{status}, 200, 'watchdog = 0: nobody looks';
    LlmServer::write_file("$folder/go", '');
    like LlmServer::read_all($server->{asked}), qr/ 200 OK/, '  and it is waited for';
    is $server->stop, 0, '  to the end';
}
done_testing;
