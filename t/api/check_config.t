#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# --check-config prints "ok" only for configurations that can start; warnings of the
# start appear in both.
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
    ['a foreign architecture', '[model]' . "\npath = " . model({ architectures => ['RwkvForCausalLM'] }),
        qr/architecture RwkvForCausalLM is not supported; the table of models in README/],
    ['a file that was cut off', "[model]\npath = $cut", qr/model\.safetensors: .*it was cut off/],
    ['no tokenizer',            "[model]\npath = " . model(undef, 'tokenizer.json'), qr/tokenizer\.json/],
    ['no weights',              "[model]\npath = " . model(undef, 'model.safetensors'), qr/neither model\.safetensors nor/],
    ['weights of other shapes', "[model]\npath = " . model({ intermediate_size => 100 }), qr/has shape \[.*\], but config\.json makes it/],
    ['a layer too many',        "[model]\npath = " . model({ num_hidden_layers => 50 }), qr/tensor model\.layers\.\d+\.\S+ is missing/],
    ['a GGUF file cut off',     "[model]\npath = $folder/x.gguf", qr/:\d+: \[model\] path: .*x\.gguf: the file ends inside of its version: it was cut off/],
    ['a foreign rope',          "[model]\npath = " . model({ rope_scaling => { rope_type => 'dynamic', factor => 2 } }),
        qr/rope scaling "dynamic" is not supported; supported are "default", "linear", "llama3", "yarn", "longrope" and "proportional"/],
    ['ranks that do not divide', "[model]\npath = $whole\n[engine]\ntensor_parallel_size = 7", qr/:6: \[engine\] tensor_parallel_size: \d+ heads cannot be shared out to 7/],
    ['instances of ranks',      "[model]\npath = $whole\n[engine]\ntensor_parallel_size = 2\ninstances = 2", qr/\[engine\] instances: 2 instances of 2 ranks each/],
    ['a scheduler that needs roles', "[model]\npath = $whole\n[plugins]\nscheduler = distserve", qr/scheduler distserve needs prefill and decode instances: set \[engine\] roles = prefill, decode/],
    ['roles that are not used', "[model]\npath = $whole\n[engine]\nroles = prefill, decode\n[plugins]\nscheduler = fcfs", qr/scheduler fcfs hands no request over/],
    ['a missing key file',      "api_keys = $folder/none\n[model]\npath = $whole", qr/:3: \[server\] api_keys: .*none/],
    ['more memory than there is', "[model]\npath = $whole\n[cache]\ndevice_memory = 100TiB", qr/test\.ini:6: \[cache\] device_memory: 1 cache of \d+ MiB is more than the \d+ MiB of memory that there are.*set less/],
    ['host memory that there is not', "[model]\npath = $whole\n[cache]\nhost_memory = 100TiB\ndevice_memory = 1MiB", qr/test\.ini:6: \[cache\] host_memory: 1 host tier of \d+ MiB is more than the \d+ MiB of memory that there are, which the weights and caches share: set less, or auto/],
    ['the same beside a cache of what fits', "[model]\npath = $whole\n[cache]\nhost_memory = 100TiB", qr/test\.ini:6: \[cache\] host_memory: 1 host tier of \d+ MiB is more/],
    ['host memory of instances', "[model]\npath = $whole\n[engine]\ninstances = 64\n[cache]\nhost_memory = 4TiB", qr/\[cache\] host_memory: 64 host tiers of \d+ MiB are more/],
    ['a state folder in none', "state = $folder/none/state\n[model]\npath = $whole", qr/test\.ini:3: \[server\] state: '\S+' cannot be made, for there is no folder '$folder\/none': make that one first/],
    ['decisions in no folder', "decisions = $folder/none/decisions\n[model]\npath = $whole", qr/test\.ini:3: \[server\] decisions: '\S+' cannot be made, for there is no folder '$folder\/none'/],
    ['a profile that there is not', "[model]\npath = $whole\n[engine]\nprofile = a100-9g", qr/test\.ini:6: \[engine\] profile: no profile 'a100-9g': neither a path nor a name in/],
    ['an unknown policy to choose from', "autopilot_policies = fcfs, mlqf:quantum=1..3:1\n[model]\npath = $whole", qr/test\.ini:3: \[server\] autopilot_policies: .*the nearest is 'mlfq'/],
    ['a policy file that there is not', "autopilot_policies = fcfs+./none.so\n[model]\npath = $whole", qr/test\.ini:3: \[server\] autopilot_policies: $folder\/none\.so: No such file/],
    ['a cache of nothing',      "[model]\npath = $whole\n[cache]\nblock_tokens = 256\ndevice_memory = 64KiB", qr/a cache of 64 KiB does not hold one block of keys and values \(\d+ KiB\)/],
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

my $server = LlmServer->serve($small . "host_memory = auto\n");
like $server->log, qr/warning .*\[engine\] max_context: 100000 is more than/, 'the start says so too';
like $server->log, qr/host memory for \d+ tokens in 0 MiB: as much as on the device; 25 % of the \d+ MiB of memory that are left would be more/,
  'host_memory = auto: the log says how much and why';
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

# ---- [cache] int8 ----------------------------------------------------------------------

# How many tokens the check says that a cache of 512 KiB holds, of the demo model's 1,024.
sub held {
    my ($cache, $int8, $said) = @_;
    my $ini = "[model]\npath = $whole\n[engine]\nmax_step_tokens = 64\n[cache]\nelement = bf16\nblock_tokens = 8\ndevice_memory = 1152KiB\nint8 = $int8\n[plugins]\ncache = $cache\n";
    my ($status, undef, $err) = llmserve($ini, '--check-config');
    is $status, 0, "cache $cache with int8 = $int8 can start";
    my $useless = qr/:11: \[cache\] int8: cache $cache makes no block int8: set \[plugins\] cache = tiered/;
    $said ? like($err, $useless, '  but it is no use') : unlike($err, qr/\bint8:/, '  and there is nothing to say of it');
    my ($tokens) = $err =~ /the cache holds (\d+) tokens/;
    return ($tokens, $ini);
}
my ($plain) = held('paged', 'off', 0);
cmp_ok +(held($_, 'all', 1))[0], '<=', $plain, '  and no more fits' for qw(paged contiguous);
cmp_ok +(held('tiered', 'swapped', 0))[0], '<=', $plain, '  nor with int8 on the host alone';
my ($most, $tiered) = held('tiered', 'all', 0);
cmp_ok $most, '>', $plain, '  and more fits';
cmp_ok $most, '<', 1024, '  though not the whole context';
$server = LlmServer->serve($tiered);
is decode_json($server->get('/v1/models')->{content})->{data}[0]{max_model_len}, $most, '  which /v1/models tells';
for my $asked (10, int($most / 2)) { # a longer prompt is for the scheduler to cut into steps
    $answer = $server->post($path, { prompt => [(5) x $asked], max_tokens => $most - $asked, ignore_eos => JSON::PP::true });
    is $answer->{json}{usage}{total_tokens}, $most, "  and is so, of a prompt of $asked";
}
is $server->post($path, { prompt => [(5) x $most], max_tokens => 1 })->{status}, 400, '  but one more is refused';

# A reload says what a check says, and the server goes on.
my $edit = sub {
    my ($change, $pattern) = @_;
    my $ini = LlmServer::read_file("$server->{folder}/llmserve.ini");
    LlmServer::write_file("$server->{folder}/llmserve.ini", $change->($ini));
    $server->post('/admin/reload', undef);
    my $came = $server->log_becomes($pattern);
    LlmServer::write_file("$server->{folder}/llmserve.ini", $ini);
    return $came;
};
for my $broken (
    [qr/\[cache\] device_memory: 1 cache of \d+ MiB is more than/, sub { $_[0] =~ s/1152KiB/100TiB/r }],
    [qr/\[server\] state: '\S+' cannot be made/, sub { $_[0] =~ s{\[server\]}{[server]\nstate = $folder/none/state}r }],
    [qr/\[engine\] profile: no profile 'a100-9g'/, sub { $_[0] =~ s/\[engine\]/[engine]\nprofile = a100-9g/r }],
    [qr/\[server\] autopilot_policies: .*nearest is 'mlfq'/, sub { $_[0] =~ s/\[server\]/[server]\nautopilot_policies = mlqf/r }],
) {
    my ($sentence, $change) = @$broken;
    ok $edit->($change, qr/refused, generation 1 goes on: .*\.ini:\d+: $sentence/), "a reload is refused: $sentence";
}
my $paged = (held('paged', 'all', 1))[0];
ok $edit->(sub { $_[0] =~ s/cache = tiered/cache = paged/r }, qr/generation 2: cache: tiered/), 'another manager takes over';
ok $server->log_becomes(qr/warning .*\[cache\] int8: cache paged makes no block int8/), '  with a word on int8';
is $server->post($path, { prompt => [(5) x 10], max_tokens => 4, ignore_eos => JSON::PP::true })->{json}{usage}{completion_tokens}, 4, '  and it answers';
is decode_json($server->get('/v1/models')->{content})->{data}[0]{max_model_len}, $paged, '  and tells how much fits now';
is $server->stop, 0, 'it ends well';

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
