#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve on the CUDA device: the module is found, opened and used (the emulated one of
# t/simt, with a dummy driver library), and errors if this is not possible.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Copy;
use File::Temp;
use JSON::PP;
use Test::More;

our $stories = LlmServer::source('t/data/models/stories260K');
my $plugins = $ENV{LLS_PLUGIN_PATH};
my $module  = LlmServer::built('t/simt/.libs/device_cuda.so');

sub ini {
    my ($device, $more) = @_;
    $more //= '';
    return "[model]\npath = $stories\npooling = mean\n[engine]\ndevice = $device\nthreads = 1\npin = false\n"
        . "max_step_tokens = 64\nmax_sequences = 4\n${more}[cache]\ngpu_memory_utilization = 0.3\n";
}

# A folder with this file as the module, before all others.
sub folder_with {
    my ($file) = @_;
    my $folder = File::Temp->newdir;
    copy($file, "$folder/device_cuda.so") or die "$file: $!";
    return $folder;
}

open my $golden_file, '<', "$stories/golden.jsonl" or die $!;
my @golden = map { decode_json($_) } <$golden_file>;

# The prompt's tokens as scored by a server: (id, rank, logprob to three digits) of each.
sub scored {
    my ($server) = @_;
    my $answer = $server->post('/v1/completions',
        { prompt => [@{ $golden[0]{prompt_ids} }, reverse @{ $golden[0]{greedy_ids} }[0 .. 9]],
          max_tokens => 1, prompt_logprobs => 0 });
    my @entries = grep { defined } @{ $answer->{json}{choices}[0]{prompt_logprobs} };
    return [map { my ($id) = keys %$_; [$id, $_->{$id}{rank}, sprintf '%.3f', $_->{$id}{logprob}] } @entries];
}

# The prompt's vector, computed in more than one chunk.
sub embedded {
    my ($server) = @_;
    return $server->post('/v1/embeddings', { input => [map { @{ $golden[0]{prompt_ids} } } 1 .. 15] })->{json}{data}[0]{embedding};
}

my $cpu = LlmServer->serve(ini('cpu'));
my $scored_by_cpu = scored($cpu);
my $embedded_by_cpu = embedded($cpu);
$cpu->stop;
cmp_ok(scalar(grep { $_->[1] > 1 } @$scored_by_cpu), '>', 4, 'a prompt is scored');

# ---- served ---------------------------------------------------------------------------

{
    my $folder = folder_with($module);
    local $ENV{LLS_PLUGIN_PATH} = "$folder:$plugins";
    local $ENV{LD_LIBRARY_PATH} = LlmServer::built('t/simt/.libs');
    for (['cuda'], ['auto'], ['cuda', "tensor_parallel_size = 2\n"]) {
        my ($device, $ranks) = @$_;
        my $server = LlmServer->serve(ini($device, $ranks));
        like($server->log, qr/cuda: emulated GPU \(sm_90/,
            "device = $device opens the module" . ($ranks ? ', two ranks too' : ''));
        my $n = 12;
        my @wanted = @{ $golden[0]{greedy_ids} }[0 .. $n - 1];
        my $answer = $server->post('/v1/completions',
            { prompt => $golden[0]{prompt_ids}, max_tokens => $n, temperature => 0,
              return_token_ids => JSON::PP::true, ignore_eos => JSON::PP::true });
        is_deeply($answer->{json}{choices}[0]{token_ids}, \@wanted, 'and its tokens are the golden ones');
        is_deeply(scored($server), $scored_by_cpu, 'and the tokens of a prompt are as likely as on the CPU');
        my $vector = embedded($server);
        is(scalar @$vector, 64, 'and a vector comes of a prompt');
        is(scalar(grep { abs($vector->[$_] - $embedded_by_cpu->[$_]) > 1e-3 } 0 .. 63), 0, '  which is the CPU\'s');
        is($server->stop, 0, 'it ends well');
    }
}

# ---- a device that fails --------------------------------------------------------------

# A launch that is refused; and a kernel that fails as it runs, which is named where each is waited for.
for my $failure ({ SIMT_FAIL_AFTER => 700 }, { SIMT_FAULT_AFTER => 700, LLS_CUDA_DEBUG => 1 }) {
    my $folder = folder_with($module);
    local $ENV{LLS_PLUGIN_PATH} = "$folder:$plugins";
    local $ENV{LD_LIBRARY_PATH} = LlmServer::built('t/simt/.libs');
    local @ENV{keys %$failure} = values %$failure; # the trial steps take less
    my $what = $failure->{LLS_CUDA_DEBUG} ? qr/(?!the step)[a-z_ ]+: a fault that was asked for/ : qr/.*: launch failed/;
    my $server = LlmServer->serve(ini('cuda'));
    my $answer;
    for my $i (1 .. 40) {
        $answer = $server->post('/v1/completions',
            { prompt => "Once upon a time $i", max_tokens => 2, temperature => 0 });
        last if $answer->{status} != 200;
    }
    is($answer->{status}, 500, 'the request that a device error meets ends with an error');
    is($server->wait_for_end, 1, 'and the server ends with status 1');
    like($server->log, qr/the engine failed, stopping: CUDA, $what/, 'saying why');
}

# ---- not served -----------------------------------------------------------------------

# The error of an llmserve that does not start.
sub refusal {
    my ($device) = @_;
    my $ini = File::Temp->new(SUFFIX => '.ini');
    print $ini "[server]\nlisten = 127.0.0.1:0\n", ini($device);
    close $ini;
    my $text = qx(${\ LlmServer::built('llmserve')} -c $ini 2>&1 </dev/null);
    isnt($?, 0, 'it does not start');
    return $text;
}

{
    my $folder = folder_with(LlmServer::built('t/plugin/.libs/cache_null.so'));
    local $ENV{LLS_PLUGIN_PATH} = "$folder:$plugins";
    local $ENV{LD_LIBRARY_PATH} = LlmServer::built('t/simt/.libs');
    like(refusal('cuda'), qr/\.ini:\d+: \[engine\] device: \S+device_cuda.so is of another build/,
        'a module of another build is refused');
    my $server = LlmServer->serve(ini('auto'));
    like($server->log, qr/ cpu: /, 'and the CPU computes where nobody insisted');
    $server->stop;
}

# ---- an encoder -----------------------------------------------------------------------

{
    my $folder = folder_with($module);
    local $ENV{LLS_PLUGIN_PATH} = "$folder:$plugins";
    local $ENV{LD_LIBRARY_PATH} = LlmServer::built('t/simt/.libs');
    local $stories = LlmServer::source('t/data/encoder/mean');
    like(refusal('cuda'), qr/has no attention in both directions, which an encoder needs: set \[engine\] device = cpu/,
        'an encoder is refused');
    my $server = LlmServer->serve(ini('auto'));
    like($server->log, qr/ cpu: /, 'and gets the CPU where nobody insisted');
    $server->stop;
}

SKIP: {
    skip 'there is a driver here', 2 if `ldconfig -p 2>/dev/null` =~ /libcuda\.so\.1/;
    my $folder = folder_with($module);
    local $ENV{LLS_PLUGIN_PATH} = "$folder:$plugins";
    like(refusal('cuda'), qr/\[engine\] device: NVIDIA's driver is not there: libcuda/,
        'without a driver the module is not even opened');
}

done_testing;
