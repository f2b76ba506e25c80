#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The layer that a model was trained to guess with (MTP), or that was trained for it (EAGLE-3), over HTTP: the answers
# are those of a server without a drafter, also of prompts that are cached or computed in parts, and beside other
# requests; the log says what is loaded, and where the layer is missing or not used; damaged EAGLE-3 folders are refused.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K'); # has a tokenizer, which the models lack

sub folder {
    my ($model) = @_;
    my $folder = File::Temp->newdir;
    symlink LlmServer::source("t/data/models/$model/$_"), "$folder/$_" or die $! for 'config.json', 'model.safetensors';
    symlink "$stories/$_", "$folder/$_" or die $! for 'tokenizer.json', 'tokenizer_config.json';
    return $folder;
}

sub config {
    my ($folder, $drafter, $rest) = @_;
    return "[model]\npath = $folder\n[engine]\nthreads = 1\npin = false\nmax_step_tokens = 16\n" . ($rest // '')
        . "[cache]\nblock_tokens = 8\n[plugins]\nscheduler = sarathi\ndrafter = $drafter\ndraft_budget = 0\nmin_drafts = 3\ndraft_cache = 1MiB\n"
        . ($drafter eq 'heads' ? "[drafter.heads]\ndepth = 3\n" : '');
}

sub body {
    my ($ids, %more) = @_;
    return { prompt => $ids, max_tokens => 24, temperature => 0, ignore_eos => JSON::PP::true, return_token_ids => JSON::PP::true, seed => 5, %more };
}

# Random layers are hardly ever right, so that their odds are low and schedulers have few guesses verified or none:
# t/unit/test_heads verifies all. That they are made shows in the time for them.
sub drafting { my ($server) = @_; return $server->get('/metrics')->{content} =~ /^llmserve_draft_seconds_total\S* (\S+)$/m ? $1 : 0 }

# The ids of one answer of each kind.
sub answers {
    my ($server) = @_;
    my @prompt = map { 3 + $_ * 7 % 50 } 1 .. 40;
    my @bodies = (body(\@prompt), body([@prompt, 9, 8]), body(\@prompt, temperature => 1.2), body([@prompt[0 .. 5]], temperature => 0.7, n => 3, logprobs => 2));
    my @got = map { $server->post('/v1/completions', $_)->{json} } @bodies;
    return [map { [map { $_->{token_ids} } @{ $_->{choices} }] } @got];
}

for my $model ('qwen3.5', 'glm-4.5') {
    my $folder = folder("$model-mtp");
    my $server = LlmServer->serve(config($folder, 'none'));
    my $plain = answers($server);
    is drafting($server), 0, "$model: a server without a drafter makes no guesses";
    is $server->stop, 0, '  and ends';
    for my $drafter ('heads', 'auto') {
        $server = LlmServer->serve(config($folder, $drafter));
        like $server->log, qr/draft model \(the model's layer that guesses\): weights \d+ MiB, cache for \d+ tokens in 1 MiB/, "  $drafter has the layer";
        is_deeply answers($server), $plain, '    and the answers are the same';
        cmp_ok drafting($server), '>', 0, '    with guesses';
        is $server->stop, 0, '    and the server ends';
    }
}

# Two instances share the layer's weights.
my $folder = folder('qwen3.5-mtp');
my $server = LlmServer->serve(config($folder, 'heads', "instances = 2\n"));
answers($server);
cmp_ok drafting($server), '>', 0, 'two instances guess';
is $server->stop, 0, '  and end';

# As a draft model a model with states is refused, before it is loaded.
my $place = File::Temp->newdir;
LlmServer::write_file("$place/llmserve.ini", LlmServer::whole(config($folder, 'model') . "draft_model = $folder\n"));
my $said = qx(@{[LlmServer::under(), LlmServer::built('llmserve')]} --check-config -c $place/llmserve.ini 2>&1);
isnt $?, 0, 'a draft model with states is refused';
like $said, qr/\[plugins\] draft_model: layers of \S+ keep states/, '  with a sentence';

# An error of the layer's tensors names the model's key.
my $broken = folder('glm-4.5-mtp');
my $tensors = LlmServer::read_file("$broken/model.safetensors");
unlink "$broken/model.safetensors";
LlmServer::write_file("$broken/model.safetensors", $tensors =~ s/\.hnorm\./.hnorx./r);
LlmServer::write_file("$place/llmserve.ini", LlmServer::whole(config($broken, 'heads')));
$said = qx(@{[LlmServer::under(), LlmServer::built('llmserve')]} -c $place/llmserve.ini 2>&1);
isnt $?, 0, 'a layer without one of its norms is refused';
like $said, qr/\[model\] path: the layer that guesses \(MTP\), which drafter heads asks: \S+ tensor \S+hnorm\.weight is missing/, '  with a sentence';

$server = LlmServer->serve(config(folder('glm-4.5-mtp'), 'auto') =~ s/^draft_cache = \K.*/4TiB/mr);
like $server->log, qr/the model's layer that guesses \(MTP\) is not used: the model does not fit: .* a smaller \[plugins\] draft_cache may do/, 'a layer that does not fit is left out';
is scalar @{ $server->post('/v1/completions', body([5, 6, 7]))->{json}{choices}[0]{token_ids} }, 24, '  and the model answers';
is $server->stop, 0, '  and ends';
$server = LlmServer->serve(config(folder('qwen3.5'), 'heads'));
like $server->log, qr/drafter heads\S* has no draft model to ask: .* the model has no layer that guesses \(MTP\)/, 'a model without the layer has none, says the log';
is scalar @{ $server->post('/v1/completions', body([5, 6, 7]))->{json}{choices}[0]{token_ids} }, 24, '  and answers';
is $server->stop, 0, '  and ends';

# ---- EAGLE-3 ------------------------------------------------------------------------------------------------------

sub eagle { return LlmServer::source("t/data/models/$_[0]-eagle3") }

sub eagle_config {
    my ($model, $layer, $drafter, $rest) = @_;
    return config($model, $drafter, $rest) =~ s/^(?=draft_cache)/draft_model = $layer\n/mr;
}

for my $model ('llama', 'command-r7b') {
    my $folder = folder($model);
    $server = LlmServer->serve(config($folder, 'none'));
    my $plain = answers($server);
    is $server->stop, 0, "$model: a server without a drafter ends";
    for (['heads'], ['auto'], ['heads', "instances = 2\n"]) {
        my ($drafter, $rest) = @$_;
        $server = LlmServer->serve(eagle_config($folder, eagle($model), $drafter, $rest));
        like $server->log, qr/draft model \S*\Q$model\E-eagle3: weights \d+ MiB, cache for \d+ tokens in 1 MiB/, '  ' . ($rest ? 'two instances have' : "$drafter has") . ' the EAGLE-3 layer';
        is_deeply answers($server), $plain, '    and the answers are the same';
        cmp_ok drafting($server), '>', 0, '    with guesses';
        is $server->stop, 0, '    and the server ends';
    }
}

# Requests of an adapter and of the model in the same steps: the layer reads the rows of each.
my $llama = folder('llama');
my $lora = "[lora]\nfirst = " . LlmServer::source('t/data/models/llama-lora/first') . "\n";
my @mixed = map { body([map { 3 + $_ * 7 % 50 } 1 .. 12 + int($_ / 2)], $_ % 2 ? (model => 'first') : ()) } 0 .. 5;
my @texts;
for my $text (config($llama, 'none'), eagle_config($llama, eagle('llama'), 'heads')) {
    $server = LlmServer->serve($text . $lora);
    push @texts, [map { $_->{choices}[0]{token_ids} } $server->at_once(@mixed)];
    cmp_ok drafting($server), '>', 0, 'adapters: guesses are made' if @texts == 2;
    is $server->stop, 0, '  the server ends';
}
isnt "@{ $texts[0][0] }", "@{ $texts[0][1] }", '  an adapter changes an answer';
is_deeply $texts[1], $texts[0], '  and the layer does not';

# A GGUF file of command-r7b with tokens, which the one of t/data lacks: further keys behind the 24 bytes of its header.
sub with_tokens {
    my $file = LlmServer::read_file(LlmServer::source('t/data/models/command-r7b/model.gguf'));
    my $text = sub { pack 'Q</a*', $_[0] };
    my @tokens = ('<unk>', '<s>', '</s>', map { sprintf 't%02d', $_ } 3 .. 63);
    my $keys = $text->('tokenizer.ggml.model') . pack('L<', 8) . $text->('llama')
        . $text->('tokenizer.ggml.tokens') . pack('L<L<Q<', 9, 8, 64) . join('', map { $text->($_) } @tokens)
        . $text->('tokenizer.ggml.scores') . pack('L<L<Q<f<64', 9, 6, 64, map { -$_ } 0 .. 63)
        . $text->('tokenizer.ggml.token_type') . pack('L<L<Q<l<64', 9, 5, 64, 2, 3, 3, (1) x 61);
    $keys .= $text->('x') . pack('L<', 8) . $text->(' ' x (-(length($keys) + 21) % 32)); # tensors begin at multiples of 32
    substr($file, 16, 8) = pack 'Q<', 5 + unpack 'Q<', substr($file, 16, 8);
    substr($file, 24, 0) = $keys;
    return $file;
}
LlmServer::write_file("$place/model.gguf", with_tokens());

# Where it is not used the model answers without it.
for (['no drafter asks', 'llama', 'none', undef],
    ['two ranks', 'llama', 'heads', qr/: tensor parallel ranks share/, "tensor_parallel_size = 2\n"],
    ['a GGUF file', 'command-r7b', 'heads', qr/: the model is a GGUF file/],
    ['no room', 'llama', 'heads', qr/: the model does not fit: .* a smaller \[plugins\] draft_cache may do/]) {
    my ($what, $model, $drafter, $why, $rest) = @$_;
    my $folder = folder($model);
    my $text = eagle_config($what eq 'a GGUF file' ? "$place/model.gguf" : $folder, eagle($model), $drafter, $rest);
    $text =~ s/^draft_cache = \K.*/4TiB/m if $what eq 'no room';
    $server = LlmServer->serve($text);
    like $server->log, qr/the EAGLE-3 layer \(\[plugins\] draft_model\) is not used$why/, "$what: the log says why it is not used" if $why;
    unlike $server->log, qr/draft model \S*eagle3: weights/, "$what: it is not loaded";
    is scalar @{ $server->post('/v1/completions', body([5, 6, 7]))->{json}{choices}[0]{token_ids} }, 24, '  and the model answers';
    is $server->stop, 0, '  and the server ends';
}

# Damaged folders, and those of other models: [what, a change of config.json, a change of the tensors, what is said].
my $tensors_of = LlmServer::read_file(eagle('llama') . '/model.safetensors');
my $values_of = decode_json(LlmServer::read_file(eagle('llama') . '/config.json'));
my $d2t = 8 + unpack 'Q<', $tensors_of; # the first of the tensors

sub ids { my ($first, $second, $third) = @_; return sub { $_[0]{eagle_config}{eagle_aux_hidden_state_layer_ids} = [$first, $second, $third] } }
sub at { my ($row, $add) = @_; return sub { substr($_[0], $d2t + 8 * $row, 8) = pack 'q<', $add } }
sub key { my ($key, $value) = @_; return sub { $_[0]{$key} = $value } }

my @damaged = (
    ['rows of another model',      key(hidden_size => 32), undef, qr/config\.json: it guesses for a model with rows of 32 numbers and 256 tokens; this one has 64 and 256/],
    ['tokens of another model',    key(vocab_size => 300), undef, qr/rows of 64 numbers and 300 tokens/],
    ['too many tokens of a head',  key(draft_vocab_size => 257), undef, qr/its head knows 257 of 256 tokens/],
    ['fewer than d2t has',         key(draft_vocab_size => 100), undef, qr/lm_head\.weight/],
    ['no number of tokens',        key(draft_vocab_size => 'all'), undef, qr/"draft_vocab_size"/],
    ['two layers',                 key(num_hidden_layers => 2), undef, qr/2 layers; one is expected/],
    ['too many heads',             key(num_attention_heads => 2_000_000_000), undef, qr/no model has 2000000000 as heads/],
    ['heads that are not shared',  key(num_key_value_heads => 3), undef, qr/4 attention heads cannot share 3/],
    ['a graph of another kind',    key(norm_before_residual => JSON::PP::true), undef, qr/"norm_before_residual": true is not computed/],
    ['another, inside',            sub { $_[0]{eagle_config}{use_aux_hidden_state} = JSON::PP::false }, undef, qr/"use_aux_hidden_state": false is not computed/],
    ['no list of settings',        key(eagle_config => 7), undef, qr/it joins rows of layer 2 of a model of 2 layers/],
    ['a layer too far',            ids(0, 1, 2), undef, qr/it joins rows of layer 2 of a model of 2 layers/],
    ['outputs of the last layer',  ids(1, 1, 1), undef, qr/it joins rows of layer 1 of a model of 2 layers/],
    ['a layer before the first',   ids(-1, 0, 1), undef, qr/it joins rows of layer -1 of/],
    ['the largest layer',          ids(0, 0, 9223372036854775807), undef, qr/it joins rows of layer 9223372036854775807 of/],
    ['a layer with a name',        ids(0, 'one', 1), undef, qr/it joins rows of layer 0 of/],
    ['two rows',                   sub { $_[0]{eagle_config}{eagle_aux_hidden_state_layer_ids} = [0, 1] }, undef, qr/rows of 2 layers are joined, of 3 expected/],
    ['no fc',                      undef, sub { $_[0] =~ s/"fc\./"fx./ }, qr/tensor fc\.weight is missing/],
    ['fc on its side',             undef, sub { $_[0] =~ s/\[64,192\]/[192,64]/ }, qr/tensor fc\.weight/],
    ['q of the row alone',         undef, sub { $_[0] =~ s/\[64,128\]/[128,64]/ }, qr/q_proj\.weight/],
    ['no norm',                    undef, sub { $_[0] =~ s/midlayer\.hidden_norm/midlayer.hiddex_norm/ }, qr/tensor midlayer\.hidden_norm\.weight is missing/],
    ['no d2t',                     undef, sub { $_[0] =~ s/"d2t"/"d2x"/ }, qr/there is no d2t/],
    ['d2t of other numbers',       undef, sub { $_[0] =~ s/"I64","shape":\[200\]/"F64","shape":[200]/ }, qr/tensor d2t has 1600 bytes as F64/],
    ['d2t of other sizes',         undef, sub { $_[0] =~ s/"d2t"/"d2x"/; $_[0] =~ s/"t2d"/"d2t"/ }, qr/tensor d2t has 256 bytes as BOOL/],
    ['d2t beyond the tokens',      undef, at(199, 57), qr/d2t does not rise within the 256 tokens/],
    ['d2t before them',            undef, at(0, -1), qr/d2t does not rise/],
    ['d2t with a token twice',     undef, sub { my $add = unpack 'q<', substr($_[0], $d2t + 80, 8); at(11, $add - 1)->($_[0]) }, qr/d2t does not rise/],
    ['the largest of d2t',         undef, at(7, 9223372036854775807), qr/d2t does not rise/],
    ['the smallest of d2t',        undef, at(7, -9223372036854775808), qr/d2t does not rise/],
    ['tensors cut off',            undef, sub { substr($_[0], length($_[0]) / 2) = '' }, qr/model\.safetensors/],
);
for (@damaged) {
    my ($what, $change, $damage, $sentence) = @$_;
    my $layer = File::Temp->newdir;
    my ($values, $tensors) = (decode_json(encode_json($values_of)), $tensors_of);
    $change->($values) if $change;
    $damage->($tensors) if $damage;
    LlmServer::write_file("$layer/config.json", encode_json($values));
    LlmServer::write_file("$layer/model.safetensors", $tensors);
    LlmServer::write_file("$place/llmserve.ini", LlmServer::whole(eagle_config($llama, $layer, 'heads')));
    $said = qx($^X -e 'alarm 120; exec \@ARGV' @{[LlmServer::under(), LlmServer::built('llmserve')]} -c $place/llmserve.ini 2>&1);
    is $?, 256, "$what: refused"; # a server that began would end by the alarm
    like $said, qr/\[plugins\] draft_model: .*$sentence/, '  with a sentence';
}
done_testing;
