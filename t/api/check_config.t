#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# --check-config says "ok" to nothing that cannot start, and what is odd at the start is
# said by both.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

my $folder = tempdir(CLEANUP => 1);
my $demo   = LlmServer::source('share/demo-model');

# (exit status, stdout, stderr) of llmserve with this configuration.
sub llmserve {
    my ($ini, @arguments) = @_;
    LlmServer::write_file("$folder/test.ini", "[server]\nlisten = 127.0.0.1:0\n$ini");
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$folder/out" or die;
        open STDERR, '>', "$folder/err" or die;
        exec LlmServer::under(), LlmServer::built('llmserve'), '-c', "$folder/test.ini", @arguments or die;
    }
    waitpid $pid, 0;
    return ($? >> 8, map { LlmServer::read_file("$folder/$_") } qw(out err));
}

# A model folder like the demo model's but for what is changed in config.json and left out.
my $models = 0;
sub model {
    my ($change, @without) = @_;
    my $path = "$folder/model" . ++$models;
    mkdir $path or die "$path: $!";
    for my $name (qw(config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json)) {
        copy("$demo/$name", "$path/$name") or die "$name: $!" unless grep { $_ eq $name } @without;
    }
    my $config = JSON::PP->new->decode(LlmServer::read_file("$demo/config.json"));
    LlmServer::write_file("$path/config.json", JSON::PP->new->encode({ %$config, %{ $change // {} } }));
    return $path;
}

my $cut = model();
truncate "$cut/model.safetensors", 1_000_000 or die "truncate: $!";
LlmServer::write_file("$folder/x.gguf", 'GGUF');
my $whole = model();

my @cannot_start = (
    # what, configuration, sentence, whether a start says it too
    ['a foreign architecture', '[model]' . "\npath = " . model({ architectures => ['FalconForCausalLM'] }),
        qr/architecture FalconForCausalLM is not supported; supported are Llama \(2, 3, Mistral, .*OPT, GPT-NeoX/],
    ['a file that was cut off', "[model]\npath = $cut", qr/model\.safetensors: .*it was cut off/],
    ['no tokenizer',            "[model]\npath = " . model(undef, 'tokenizer.json'), qr/tokenizer\.json/],
    ['no weights',              "[model]\npath = " . model(undef, 'model.safetensors'), qr/neither model\.safetensors nor/],
    ['weights of other shapes', "[model]\npath = " . model({ intermediate_size => 100 }), qr/has shape \[.*\], but config\.json makes it/],
    ['a layer too many',        "[model]\npath = " . model({ num_hidden_layers => 50 }), qr/tensor model\.layers\.\d+\.\S+ is missing/],
    ['a GGUF file cut off',     "[model]\npath = $folder/x.gguf", qr/:\d+: \[model\] path: .*x\.gguf: the file ends inside of its version: it was cut off/],
    ['a foreign rope',          "[model]\npath = " . model({ rope_scaling => { rope_type => 'dynamic', factor => 2 } }),
        qr/rope scaling "dynamic" is not supported; supported are "default", "linear", "llama3", "yarn" and "longrope"/],
    ['ranks that do not divide', "[model]\npath = $whole\n[engine]\ntensor_parallel_size = 7", qr/:6: \[engine\] tensor_parallel_size: \d+ heads cannot be shared out to 7/],
    ['instances of ranks',      "[model]\npath = $whole\n[engine]\ntensor_parallel_size = 2\ninstances = 2", qr/\[engine\] instances: 2 instances of 2 ranks each/],
    ['a scheduler that needs roles', "[model]\npath = $whole\n[plugins]\nscheduler = distserve", qr/scheduler distserve needs prefill and decode instances: set \[engine\] roles = prefill, decode/],
    ['roles that are not used', "[model]\npath = $whole\n[engine]\nroles = prefill, decode\n[plugins]\nscheduler = fcfs", qr/scheduler fcfs hands no request over/],
    ['a missing key file',      "api_keys = $folder/none\n[model]\npath = $whole", qr/:3: \[server\] api_keys: .*none/],
    ['a cache of nothing',      "[model]\npath = $whole\n[cache]\nblock_tokens = 256\ndevice_memory = 64KiB", qr/does not hold one block of keys and one of values/],
);
for my $case (@cannot_start) {
    my ($what, $ini, $sentence) = @$case;
    my ($status, $out, $err) = llmserve("$ini\n", '--check-config');
    is_deeply [$status, $out], [2, ''], "$what is not ok";
    like $err, $sentence, '  and why';
    ($status, undef, $err) = llmserve("$ini\n");
    isnt $status, 0, '  nor does it start';
    like $err, $sentence, '  and why';
}
SKIP: {
    skip 'there may be a GPU', 2 if -e '/dev/nvidiactl' || $ENV{LLS_CUDA_EMULATED};
    my ($status, $out, $err) = llmserve("[model]\npath = $whole\n[engine]\ndevice = cuda\n", '--check-config');
    is $status, 2, 'a GPU that is not there is not ok';
    like $err, qr/:6: \[engine\] device: /, '  and why';
}

my ($status, $out, $err) = llmserve("api_keys = $folder/none\n[model]\npath = $cut\n[engine]\ntensor_parallel_size = 7\n", '--check-config');
is $status, 2, 'three mistakes';
like $err, qr/api_keys.*tensor_parallel_size.*cut off/s, '  are told at once';
($status, $out, $err) = llmserve("[model]\npath = " . model(undef, 'model.safetensors') . "\nload_format = dummy\n", '--check-config');
is_deeply [$status, $err], [0, ''], 'random weights need no file';

# ---- what is odd ----------------------------------------------------------------------

# The check of a key weights for a model that is quantised so: what it says.
sub said_of_weights {
    my ($quantisation, $weights) = @_;
    my $path = model({ quantization_config => $quantisation }, 'model.safetensors');
    my ($status, undef, $said) =
      llmserve("[model]\npath = $path\nload_format = dummy\nweights = $weights\n", '--check-config');
    is $status, 0, "weights = $weights of $quantisation->{quant_method} can be had";
    return $said;
}
like said_of_weights({ quant_method => 'gptq', bits => 4, group_size => 32 }, $_),
  qr/:6: \[model\] weights: the model is quantised to 4 bits already: $_ quantises it again, which costs accuracy/,
  '  with a word on what that costs' for qw(int4 int8);
is said_of_weights({ quant_method => 'fp8' }, 'int4'), '', '  and none where it saves memory';
is said_of_weights({ quant_method => 'gptq', bits => 4, group_size => 32 }, 'auto'), '', '  nor where nothing is asked for';

my $small = "[model]\npath = $whole\n[engine]\nmax_context = 100000\n[cache]\nblock_tokens = 16\ndevice_memory = 512KiB\n";
($status, $out, $err) = llmserve($small, '--check-config');
is $status, 0, 'what can start is ok';
like $err, qr/:6: \[engine\] max_context: 100000 is more than the \d+ positions of the model/, '  with a word on a context that is cut';
like $err, qr/:9: \[cache\] device_memory: the cache holds \d+ tokens, less than the context of \d+/, '  and on a small cache';
my ($tokens) = $err =~ /the cache holds (\d+) tokens/;

my $server = LlmServer->serve($small);
like $server->log, qr/warning .*\[engine\] max_context: 100000 is more than/, 'the start says so too';
like $server->log, qr/warning .*\[cache\] device_memory: the cache holds $tokens tokens/, '  both';
my $path = '/v1/completions';
is decode_json($server->get('/v1/models')->{content})->{data}[0]{max_model_len}, $tokens, '/v1/models tells how much fits';
my $answer = $server->post($path, { prompt => [(5) x ($tokens + 10)], max_tokens => 1 });
is $answer->{status}, 400, 'a prompt that can never fit is refused';
like $answer->{json}{error}{message}, qr/\AThis model's maximum context length is $tokens tokens\./, '  with that length';
$answer = $server->post($path, { prompt => [(5) x 10], max_tokens => $tokens });
is_deeply [$answer->{status}, $answer->{json}{error}{code}], [400, 'context_length_exceeded'], 'so is an answer that cannot';
$answer = $server->post($path, { prompt => [(5) x 10], max_tokens => $tokens - 10, ignore_eos => JSON::PP::true });
is $answer->{json}{usage}{total_tokens}, $tokens, 'what is let in has all of its room';
is $server->stop, 0, 'the server ends well';

# A model that reads images too: its text part is served, and the log says so.
mkdir "$folder/images" or die;
my $images = LlmServer::source('t/data/models/gemma3-images');
copy("$images/$_", "$folder/images/$_") or die "$_: $!" for qw(config.json model.safetensors);
copy("$demo/$_",   "$folder/images/$_") or die "$_: $!" for qw(tokenizer.json tokenizer_config.json);
$server = LlmServer->serve("[model]\npath = $folder/images\n");
like $server->log, qr/model: its text part is loaded; what reads images is left alone/, 'of a model that reads images the text part';
$answer = $server->post($path, { prompt => [(5) x 10], max_tokens => 4, ignore_eos => JSON::PP::true });
is $answer->{json}{usage}{completion_tokens}, 4, '  answers';
is $server->stop, 0, '  and ends well';
done_testing;
