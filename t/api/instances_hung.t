#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances as processes, one of which is stopped without ending: the others continue to
# answer, also the stopped one's requests; it is shown as silent; when it continues it gets
# work again, and nothing is answered twice. When the service ends, so does the launcher.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Mpi;
use Streams;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time sleep);

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;
my @RECOVER = Mpi::recovery();
plan skip_all => 'this mpirun ends all processes when one dies' unless @RECOVER;

my $CLIENTS = 12;
my @prompts = map { $_->{prompt_ids} } @Golden::ANSWERS;

sub serve {
    my ($roles, $more) = @_;
    my $config = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\n" . ($more // '')
        . "roles = $roles\n[cache]\ndevice_memory = 2MiB\n[plugins]\nscheduler = distserve\n";
    return LlmServer->serve($config, undef, Mpi::run(scalar(split /,/, $roles), @RECOVER));
}

sub status { my ($server) = @_; return decode_json($server->get('/admin/status')->{content}) }

sub ups { my ($server) = @_; return $server->get('/metrics')->{content} =~ /^llmserve_instance_up\{.*\} (\d)$/gm }

sub health { my ($server) = @_; my $answer = $server->get('/health'); return ($answer->{status}, decode_json($answer->{content})) }

# Streams go on until it says so, or it takes too long.
sub until_true {
    my ($streams, $true) = @_;
    my $until = time + 2 * $LlmServer::TIMEOUT;
    my $is;
    $streams->run(sub { ($is = $true->()) || time > $until });
    return $is;
}

# ---- one of two, at defaults -------------------------------------------------------------
for my $case (['prefill, decode, decode', 1], ['decode, prefill, prefill', 2]) {
    my ($roles, $stopped) = @$case;
    my $server  = serve($roles);
    my @pids    = Mpi::pids($server);
    my $streams = Streams->new($server, clients => $CLIENTS, tokens => 100, prompts => \@prompts);
    $streams->learn;
    $streams->run(sub { $streams->{done} >= 2 * $CLIENTS });
    kill 'STOP', $pids[$stopped];
    # Messages to it and to all, again and again, used to fill the memory that they share, within 5 s.
    my $filled = time + ($stopped == 1 ? 7 : 0);
    ok until_true($streams, sub { time > $filled && status($server)->{instances}[$stopped]{status} eq 'silent' }), "$roles: process $stopped is stopped under load, which is seen";
    my $done = $streams->{done};
    ok until_true($streams, sub { $streams->{done} >= $done + 3 * $CLIENTS }), '  answers go on';
    is_deeply $streams->{wrong}, [], '  each is whole, also those that it had';
    my $instance = status($server)->{instances}[$stopped];
    is $instance->{status}, 'silent', '  it is shown as silent';
    like $instance->{reason}, qr/\Ainstance $stopped \(\w+\): nothing was heard of its process/, '  with the reason';
    is_deeply [ups($server)], [map { $_ == $stopped ? 0 : 1 } 0 .. 2], '  its metric says so too';
    my ($code, $health) = health($server);
    is_deeply [$code, @$health{qw(status error)}], [200, 'degraded', $instance->{reason}], '  and /health';
    is $server->get('/ready')->{status}, 200, '  /ready stays: it answers';
    is $server->get('/live')->{status},  200, '  /live too';

    kill 'CONT', $pids[$stopped];
    ok until_true($streams, sub { status($server)->{instances}[$stopped]{status} eq 'up' }), '  it goes on, and is taken in again';
    my $count = $roles =~ /^prefill/ ? 'taken_over' : 'handed_over';
    my $before = status($server)->{instances}[$stopped]{$count};
    ok until_true($streams, sub { status($server)->{instances}[$stopped]{$count} > $before + $CLIENTS }), '  with work';
    $streams->finish;
    is_deeply $streams->{wrong}, [], '  no answer differs, fails, or has a token twice';
    is((health($server))[1]{status}, 'ok', '  /health is well again');
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}

# ---- the last of its kind ------------------------------------------------------------------
{
    my $server  = serve('prefill, decode');
    my @pids    = Mpi::pids($server);
    my $streams = Streams->new($server, clients => 4, tokens => 100, prompts => \@prompts);
    $streams->learn;
    kill 'STOP', $pids[1];
    ok until_true($streams, sub { status($server)->{instances}[1]{status} eq 'silent' }), 'the last one that decodes is stopped, and silent';
    my $ready = $server->get('/ready');
    is $ready->{status}, 503, '  /ready says that nobody answers';
    like $ready->{content}, qr/no instance that decodes is heard: instance 1 \(decode\)/, '  and why';
    is $server->get('/live')->{status}, 200, '  /live that it may';
    kill 'CONT', $pids[1];
    my $done = $streams->{done};
    ok until_true($streams, sub { $streams->{done} > $done + 8 }), '  it goes on';
    $streams->finish;
    is_deeply $streams->{wrong}, [], '  and everything is answered';
    is $server->get('/ready')->{status}, 200, '  /ready again';
    Mpi::ends($server, @pids);
}

# ---- one that does not come back -----------------------------------------------------------
{
    my $server = serve('prefill, decode, decode', "rank_timeout = 3s\n");
    my @pids   = Mpi::pids($server);
    kill 'STOP', $pids[1];
    my $until = time + $LlmServer::TIMEOUT;
    sleep 0.05 until status($server)->{instances}[1]{status} eq 'lost' || time > $until;
    my $instance = status($server)->{instances}[1];
    is $instance->{status}, 'lost', 'one is stopped for longer than rank_timeout: it is lost';
    is_deeply [@$instance{qw(requests cache policies)}], [undef, undef, undef], '  and has no figures';
    ok Mpi::all_gone($pids[1]), '  its process is ended';
    is_deeply [ups($server)], [1, 0, 1], '  its metric is 0';
    my ($code, $health) = health($server);
    is_deeply [$code, $health->{status}], [200, 'degraded'], '  /health is degraded';
    my @ids = Golden::all_at_once($server, 2);
    is_deeply $ids[$_], [($Golden::ANSWERS[$_]{greedy_ids}) x 2], '  the service goes on' for 0 .. $#Golden::ANSWERS;
    Mpi::ends($server, @pids);
}
{
    my $server = serve('prefill, decode, decode');
    my @pids   = Mpi::pids($server);
    kill 'STOP', $pids[2];
    Mpi::ends($server, @pids);
}

# ---- a rank --------------------------------------------------------------------------------
# A step waits for it: nobody answers, and /ready says so; what is not heard may come back.
{
    my $config = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 2MiB\n";
    my $server = LlmServer->serve($config, undef, Mpi::run(2, @RECOVER));
    my @pids   = Mpi::pids($server);
    kill 'STOP', $pids[1];
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json({ prompt => 'Once', max_tokens => 8 }), 'Connection: close');
    my $until = time + $LlmServer::TIMEOUT;
    sleep 0.05 until $server->get('/ready')->{status} == 503 || time > $until;
    like $server->get('/ready')->{content}, qr/a step waits for another rank/, 'a rank is stopped: /ready says what is waited for';
    my ($code, $health) = health($server);
    is_deeply [$code, $health->{status}, [ups($server)]], [200, 'degraded', [0]], '  /health and the metric too';
    is $server->get('/live')->{status}, 200, '  /live that it may come back';
    kill 'CONT', $pids[1];
    like LlmServer::read_all($socket), qr/"finish_reason": ?"length"/, '  which it does: the answer is whole';
    is $server->get('/ready')->{status}, 200, '  /ready again';
    Mpi::ends($server, @pids);
}
{
    my $config = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = 3s\n[cache]\ndevice_memory = 2MiB\n";
    my $server = LlmServer->serve($config, undef, Mpi::run(2, @RECOVER));
    my @pids   = Mpi::pids($server);
    kill 'STOP', $pids[1];
    $server->post('/v1/completions', { prompt => 'Once', max_tokens => 8 });
    $server->wait_for_end;
    ok Mpi::all_gone(@pids), 'it does not: the service ends, with all processes and the launcher';
}
done_testing;
