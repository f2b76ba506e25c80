#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# GET /admin/queues: running and waiting requests and the scheduler's order keys; for each
# instance, while reloads replace the scheduler, and for several clients at once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;
use Time::HiRes;

my $model = LlmServer::source('t/data/models/stories260K');

sub ini {
    my ($engine, $plugins) = @_;
    return "[model]\npath = $model\n[engine]\nthreads = 1\npin = false\n$engine"
        . "[cache]\ndevice_memory = 512KiB\n[plugins]\n$plugins";
}

sub queues { my ($server) = @_; return decode_json($server->get('/admin/queues')->{content})->{instances} }

my $mlfq   = "scheduler = mlfq\ncache = paged\n[scheduler.mlfq]\nmax_seqs = 1\n";
my $server = LlmServer->serve(ini('', $mlfq));
my $idle   = queues($server);
is_deeply [map { $_->{role} } @$idle], ['mixed'], 'one instance';
is_deeply [@{ $idle->[0] }{qw(scheduler requests requests_left_out lines_left_out)}], ['scheduler mlfq', [], 0, 0], '  where nobody is';
ok !$idle->[0]{switched_off}, '  and the scheduler is asked';

# Clients that go on until they are closed.
sub crowd {
    my ($on, $n, $id) = @_;
    my $client = $on->connect;
    syswrite $client, LlmServer::raw_post('/v1/completions', qq({"prompt":[1,403,2],"max_tokens":390,"ignore_eos":true,"n":$n,"stream":true,"slo":{"ttft_ms":5000}}), "X-Request-Id: $id");
    LlmServer::read_until($client, qr/data: /);
    return $client;
}

my $client = crowd($server, 100, 'crowd-1');
my ($now)  = @{ queues($server) };
my @all    = @{ $now->{requests} };
cmp_ok scalar(@all), '>', 50, 'who is alive is listed';
is scalar(grep { $_->{label} !~ /^crowd-1/ } @all), 0, '  by the name the client gave';
is scalar(grep { $_->{prompt_tokens} != 3 || $_->{class} ne 'none' || $_->{seconds} < 0 } @all), 0, '  with what is known';
my %state = map { $_->{id} => $_->{state} } @all;
my %named = map { /^level (\d+) request (\d+)$/ ? ($2 => $1) : () } @{ $now->{lines} };
is scalar(grep { !exists $state{$_} } keys %named), 0, 'the scheduler orders those and no others';
cmp_ok scalar(grep { exists $named{$_} } grep { $state{$_} eq 'waiting' } keys %state), '>', 40, '  with their levels';

# ---- tenants by name --------------------------------------------------------------------
# vtc divides what a tenant is charged by the weight that its name has: of a key's tenant, a user.
{
    my $fair = LlmServer->serve(ini('', "scheduler = vtc\ncache = paged\n[scheduler.vtc]\nweights = alice: 4, bob: 2\n"));
    $fair->post('/v1/completions', { prompt => [1, 403, 2], max_tokens => 8, ignore_eos => \1, user => $_ }) for qw(carol bob alice);
    my ($q) = @{ queues($fair) };
    my @counter = map { /^tenant \d+ counter ([\d.]+)/ ? $1 : () } @{ $q->{lines} };
    # one that comes to an empty queue begins at the counter of the one that left it last
    my @charged = map { $counter[$_] - ($_ > 0 ? $counter[$_ - 1] : 0) } 0 .. 2;
    is_deeply [map { $_ / $charged[0] } @charged], [1, 1 / 2, 1 / 4], 'a scheduler knows tenants by their names';
}

# ---- several at once, and one that leaves ------------------------------------------------
my @asking = map { $server->connect } 1 .. 6;
syswrite $_, "GET /admin/queues HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" for @asking;
close shift @asking;
is scalar(grep { LlmServer::read_all($_) =~ / 200 OK.*"lines": ?\[/s } @asking), 5, 'all who ask are answered';

# ---- under reloads -----------------------------------------------------------------------
my ($wrong, $asked, %seen) = (0, 0);
for my $turn (1 .. 8) {
    $server->configure(ini('', $turn % 2 ? "scheduler = alise\ncache = paged\n" : $mlfq));
    my $reload = $server->connect;
    syswrite $reload, LlmServer::raw_post('/admin/reload', '', 'Connection: close');
    for (1 .. 5) {
        my ($q) = @{ queues($server) };
        my %alive = map { $_->{id} => 1 } @{ $q->{requests} };
        $seen{ $q->{scheduler} } = 1;
        $asked++;
        $wrong++ for grep { /request (\d+)/ && !$alive{$1} } @{ $q->{lines} };
    }
    LlmServer::read_all($reload) =~ / 200 OK/ or $wrong++;
}
is $wrong, 0, "$asked looks during 8 reloads: none names a stranger";
is_deeply [sort keys %seen], ['scheduler alise', 'scheduler mlfq'], '  of either scheduler';
close $client;
ok $server->metric_becomes('llmserve_generations_live', 0), 'the crowd has gone';
is $server->stop, 0, 'it ends well';

# ---- several instances; and one that is asked for when it ends ----------------------------
$server = LlmServer->serve(ini("instances = 3\n", "scheduler = sjf\ncache = paged\n"));
$client = crowd($server, 30, 'crowd-2');
my $three = queues($server);
is_deeply [map { $_->{scheduler} } @$three], [('scheduler sjf') x 3], 'three instances';
is scalar(grep { @{ $_->{requests} } == 0 } @$three), 0, '  each has some';
syswrite $server->connect, "GET /admin/queues HTTP/1.1\r\nHost: x\r\n\r\n";
close $client;
is $server->stop, 0, 'it ends well';

# ---- what a plugin may say ----------------------------------------------------------------
my $fake = LlmServer->fake;
my $held = $fake->connect;
syswrite $held, LlmServer::raw_post('/v1/completions', '{"prompt":[5,6],"stream":true}', 'X-Request-Id: hold-1');
my ($one, $deadline) = (undef, Time::HiRes::time() + $LlmServer::TIMEOUT);
Time::HiRes::sleep(0.01) until ($one = queues($fake)->[0])->{requests}[0] || Time::HiRes::time() > $deadline;
is_deeply [($one->{requests}[0]{label} // '') =~ /^hold-1/ ? 1 : 0, $one->{lines}], [1, []], 'lines that are no text are left out';
is $fake->post('/admin/queues', {})->{status}, 405, 'nothing is posted there';
close $held;
is $fake->stop, 0, 'it ends well';
done_testing;
