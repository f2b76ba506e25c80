#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Instances as processes started by mpirun: the answers equal those of one instance,
# wherever a request runs and however it is handed over; the views of all show the state
# of each; requests of a killed process continue elsewhere; and a failed start is
# reported once.
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
my $LONG = 420;    # tokens: long enough to be killed in
my @RECOVER = Mpi::recovery();

sub config {
    my ($engine, $plugins, $memory) = @_;
    $memory //= '512KiB';
    return "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\n$engine"
        . "[cache]\ndevice_memory = $memory\nhost_memory = 1MiB\n[plugins]\n$plugins";
}

sub status { my ($server) = @_; return decode_json($server->get('/admin/status')->{content}) }

# Asked of one instance and of many: sampled, by lists, with a grammar, with scores of the prompt,
# with alternatives.
my @odd = (
    (map { { prompt => $golden[0]{prompt}, max_tokens => 40, temperature => 1, presence_penalty => 0.5, seed => $_ } } 1 .. 4),
    { prompt => 'Once', max_tokens => 60, temperature => 1, seed => 9, guided_json => '{"type":"object","additionalProperties":false,'
        . '"properties":{"name_of_the_cat":{"type":"string","maxLength":8},"asleep":{"type":"boolean"}},"required":["name_of_the_cat","asleep"]}' },
    { prompt => 'Once upon a time', max_tokens => 12, temperature => 0, prompt_logprobs => 2, logprobs => 3 },
    { prompt => 'Once upon a time', max_tokens => 40, temperature => 0, allowed_token_ids => [3 .. 440], bad_words => ['little', 'named'] },
    { prompt => 'The dog', max_tokens => 40, temperature => 1, seed => 7, mirostat => 2, mirostat_tau => 3, dry_multiplier => 0.8, dry_sequence_breakers => ['he', "\n\n"] },
    { prompt => 'The cat', max_tokens => 30, n => 2, seed => 3, temperature => 1, logit_bias => { 400 => 2 }, stop => ['he'] },
);

sub odd {
    my ($server) = @_;
    return [map { [map { [@$_{qw(index token_ids text finish_reason logprobs prompt_logprobs)}] } sort { $a->{index} <=> $b->{index} } @{ $_->{choices} }] }
        $server->at_once(map { { %$_, return_token_ids => JSON::PP::true } } @odd)];
}

sub long {
    my ($golden) = @_;
    return { prompt => $golden->{prompt_ids}, max_tokens => $LONG, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true };
}

my $one = LlmServer->serve(config('', "scheduler = fcfs\n", '2MiB'));
my $expected = odd($one);
my @long = map { $_->{choices}[0]{token_ids} } map { $one->post('/v1/completions', long($_))->{json} } @golden;
is $one->stop, 0;

sub first_pid { my ($server) = @_; return $server->log =~ /this is process 0, pid (\d+)/ ? $1 : die $server->log }

# ---- the same answers ------------------------------------------------------------------
my @machines = ([2, "instances = 2\n", "scheduler = sarathi\n", 'two mixed instances'],
              [3, "roles = prefill, decode, decode\n", "scheduler = distserve\n", 'two that decode'],
              [3, "roles = decode, prefill, decode\n", "scheduler = distserve\n", 'process 0 decodes'],
              [4, "roles = prefill, decode, prefill, decode\n", "scheduler = aligned\n", 'aligned'],
              [3, "roles = prefill, decode, decode\n", "scheduler = aligned\ncache = tiered\n[scheduler.aligned]\nclass_frac = 0\nrmin = 4\noffers_frac = 0\n", 'aligned, its pool on the host of process 0']);
for my $case (LlmServer::sanitized() ? @machines[0, 2, 4] : @machines) {
    my ($n, $engine, $plugins, $name) = @$case;
    my $server = LlmServer->serve(($n == 2 ? "log_level = debug\n" : '') . config($engine, $plugins), undef, Mpi::run($n, @RECOVER));
    is scalar(() = $server->log =~ /debug +instances: blocks cannot go by NCCL \(\[engine\] blocks_by = auto\): this device has no NCCL/g), $n, '  why not by NCCL, once a process' if $n == 2;
    like $server->log, qr/\Q$n\E instances are processes \(mpi\)/, "$name: $n processes, without a key that says so";
    is join(' ', sort $server->log =~ /this is process (\d+)/g), '0 1', '  each calls itself by its own number' if $n == 2;
    my @ids = Golden::all_at_once($server, 6);
    is_deeply $ids[$_], [($golden[$_]{greedy_ids}) x 6], "  \"$golden[$_]{prompt}\"" for 0 .. $#golden;
    is_deeply odd($server), $expected, '  what is sampled, scored, kept to a grammar';
    my $status = status($server);
    my @all = @{ $status->{instances} };
    my ($over, $taken) = (0, 0);
    $over += $_->{handed_over}, $taken += $_->{taken_over} for @all;
    cmp_ok $_->{steps}, '>', 0, "  each has worked ($_->{role})" for @all;
    if ($engine =~ /roles/) {
        is_deeply [map { $_->{role} } @all], [$engine =~ /(prefill|decode)/g], '  roles are listed';
        cmp_ok $over, '>=', 6 * @golden, '  requests were handed over';
        cmp_ok $server->metric('llmserve_handed_bytes_total'), '>', 0, '  with bytes';
        cmp_ok scalar(grep { $_->{role} eq 'decode' && $_->{taken_over} > 2 } @all), '==', scalar(grep { $_->{role} eq 'decode' } @all), '  to all that decode';
        my $queues = $server->get('/admin/queues');
        is $queues->{status}, 200, '  queues can be looked at';
    }
    is $status->{scheduler_fallback}, undef, '  no plan was bad';
    cmp_ok $all[0]{policies}{cache}{events}{offloads}, '>', 0, '  offers went to the host there' if $plugins =~ /offers_frac/;
    Mpi::memory_is_back($server);
    my @pids = Mpi::pids($server);
    kill 'TERM', first_pid($server);
    is $server->wait_for_end, 0, '  process 0 ends all when it ends';
    ok Mpi::all_gone(@pids), '  no process is left';
}

# ---- tenants ----------------------------------------------------------------------------
# A scheduler in another process has a request's tenant by its name: what a request costs, 3 and 2 x 8, over 100.
{
    my $server = LlmServer->serve(config("instances = 2\n", "scheduler = vtc\n[scheduler.vtc]\nweights = alice:100\n"), undef, Mpi::run(2, @RECOVER));
    $server->at_once(map { { prompt => [1, 403, 2], max_tokens => 8, ignore_eos => JSON::PP::true, user => 'alice' } } 1 .. 8);
    my @counters = map { join(' ', @{ $_->{lines} }) =~ /tenant \d+ counter ([\d.]+)/ } @{ decode_json($server->get('/admin/queues')->{content})->{instances} };
    is scalar(@counters), 2, 'each process has had requests of a tenant';
    is_deeply [grep { $_ == 0 || $_ > 8 * 0.19 } @counters], [], '  and knows its name';
    kill 'TERM', first_pid($server);
    is $server->wait_for_end, 0, '  it ends well';
}

# ---- placing by load --------------------------------------------------------------------
# The second that decodes has a fourth of the first one's memory, and gets fewer.
{
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/run", "#!/bin/sh\n# PROGRAM -c FILE\nif [ \"\$OMPI_COMM_WORLD_RANK\" = 2 ]; then sed 's/2MiB/512KiB/' \"\$3\" >'$folder/2.ini'; exec \"\$1\" -c '$folder/2.ini'; fi\nexec \"\$@\"\n");
    chmod 0755, "$folder/run";
    for my $scheduler ('distserve', 'aligned') {
        my $server = LlmServer->serve(config("roles = prefill, decode, decode\n", "scheduler = $scheduler\n", '2MiB'), undef, Mpi::run(3, @RECOVER), "$folder/run");
        my @bodies = map { { %{ long($golden[$_ % @golden]) }, max_tokens => 200 } } 1 .. 30;
        my @answers = $server->at_once(@bodies);
        is scalar(grep { @{ $_->{choices}[0]{token_ids} // [] } == 200 } @answers), 30, "$scheduler places by the load of other processes: all are answered";
        my @all = @{ status($server)->{instances} };
        cmp_ok $all[1]{taken_over}, '>', 1.3 * $all[2]{taken_over}, '  the one with more memory gets more';
        note "$all[1]{taken_over} and $all[2]{taken_over}";
        kill 'TERM', first_pid($server);
        is $server->wait_for_end, 0, '  it ends well';
    }
}

# ---- clients that go away, a reload ------------------------------------------------------
{
    my $plugins = "scheduler = distserve\n";
    my $server = LlmServer->serve(config("roles = prefill, decode\n", $plugins), undef, Mpi::run(2, @RECOVER));
    my $streams = Streams->new($server, clients => 6, tokens => 60, prompts => [map { $_->{prompt_ids} } @golden]);
    $streams->learn;
    for my $round (1 .. 4) {
        my @gone = map { $server->connect } 1 .. 4;
        syswrite $_, LlmServer::raw_post('/v1/completions', encode_json({ prompt => 'Once', max_tokens => 200, stream => JSON::PP::true })) for @gone;
        my $until = $streams->{done} + 4;
        $streams->run(sub { $streams->{done} > $until });
        close $_ for @gone;
    }
    $server->configure(config("roles = prefill, decode\n", "scheduler = distserve\n[scheduler.distserve]\ndecode_batch = 8\n"));
    kill 'HUP', first_pid($server);
    $streams->run(sub { defined status($server)->{last_reload} });
    like status($server)->{last_reload}{message}, qr/scheduler: distserve 1\.0/, 'a reload beside them';
    $streams->finish;
    is_deeply $streams->{wrong}, [], '  no answer differs, fails or stops';
    Mpi::memory_is_back($server);
    kill 'TERM', first_pid($server);
    is $server->wait_for_end, 0, '  it ends well';
}

# ---- deaths ------------------------------------------------------------------------------
SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless @RECOVER;
    my $server = LlmServer->serve(config("roles = prefill, decode, decode\n", "scheduler = distserve\n", '2MiB'), undef, Mpi::run(3, @RECOVER));
    my @pids = Mpi::pids($server);
    is scalar @pids, 3, 'deaths: three processes';
    my @sockets = map { $server->connect } 1 .. 6;
    syswrite $_, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":450,"ignore_eos":true,"stream":true}', 'Connection: close') for @sockets;
    my @begun = (LlmServer::read_until($sockets[0], qr/"text"/), ('') x $#sockets);
    kill 'KILL', $pids[1];
    my @answers = map { $begun[$_] . LlmServer::read_all($sockets[$_]) } 0 .. $#sockets;
    unlike join('', @answers), qr/<timeout>/, 'one that decodes is killed in the middle of answers: all end';
    my @whole = grep { /\[DONE\]/ && !/"error"/ } @answers;
    is @whole, @answers, '  whole: they go on elsewhere' or diag join "\n", @answers;
    my @ids = Golden::all_at_once($server, 4);
    is_deeply $ids[$_], [($golden[$_]{greedy_ids}) x 4], '  the service goes on' for 0 .. $#golden;
    is_deeply odd($server), $expected, '  as it was';
    is $server->get('/health')->{status}, 200, '  and takes requests';
    like $server->log, qr/instances: instance 1 \(decode\): process $pids[1] has died/, '  the log says who died';
    Mpi::memory_is_back($server);

    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":400,"ignore_eos":true,"stream":true}', 'Connection: close');
    LlmServer::read_until($socket, qr/"text"/);
    kill 'KILL', $pids[2];
    unlike LlmServer::read_all($socket), qr/<timeout>/, 'the last one that decodes is killed: the answer ends';
    $server->wait_for_end;
    like $server->log, qr/the engine failed, stopping: no instance is left that decodes: instance 2/, '  and the service, with the reason';
    ok Mpi::all_gone(@pids), '  no process is left';
}

SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless @RECOVER;
    my $server = LlmServer->serve(config("roles = prefill, decode, decode\n", "scheduler = distserve\n"), undef, Mpi::run(3, @RECOVER));
    my @pids = Mpi::pids($server);
    kill 'KILL', $pids[0];
    $server->wait_for_end;
    ok Mpi::all_gone(@pids), 'process 0 is killed: no process is left';
    like $server->log, qr/instance 2 ends: instance 0: process $pids[0] has died/, '  and each says why';
}

# At any moment: whatever was asked is answered, as if nothing had happened.
SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless @RECOVER;
    for my $round (LlmServer::rounds(6)) {
        my $victim = 1 + $round % 2;
        my $roles = $round % 2 ? 'prefill, prefill, decode, decode' : 'prefill, decode, prefill, decode';
        my $server = LlmServer->serve(config("roles = $roles\n", "scheduler = distserve\n", '2MiB'), undef, Mpi::run(4, @RECOVER));
        my @pids = Mpi::pids($server);
        my @sockets = map { $server->connect } 1 .. 24;
        for my $i (0 .. $#sockets) {
            syswrite $sockets[$i], LlmServer::raw_post('/v1/completions', encode_json(long($golden[$i % @golden])), 'Connection: close');
        }
        sleep 0.02 * $round;
        if ($round > 4) {    # in the middle of answers, however fast all of it is
            my $until = time + $LlmServer::TIMEOUT;
            sleep 0.01 until status($server)->{instances}[$victim]{requests}{running} > 0 || time > $until;
        }
        kill 'KILL', $pids[$victim];
        my ($whole, $lost, $odd) = Mpi::tally(\@sockets, \@long, qr/"code":"instance_lost"/);
        is_deeply [$whole, $lost, $odd], [24, 0, 0], "a kill at a moment of its own ($round): all answers are whole";
        my @ids = Golden::all_at_once($server, 1);
        is_deeply $ids[$_], [$golden[$_]{greedy_ids}], '  the service goes on' for 0 .. $#golden;
        Mpi::memory_is_back($server);
        kill 'TERM', $pids[0];
        $server->wait_for_end;
        ok Mpi::all_gone(@pids), '  it ends';
    }
}

# ---- starts that fail ---------------------------------------------------------------------
sub fails {
    my ($n, $engine, $why, $name, $script) = @_;
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/llmserve.ini", "[server]\nlisten = 127.0.0.1:0\n" . config($engine, "scheduler = distserve\n"));
    my $program = "'" . LlmServer::built('llmserve') . "' -c $folder/llmserve.ini";
    my @launcher = Mpi::run($n);
    LlmServer::write_file("$folder/run", "#!/bin/sh\n" . ($script // '') . "exec $program\n");
    chmod 0755, "$folder/run";
    my $log = qx(@launcher $folder/run 2>&1);
    isnt $?, 0, $name;
    my @said = $log =~ /($why)/g;
    is scalar @said, 1, '  with the reason, once' or diag $log;
    return;
}

fails(2, "roles = prefill, decode, decode\n", qr/\[engine\] roles: 3 instances are asked for and 2 processes were started/, 'too few processes');
fails(2, "roles = prefill, decode\n", qr/error   server: \S+: \[engine\] ranks: process 1: \S+1\.ini:\d+: no scheduler 'nothing'/, 'one that cannot begin',
    "if [ \"\$OMPI_COMM_WORLD_RANK\" = 1 ]; then sed 's/distserve/nothing/' \$(dirname \$0)/llmserve.ini >\$(dirname \$0)/1.ini; exec '" . LlmServer::built('llmserve') . "' -c \$(dirname \$0)/1.ini; fi\n");
fails(2, "roles = prefill, decode\n", qr/error   server: instance 1 \(decode\): .*without_weights/, 'one that finds no weights',
    "if [ \"\$OMPI_COMM_WORLD_RANK\" = 1 ]; then mkdir \$(dirname \$0)/without_weights; cp $Golden::MODEL/*.json \$(dirname \$0)/without_weights; sed \"s,^path = .*,path = \$(dirname \$0)/without_weights,\" \$(dirname \$0)/llmserve.ini >\$(dirname \$0)/1.ini; exec '" . LlmServer::built('llmserve') . "' -c \$(dirname \$0)/1.ini; fi\n");
fails(2, "roles = prefill, decode\n", qr/error   server: instance 1 \(decode\): it has another configuration/, 'another configuration',
    "if [ \"\$OMPI_COMM_WORLD_RANK\" = 1 ]; then sed 's/^threads/max_requests = 7\\nthreads/' \$(dirname \$0)/llmserve.ini >\$(dirname \$0)/1.ini; exec '" . LlmServer::built('llmserve') . "' -c \$(dirname \$0)/1.ini; fi\n");
done_testing;
