#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Several instances behind one server, on the CPU: the answers equal those of one
# instance, wherever a request runs and however it is handed over; a reload changes all
# instances or none; status and metrics list them; and invalid configurations are
# refused with their line.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Streams;
use JSON::PP;
use Test::More;

my @golden = @Golden::ANSWERS;

sub config {
    my ($engine, $plugins) = @_;
    return "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\n$engine"
        . "[cache]\ndevice_memory = 512KiB\nhost_memory = 1MiB\n[plugins]\n$plugins";
}

sub status { my ($server) = @_; return decode_json($server->get('/admin/status')->{content}) }

# The same seeds on any number of instances.
sub sampled {
    my ($server) = @_;
    return [map {
        $server->post('/v1/completions', { prompt => $golden[0]{prompt}, max_tokens => 40, temperature => 1,
            presence_penalty => 0.5, seed => $_, return_token_ids => JSON::PP::true })->{json}{choices}[0]{token_ids}
    } 1 .. 4];
}

my $one = LlmServer->serve(config('', "scheduler = fcfs\n"));
my $expected = sampled($one);
is scalar @{ status($one)->{instances} }, 1, 'one instance is listed too';
is_deeply [$one->get('/metrics')->{content} =~ /^llmserve_instance_(\w+\{.*)$/gm], ['up{instance="0",role="mixed"} 1'], '  and has one series of its own: that it is up';
is status($one)->{instances}[0]{status}, 'up', '  as the status says';
is $one->stop, 0;

# ---- mixed, and roles ------------------------------------------------------------------
for my $case (["instances = 2\n", "scheduler = sarathi\n", 'two mixed instances'],
              ["roles = prefill, decode\n", "scheduler = distserve\n", 'prefill and decode'],
              ["roles = prefill, decode, decode\n", "scheduler = distserve\n[scheduler.distserve]\naccept_frac = 0.5\n", 'two that decode']) {
    my ($engine, $plugins, $name) = @$case;
    my $server = LlmServer->serve(config($engine, $plugins));
    my @ids = Golden::all_at_once($server, 6);
    is_deeply $ids[$_], [($golden[$_]{greedy_ids}) x 6], "$name: \"$golden[$_]{prompt}\"" for 0 .. $#golden;
    is_deeply sampled($server), $expected, '  the same seeds, the same tokens';
    my $status = status($server);
    my @all = @{ $status->{instances} };
    my $over = 0;
    $over += $_->{handed_over} for @all;
    if ($engine =~ /roles/) {
        is_deeply [map { $_->{role} } @all], [$engine =~ /(prefill|decode)/g], '  roles are listed';
        is $over, 6 * @golden + 4, '  every request was handed over';
        is $server->metric('llmserve_handed_over_total'), $over, '  and counted';
        cmp_ok $server->metric('llmserve_handed_bytes_total'), '>', 0, '  with bytes';
    } else {
        is $over, 0, '  nobody is handed over';
        cmp_ok $_->{steps}, '>', 0, '  each has worked' for @all;
    }
    my $total = 0;
    $total += $_->{steps} for @all;
    is $status->{steps}, $total, '  the whole is the sum';
    $server->metric_becomes('llmserve_cache_units_free{tier="device"}', $server->metric('llmserve_cache_units{tier="device"}'))
        if $engine !~ /instances/;
    is $server->stop, 0, '  the server ends well';
}

# ---- clients that go away, reloads ------------------------------------------------------
{
    my $plugins = "scheduler = distserve\n[scheduler.distserve]\ndecode_batch = 8\n";
    my $server = LlmServer->serve(config("roles = prefill, decode\n", $plugins));
    my $streams = Streams->new($server, clients => 8, tokens => 60, prompts => [map { $_->{prompt_ids} } @golden]);
    $streams->learn;
    for my $round (1 .. 6) {
        my @gone = map { $server->connect } 1 .. 4;
        syswrite $_, LlmServer::raw_post('/v1/completions', encode_json({ prompt => 'Once', max_tokens => 200, stream => JSON::PP::true })) for @gone;
        my $good = $round % 2;
        $server->configure(config("roles = prefill, decode\n", $good ? "scheduler = distserve\ncache = " . ($round == 3 ? 'tiered' : 'paged')
            . "\n[scheduler.distserve]\ndecode_batch = " . (8 + $round) . "\n" : "scheduler = fcfs\n"));
        my $before = status($server);
        $server->signal('HUP');
        my $after;
        $streams->run(sub {
            $after = status($server);
            return $after->{reloads} + $after->{reloads_refused} > $before->{reloads} + $before->{reloads_refused};
        });
        is $after->{last_reload}{ok} ? 1 : 0, $good, "reload $round under clients: " . $after->{last_reload}{message};
        close $_ for @gone;
    }
    like status($server)->{last_reload}{message}, qr/hands no request over/, 'a scheduler without hand-over is refused';
    $streams->run(sub { $streams->{done} > 8 });
    $streams->finish;
    is_deeply $streams->{wrong}, [], 'no answer differs, fails or stops';
    cmp_ok $streams->{done}, '>', 8, '  of some';
    is $server->stop, 0, 'it ends well';
}

# ---- refusals -------------------------------------------------------------------------
sub refused {
    my ($engine, $plugins, $why, $name) = @_;
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/llmserve.ini", "[server]\nlisten = 127.0.0.1:0\n" . config($engine, $plugins));
    my $log = qx('@{[LlmServer::built('llmserve')]}' -c $folder/llmserve.ini 2>&1);
    isnt $? >> 8, 0, $name;
    like $log, $why, '  with the reason';
    return;
}

refused("instances = 2\nroles = prefill\n", "scheduler = distserve\n", qr/llmserve\.ini:9: \[engine\] roles: 1 roles for 2 instances/, 'too few roles');
refused("roles = decode, decode\n", "scheduler = distserve\n", qr/:8: \[engine\] roles: decode instances get their requests from prefill/, 'nobody takes requests');
refused("roles = prefill, cook\n", "scheduler = distserve\n", qr/expected mixed, prefill or decode; found 'cook'/, 'an unknown role');
refused("instances = 2\ngpus = 0\n", "scheduler = fcfs\n", qr/gpus: 1 GPUs for 2 instances/, 'too few GPUs');
refused("instances = 2\ntensor_parallel_size = 2\n", "scheduler = fcfs\n", qr/\[engine\] instances: 2 instances of 2 ranks each/, 'ranks and instances');
refused('', "scheduler = distserve\n", qr/scheduler distserve needs prefill and decode instances: set \[engine\] roles/, 'distserve on one instance');
refused("roles = prefill, decode\n", "scheduler = fcfs\n", qr/scheduler fcfs hands no request over/, 'fcfs on roles');
done_testing;
