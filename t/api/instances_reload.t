#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Reloads of instances that are processes, with streaming clients: process 0 reads the
# configuration, and either all change policies or none does; what one process refuses is
# refused by all, with its reason; no answer changes, and a death during a reload ends no
# other process.
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

my @golden = @Golden::ANSWERS;
my @RECOVER = Mpi::recovery();

my %PLUGINS = (
    distserve => "scheduler = distserve\n",
    batches   => "scheduler = distserve\n[scheduler.distserve]\ndecode_batch = 8\n",
    aligned   => "scheduler = aligned\ncache = tiered\n[scheduler.aligned]\nclass_frac = 0\nrmin = 4\noffers_frac = 0\n",
);

sub config {
    my ($roles, $plugins, $more) = @_;
    return "log_level = debug\n[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\nroles = $roles\n"
        . ($more // '') . "[cache]\ndevice_memory = 1MiB\nhost_memory = 1MiB\n[plugins]\n$PLUGINS{$plugins}";
}

sub status { my ($server) = @_; return decode_json($server->get('/admin/status')->{content}) }

# While the clients go on, if there are any.
sub reload {
    my ($server, $streams, $ini) = @_;
    my $before = status($server);
    my ($asked, $after) = (time);
    $server->configure($ini);
    kill 'HUP', (Mpi::pids($server))[0];
    my $over = sub {
        $after = status($server);
        return 1 if $after->{reloads} + $after->{reloads_refused} > $before->{reloads} + $before->{reloads_refused};
        die "no reload\n" . $server->log if time > $asked + $LlmServer::TIMEOUT;
        return 0;
    };
    if (defined $streams) { $streams->run($over) }
    else                  { sleep 0.01 until $over->() }
    return $after;
}

# So many times has a process but 0 taken a configuration over so far, by the log, which mpirun gathers.
sub are_taken {
    my ($server, $n, $name) = @_;
    my ($until, $taken) = (time + $LlmServer::TIMEOUT);
    do {
        sleep 0.01;
        $taken = () = $server->log =~ /reload: instance \d+ goes on with the configuration of process 0/g;
    } until $taken >= $n || time > $until;
    is $taken, $n, $name;
    return;
}

sub streams_of {
    my ($server) = @_;
    my $streams = Streams->new($server, clients => 8, tokens => 100, prompts => [map { $_->{prompt_ids} } @golden]);
    $streams->learn;
    return $streams;
}

sub ends_well {
    my ($server, $name) = @_;
    my @pids = Mpi::pids($server);
    kill 'TERM', $pids[0];
    is $server->wait_for_end, 0, "$name: it ends well";
    ok Mpi::all_gone(@pids), '  no process is left';
    return;
}

# ---- all of them -------------------------------------------------------------------------
for my $case (['prefill, decode, decode', 3, ''], ['decode, prefill', 2, ''], ['prefill, decode', 4, "tensor_parallel_size = 2\n"]) {
    my ($roles, $n, $more) = @$case;
    my $others = (() = $roles =~ /prefill|decode/g) - 1;
    my $server = LlmServer->serve(config($roles, 'distserve', $more), undef, Mpi::run($n, @RECOVER));
    my $streams = streams_of($server);
    my $generation = 1;
    (my $name = "$roles $more") =~ s/\s*$//;
    for my $to (qw(batches aligned distserve aligned batches)) {
        my $until = $streams->{done} + 4;
        $streams->run(sub { $streams->{done} > $until });
        my $now = reload($server, $streams, config($roles, $to, $more));
        is $now->{generation}, ++$generation, "$name: $to" or diag $now->{last_reload}{message};
        are_taken($server, $others * ($generation - 1), '  in all processes');
    }
    my $until = $streams->{done} + 8;
    $streams->run(sub { $streams->{done} > $until });
    is status($server)->{scheduler_fallback}, undef, '  no plan was bad';
    my $now = reload($server, $streams, config($roles, 'batches', $more . "max_requests = 7\n"));
    like $now->{last_reload}{message}, qr/max_requests: '7' instead of '\d+' needs a restart/, '  what process 0 refuses is refused';
    are_taken($server, $others * ($generation - 1), '  and reaches nobody');
    $streams->finish;
    is_deeply $streams->{wrong}, [], '  no answer differs, fails or stops';
    Mpi::memory_is_back($server);
    ends_well($server, $name);
}

# ---- none of them ------------------------------------------------------------------------
# The second process has a folder of plugins without one of them.
{
    my $folder = File::Temp->newdir;
    my $roles = 'prefill, decode, decode';
    LlmServer::write_file("$folder/run", "#!/bin/sh\nif [ \"\$OMPI_COMM_WORLD_RANK\" = 1 ]; then export LLS_PLUGIN_PATH='$folder'; fi\nexec \"\$@\"\n");
    chmod 0755, "$folder/run";
    symlink $_, "$folder/" . (m{([^/]+)\z})[0] for grep { !/aligned/ } glob LlmServer::built('.libs/*.so');
    my $server = LlmServer->serve(config($roles, 'distserve'), undef, Mpi::run(3, @RECOVER), "$folder/run");
    my $streams = streams_of($server);
    for my $round (1 .. 2) {
        my $now = reload($server, $streams, config($roles, 'aligned'));
        is $now->{generation}, $round, 'one that refuses: the generation goes on';
        like $now->{last_reload}{message}, qr/instance 1 \(decode\): \S+llmserve\.ini:\d+: no scheduler 'aligned'/, '  with its reason';
        is $now->{plugins}{scheduler}{name}, 'distserve', '  nobody has changed';
        are_taken($server, 2 * ($round - 1), '  in no process');
        $now = reload($server, $streams, config($roles, $round == 1 ? 'batches' : 'distserve'));
        is $now->{generation}, $round + 1, '  what all can do they do then' or diag $now->{last_reload}{message};
        are_taken($server, 2 * $round, '  in all processes');
    }
    $streams->finish;
    is_deeply $streams->{wrong}, [], '  no answer differs, fails or stops';
    Mpi::memory_is_back($server);
    ends_well($server, 'refused');
}

# ---- deaths ------------------------------------------------------------------------------
SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless @RECOVER;
    for my $round (LlmServer::rounds(6)) {
        my $roles = 'prefill, decode, decode';
        my $server = LlmServer->serve(config($roles, 'distserve'), undef, Mpi::run(3, @RECOVER));
        my @pids = Mpi::pids($server);
        my @sockets = map { $server->connect } 1 .. 8;
        syswrite $_, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":300,"ignore_eos":true,"stream":true}', 'Connection: close') for @sockets;
        my @begun = map { LlmServer::read_until($_, qr/"text"/) } @sockets;
        $server->configure(config($roles, $round % 2 ? 'aligned' : 'batches'));
        kill 'HUP', $pids[0];
        sleep 0.012 * ($round - 1);
        kill 'KILL', $pids[1];
        my @answers = map { $begun[$_] . LlmServer::read_all($sockets[$_]) } 0 .. $#sockets;
        unlike join('', @answers), qr/<timeout>/, "one is killed in the middle of a reload ($round): all answers end";
        is scalar(grep { /"code":"instance_lost"/ || /\[DONE\]/ } @answers), 8, '  whole, or with an error';
        my @ids = Golden::all_at_once($server, 1);
        is_deeply [map { $_->[0] } @ids], [map { $_->{greedy_ids} } @golden], '  the service goes on';
        my $now = reload($server, undef, config($roles, 'distserve'));
        ok $now->{last_reload}{ok}, '  and can be reloaded' or diag $now->{last_reload}{message};
        Mpi::memory_is_back($server);
        kill 'TERM', $pids[0];
        $server->wait_for_end;
        ok Mpi::all_gone(@pids), '  no process is left';
    }
}
done_testing;
