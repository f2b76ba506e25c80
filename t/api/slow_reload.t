#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A reload to a plugin whose create is slow: other clients do not wait for it, it is
# abandoned after [server] watchdog, and whatever it creates later is destroyed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

my $stories = LlmServer::source('t/data/models/stories260K');
my $plugin  = LlmServer::built('t/fault/.libs/scheduler_slow_create.so');
my $folder  = File::Temp->newdir;
my ($good, $bad) = map { my $scheduler = $_;
    sub { my ($keys) = @_; return "$keys\n[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n[plugins]\nscheduler = $scheduler\n" } } 'sarathi', $plugin;
my $until = "[scheduler.slow_create]\nuntil = $folder/go\n";

sub status { return decode_json($_[0]->get('/admin/status')->{content}) }

# Until as many reloads have been refused.
sub refused {
    my ($server, $n) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    my $status;
    do { sleep 0.02; $status = status($server) } until $status->{reloads_refused} == $n || time > $deadline;
    return $status;
}

sub answers {
    my ($server) = @_;
    return $server->post('/v1/completions', { prompt => 'Once', max_tokens => 4 })->{status};
}

my $sentence = 'scheduler slow_create: create has not returned for [\d.]+ s';
{
    my $keys   = 'watchdog = 400ms';
    my $server = LlmServer->serve($good->($keys));
    $server->configure($bad->($keys) . $until);
    $server->{asked} = $server->connect;
    syswrite $server->{asked}, LlmServer::raw_post('/admin/reload', '', 'Connection: close');
    is answers($server), 200, 'requests are answered while a plugin is created';
    is_deeply [map { $server->get($_)->{status} } qw(/live /health)], [200, 200], '  and all is well';
    like LlmServer::read_all($server->{asked}), qr/ 409 .*$sentence/s, 'it is given up, and who asked for it hears why';
    is status($server)->{generation}, 1, '  what was there goes on';
    is answers($server), 200, '  and answers';

    $server->signal('HUP');
    like refused($server, 2)->{last_reload}{message}, qr/\A$sentence/, 'another one is given up too';

    $server->configure($good->('watchdog = 10s'));
    is $server->post('/admin/reload')->{status}, 200, 'a good configuration is taken meanwhile';
    is status($server)->{plugins}{scheduler}{name}, 'sarathi', '  with its scheduler';
    LlmServer::write_file("$folder/go", '');
    ok $server->log_becomes(qr/created at last.*created at last/s), 'both creates return at last';
    $server->log_becomes(qr/has returned, and is gone.*has returned, and is gone/s);
    is scalar(() = $server->log =~ /warning +reload: .*has returned, and is gone \($sentence\)/g), 2, '  and what they made is gone';
    is answers($server), 200, '  while requests go on';

    $server->configure($bad->('watchdog = 10s') . $until);
    is $server->post('/admin/reload')->{status}, 200, 'once create returns in time, it is taken';
    is status($server)->{plugins}{scheduler}{name}, 'slow_create', '  and at work';
    is $server->stop, 0, '  to the end';
    unlink "$folder/go";
}
{
    my $keys   = 'watchdog = 100ms';
    my $server = LlmServer->serve($good->($keys));
    $server->configure($bad->($keys) . $until);
    $server->signal('HUP');
    refused($server, 1);
    $server->signal('TERM');
    is $server->wait_for_end, 1, 'a server with one that never returns ends, with a failure';
    like $server->log, qr/ error +server: a plugin is still being created for a reload: ending without it\n\z/, '  and says why';
}
done_testing;
