#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# LoRA adapters with an instance in each of two processes: a request is prefilled in one and decoded in the other,
# where its adapter's files are read; requests of the base model and of adapters answer with PEFT's tokens beside
# each other; adapters that requests load, unload and replace, or that a reload brings, are found there, too; files
# that have changed since are an error; a process that reads for seconds is not silent; and requests of a process that
# dies are answered by another.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Fcntl qw(F_WRLCK F_UNLCK);
use File::Copy;
use File::Temp;
use JSON::PP;
use LlmServer;
use Mpi;
use Time::HiRes ();
use Test::More;

use constant F_SETLEASE => 1024;    # Linux's, which Fcntl does not have

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;

my $true   = JSON::PP::true;
my $models = LlmServer::source('t/data/models');
my $made   = "$models/stories260K-lora";
my @wanted = @{ decode_json(LlmServer::read_file("$made/reference.json"))->{prompts} }; # of: none, first, second
my @scaled = @{ decode_json(LlmServer::read_file("$made-scaled/reference.json"))->{prompts} };
my @names  = qw(stories260K first second);
my $folder = File::Temp->newdir;

sub body {
    my ($i, %more) = @_;
    return { model => $names[$i], prompt => $wanted[$i]{ids}, max_tokens => 64, temperature => 0, ignore_eos => $true,
        return_token_ids => $true, %more };
}
sub ids { my ($answer) = @_; return $answer->{json}{choices}[0]{token_ids} }
sub fill {
    my ($from) = @_;
    copy("$made/$from/$_", "$folder/$_") or die "$folder/$_: $!" for qw(adapter_config.json adapter_model.safetensors);
    return;
}

sub config {
    my ($roles, $lora) = @_;
    return "[model]\npath = $models/stories260K\nweights = f32\n[cache]\nelement = f32\ndevice_memory = 2MiB\n"
        . "[engine]\ndevice = cpu\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\nroles = $roles\n[plugins]\nscheduler = distserve\n[scheduler.distserve]\naccept_frac = 1\n"
        . "[lora]\nruntime = true\nmax_loaded = 2\n$lora";
}
my $both   = "first = $made/first\nsecond = $made/second\n";
my $server = LlmServer->serve(config('prefill, decode', $both), undef, Mpi::run(2, Mpi::recovery()));

my @answers = $server->at_once(map { body($_ % 3) } 0 .. 8);
is_deeply ids({ json => $answers[$_] }), $wanted[ $_ % 3 ]{greedy}, "beside others: $names[$_ % 3]" for 0 .. 8;
cmp_ok $server->metric('llmserve_handed_bytes_total'), '>', 0, '  decoded in another process';
is_deeply ids($server->post('/v1/completions', body(0, prompt => $scaled[2]{ids}, lora => [{ id => 1, scale => -1.5 }]))),
    $scaled[2]{greedy}, 'with a scale';

# ---- loaded by a request, in place of one in memory; other files at the same path
fill('second');
for my $case (['second', 2], ['first', 1]) {
    my ($from, $i) = @$case;
    fill($from);
    is $server->post('/v1/load_lora_adapter', { lora_name => 'third', lora_path => "$folder" })->{status}, 200, "$from is loaded";
    is_deeply ids($server->post('/v1/completions', body($i, model => 'third'))), $wanted[$i]{greedy}, '  answers';
    is_deeply ids($server->post('/v1/completions', body($_))), $wanted[$_]{greedy}, "  and so does $names[$_]" for 0 .. 2;
    is $server->post('/v1/unload_lora_adapter', { lora_name => 'third' })->{status}, 200, '  and is unloaded';
}

# ---- a reload; files that change after it has read them
$server->configure(config('prefill, decode', "third = $folder\n"));
is $server->post('/admin/reload')->{status}, 200, 'a reload with another adapter';
is_deeply ids($server->post('/v1/completions', body(1, model => 'third'))), $wanted[1]{greedy}, '  which answers';
is $server->post('/v1/completions', body(2))->{status}, 404, '  and without the former ones';
fill('second');
is $server->post('/v1/load_lora_adapter', { lora_name => 'same', lora_path => "$folder" })->{status}, 200, 'other files at its path';
is_deeply ids($server->post('/v1/completions', body(2, model => 'same'))), $wanted[2]{greedy}, '  are read there again';
my $changed = $server->post('/v1/completions', body(1, model => 'third'));
is $changed->{status}, 500, '  the former files are gone for a request that has them';
ok $server->log_becomes(qr/\Q$folder\E: the adapter has changed since process 0 read it/), '  the log says so';

# ---- files that take long to open there, since this test has a lease on them: the process is not silent meanwhile
SKIP: {
    fill('second');
    is $server->post('/v1/load_lora_adapter', { lora_name => 'slow', lora_path => "$folder" })->{status}, 200, 'files that process 0 has read';
    my $asked = 0;
    local $SIG{IO} = sub { $asked = 1 };
    open my $lease, '+<', "$folder/adapter_model.safetensors" or die "$folder: $!";
    skip "no leases on files in /tmp: $!", 3 unless fcntl $lease, F_SETLEASE, F_WRLCK;
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json(body(2, model => 'slow')), 'Connection: close');
    my $until = Time::HiRes::time() + $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.01) while !$asked && Time::HiRes::time() < $until;
    ok $asked, '  and another has to wait for';
    $until = Time::HiRes::time() + 3;    # silence is counted after 2 s
    Time::HiRes::sleep(0.01) while Time::HiRes::time() < $until;    # signals end a sleep
    unlike $server->log, qr/nothing was heard/, '  for seconds, in which it is heard of';
    fcntl $lease, F_SETLEASE, F_UNLCK or die "$folder: $!";
    is_deeply ids({ json => decode_json((split /\r\n\r\n/, LlmServer::read_all($socket), 2)[1]) }), $wanted[2]{greedy}, '  until it has read them, and answers';
}
Mpi::memory_is_back($server);
Mpi::ends($server, Mpi::pids($server));

# ---- a process dies with requests that wait in it
SKIP: {
    skip 'this mpirun ends all processes when one dies', 1 unless Mpi::recovery();
    $server = LlmServer->serve(config('decode, prefill, prefill', $both), undef, Mpi::run(3, Mpi::recovery()));
    my @pids = Mpi::pids($server);
    kill 'STOP', $pids[2];
    my @sockets = map { my $socket = $server->connect; syswrite $socket, LlmServer::raw_post('/v1/completions', encode_json(body($_ % 3)), 'Connection: close'); $socket } 0 .. 8;
    ok $server->metric_becomes('llmserve_generations_live', 5), 'one prefill instance answers its half of nine requests';
    kill 'KILL', $pids[2];
    is_deeply [Mpi::tally(\@sockets, [map { $_->{greedy} } @wanted], qr/instance_lost/)], [9, 0, 0], 'the half of the other, which dies, is answered too';
    Mpi::memory_is_back($server);
    Mpi::ends($server, @pids);
}
done_testing;
