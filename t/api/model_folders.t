#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Model folders as they are published: the hub's cache, an embedder whose tensors lack the
# prefix, a folder given instead of the file in it; refusals, and warnings in the log.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use JSON::PP;
use LlmServer;
use Test::More;

my $folder  = tempdir(CLEANUP => 1);
my $stories = LlmServer::source('t/data/models/stories260K');
my $json    = JSON::PP->new->utf8->canonical;
my $engine  = "[engine]\ndevice = cpu\nthreads = 1\n";

# A copy of the model in a folder, with changes of its config.json and of its tensors' names.
sub model {
    my ($path, $change, $rename) = @_;
    make_path($path);
    copy($_, $path) or die "$_: $!" for glob "$stories/*.json";
    my $config = $json->decode(LlmServer::read_file("$stories/config.json"));
    LlmServer::write_file("$path/config.json", $json->encode({ %$config, %{ $change // {} } }));
    my $weights = LlmServer::read_file("$stories/model.safetensors");
    my $length  = unpack 'Q<', $weights;
    my $header  = $json->decode(substr $weights, 8, $length);
    my $renamed = $json->encode({ map { $_ => $header->{$_} } keys %$header });
    $renamed = $json->encode({ map { ($rename->() => $header->{$_}) } keys %$header }) if $rename;
    $renamed .= ' ' while length($renamed) % 8;
    LlmServer::write_file("$path/model.safetensors", pack('Q<', length $renamed) . $renamed . substr $weights, 8 + $length);
    return $path;
}

sub check {
    my ($path) = @_;
    LlmServer::write_file("$folder/x.ini", LlmServer::whole("[model]\npath = $path\n$engine"));
    my $command = join ' ', map { "'$_'" } LlmServer::built('llmserve'), '-c', "$folder/x.ini", '--check-config';
    return scalar `$command 2>&1`;
}

# ---- names and tensors -----------------------------------------------------------------

my @told = ({ prompt => 'Once upon a time', max_tokens => 12, temperature => 0 });
my $server = LlmServer->serve('[model]' . "\npath = $stories\n$engine");
my $text = $server->post('/v1/completions', @told)->{json}{choices}[0]{text};
for my $path (qw(/v1/rerank /v1/score)) {
    my $answer = $server->post($path, { query => 'a', documents => ['b'], text_1 => 'a', text_2 => 'b' });
    is $answer->{status}, 400, "$path of a model that makes text";
    like $answer->{json}{error}{message}, qr/do not say that it makes vectors.*\[model\] pooling = last/, '  says what is missing';
}
is $server->post('/v1/embeddings', { input => 'a' })->{status}, 200, 'its vectors can be had';
is $server->stop, 0, 'it ends well';

my $snapshot = model("$folder/hub/models--some-org--small-model/snapshots/0123abcd", undef, sub { s/\Amodel\.//r });
$server = LlmServer->serve("[model]\npath = $snapshot\npooling = last\n$engine");
is $server->get('/v1/models')->{json}{data}[0]{id} // $json->decode($server->get('/v1/models')->{content})->{data}[0]{id},
    'some-org/small-model', "a snapshot has its repository's name";
is $server->post('/v1/completions', @told)->{json}{choices}[0]{text}, $text, '  tensors without "model." are the same model';
is $server->post('/v1/rerank', { query => 'a', documents => ['b'] })->{status}, 200, '  with pooling set, cosines are scores';
is $server->stop, 0, 'it ends well';

my $long = model("$folder/long", { original_max_position_embeddings => 64,
    rope_scaling => { type => 'longrope', short_factor => [1, 1, 1, 1], long_factor => [1, 2, 3, 4] } });
for my $case (['', 1], ['max_context = 64', 0]) {
    $server = LlmServer->serve("[model]\npath = $long\n$engine$case->[0]\n");
    my $warned = $server->log =~ /LongRoPE: contexts of up to 512 tokens.*max_context = 64/;
    is !!$warned, !!$case->[1], $case->[1] ? 'LongRoPE with long factors is warned of' : '  and with short ones it is not';
    $server->stop;
}

# ---- what is refused, and the advice ---------------------------------------------------

like check(model("$folder/mlx", { quantization => { group_size => 64, bits => 4 } })), qr/quantised for Apple's MLX/, 'MLX';
make_path("$folder/one", "$folder/two", "$folder/lora");
LlmServer::write_file("$folder/$_", '') for qw(one/x-Q4_K_M.gguf two/a.gguf two/b.GGUF lora/adapter_config.json);
like check("$folder/one"), qr/config\.json': No such file.*: name the file in the folder, x-Q4_K_M\.gguf/, 'a folder of one .gguf';
like check("$folder/two"), qr/: name one of the 2 \.gguf files/, 'of two';
like check("$folder/lora"), qr/it holds a LoRA adapter; name its model here, and the adapter in \[lora\]/, 'a LoRA';
{
    local @ENV{qw(HF_HOME HF_HUB_CACHE)} = ("$folder/hf", '');
    my $fetches = LlmServer::read_file(LlmServer::built('config.h')) =~ /^#define LLS_CURL 1/m;
    like check('some-org/small-GGUF:Q4_K_M'), $fetches ? qr/the hub's cache \(\S+\/hf\/hub\) does not have it; a start of llmserve .* fetches it/
        : qr/hf download some-org\/small-GGUF --include '\*Q4_K_M\*\.gguf' --local-dir/, "llama.cpp's names";
}
make_path("$folder/blobs");
LlmServer::write_file("$folder/blobs/0123456789abcdef", 'GGUF');
symlink "$folder/blobs/0123456789abcdef", "$folder/small-Q8_0.gguf";
like check("$folder/small-Q8_0.gguf"), qr/small-Q8_0\.gguf/, 'a link to a hash is called as it is';
done_testing;
