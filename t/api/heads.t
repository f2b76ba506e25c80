#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The layer that a model was trained to guess with (MTP), over HTTP: the answers are those of a server without a
# drafter, also of prompts that are cached or computed in parts, and beside other requests; the log says what is
# loaded, and where the layer is missing or not used.
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
        . "[cache]\nblock_tokens = 8\n[plugins]\nscheduler = sarathi\ndrafter = $drafter\ndraft_budget = 0\ndraft_cache = 1MiB\n"
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
done_testing;
