#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Tensor-parallel ranks of one server, as threads: the tokens equal those of one rank,
# whether requests are preempted, swapped or share a prefix; reloads work with ranks; and
# models that cannot be divided are refused with their line.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use JSON::PP;
use Test::More;

my @golden = @Golden::ANSWERS;
my $engine = "[engine]\nthreads = 1\npin = false\n";

# ---- golden tokens --------------------------------------------------------------------
for my $ranks (2, 4) {
    my $server = LlmServer->serve("[model]\npath = $Golden::MODEL\n${engine}tensor_parallel_size = $ranks\n[cache]\ndevice_memory = 256KiB\n"
        . "host_memory = 1MiB\n[plugins]\nscheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nmax_seqs = 64\nquantum = 1ms\n");
    like $server->log, qr/ranks: $ranks share the model \(threads\), this is rank 0/, "$ranks ranks";
    my @ids = Golden::all_at_once($server, 3);
    is_deeply $ids[$_], [($golden[$_]{greedy_ids}) x 3], "  \"$golden[$_]{prompt}\"" for 0 .. $#golden;
    my $preemptions = 'vllm:num_preemptions_total{model_name="stories260K",engine="0"}';
    for (1 .. 20) {
        last if $server->metric($preemptions) > 0;
        Golden::all_at_once($server, 8);
    }
    cmp_ok $server->metric($preemptions), '>', 0, '  some were swapped';
    is $server->stop, 0, '  the server ends well';
}

# ---- the demo model beside one rank -----------------------------------------------------
my $demo = LlmServer::source('share/demo-model');

sub demo {
    my ($size, $more) = @_;
    return "[model]\npath = $demo\nweights = f32\n${engine}tensor_parallel_size = $size\n[cache]\nelement = f32\ndevice_memory = 4MiB\n"
        . ($more // "[plugins]\nscheduler = fcfs\n");
}

sub answers {
    my ($server) = @_;
    my @answers;
    for my $prompt ('Once upon a time', 'Once upon a time', 'The little dog') {
        my @events = LlmServer::events($server->post('/v1/completions',
            { prompt => $prompt, max_tokens => 60, temperature => 0, stream => JSON::PP::true }));
        push @answers, join '', map { ref && @{ $_->{choices} } ? $_->{choices}[0]{text} : () } @events;
    }
    my $scored = $server->post('/v1/completions', { prompt => 'Tom and Lily played.', max_tokens => 1, echo => JSON::PP::true, logprobs => 2, temperature => 0 });
    push @answers, map { defined ? sprintf '%.2f', $_ + 0 : 'none' } @{ $scored->{json}{choices}[0]{logprobs}{token_logprobs} };
    return @answers;
}

{
    my $one = LlmServer->serve(demo(1));
    my @expected = answers($one);
    is $one->stop, 0, 'one rank ends well';
    my $two = LlmServer->serve(demo(2));
    is_deeply [answers($two)], \@expected, 'two ranks stream the same text, prompts score the same';

    # A reload changes policies under the ranks; their number needs a restart.
    $two->configure(demo(2, "[plugins]\nscheduler = sarathi\n[scheduler.sarathi]\nchunk = 32\n"));
    my $done = $two->post('/admin/reload', '');
    is $done->{status}, 200, 'a reload' or diag $done->{content};
    is_deeply [answers($two)], \@expected, '  and the same answers';
    $two->configure(demo(4));
    my $refused = $two->post('/admin/reload', '');
    like $refused->{content}, qr/tensor_parallel_size.*restart/, 'another number of ranks is refused';
    is_deeply [answers($two)], \@expected, '  and nothing changed';
    is $two->stop, 0, 'two ranks end well';
}

# ---- refusals -------------------------------------------------------------------------
{
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/llmserve.ini", "[server]\nlisten = 127.0.0.1:0\n[model]\npath = $Golden::MODEL\n[engine]\ntensor_parallel_size = 3\n");
    my $log = qx('@{[LlmServer::built('llmserve')]}' -c $folder/llmserve.ini 2>&1);
    is $? >> 8, 1, 'three ranks of a model with eight heads';
    like $log, qr/llmserve\.ini:6: \[engine\] tensor_parallel_size: 8 heads cannot be shared out to 3 ranks: use a number that divides 8$/m, '  the line and the reason';
}
done_testing;
