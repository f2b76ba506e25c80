#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# int8 blocks on the CUDA device (the emulated one of t/simt), as the tiered cache makes and
# swaps them: the tokens equal those of the CPU with the same blocks in int8.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use File::Copy;
use File::Temp;
use JSON::PP;
use Test::More;

my $folder = File::Temp->newdir;
my $module = LlmServer::built('t/simt/.libs/device_cuda.so');
copy($module, "$folder/device_cuda.so") or die "$module: $!";

# 40 units: 20 blocks of 16 tokens, less than three answers of 72 take with their prompts. The
# quantum never ends, so that only memory parts them, whatever the machine does beside.
sub ini {
    my ($device, $int8) = @_;
    return "[model]\npath = $Golden::MODEL\n[engine]\ndevice = $device\nthreads = 1\npin = false\n"
        . "max_step_tokens = 32\nmax_sequences = 4\n[cache]\ndevice_memory = 200KiB\nhost_memory = 1MiB\nint8 = $int8\n"
        . "[plugins]\ncache = tiered\nscheduler = mlfq\n[scheduler.mlfq]\npreempt = swap\nmax_seqs = 4\nquantum = 1h\nstarve = 1h\n";
}

# The answer to a prompt alone, where each block is as it would be in any company.
sub alone {
    my ($server) = @_;
    my $body = Golden::body($Golden::ANSWERS[0]{prompt_ids}, $Golden::ANSWERS[0]);
    $body->{max_tokens} = 40;
    return $server->post('/v1/completions', $body)->{json}{choices}[0]{token_ids};
}

# Three at once; how many tokens came.
sub together {
    my ($server) = @_;
    my $answer = $server->post('/v1/completions',
        { prompt => [map { $Golden::ANSWERS[$_]{prompt_ids} } 0 .. 2], max_tokens => 72, ignore_eos => JSON::PP::true, temperature => 0 });
    return $answer->{json}{usage}{completion_tokens};
}

local $ENV{LLS_PLUGIN_PATH} = "$folder:$ENV{LLS_PLUGIN_PATH}";
local $ENV{LD_LIBRARY_PATH} = LlmServer::built('t/simt/.libs');
for my $int8 ('all', 'swapped') {
    my @alone;
    for my $device ('cpu', 'cuda') {
        my $server = LlmServer->serve(ini($device, $int8));
        push @alone, alone($server);
        my ($copied, $tokens) = 0;
        for (1 .. 10) { # on a busy machine the third may come when the others have taken all there is, and wait
            $tokens = together($server);
            $copied = $server->metric('llmserve_copied_bytes_total');
            last if $tokens != 216 || $copied > 0;
        }
        is $tokens, 216, "$device, int8 = $int8: three answers that have no room together";
        cmp_ok $copied, '>', 0, '  some were swapped';
        is $server->stop, 0, '  the server ends well';
    }
    is scalar @{ $alone[0] }, 40, "int8 = $int8: an answer";
    is_deeply $alone[1], $alone[0], '  of the same tokens on both';
}

done_testing;
