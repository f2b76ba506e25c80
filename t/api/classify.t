#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# POST /classify of a model with three classes: transformers' logits and probabilities for the same texts
# (t/data/encoder/classes, a BertForSequenceClassification), vLLM's shape, and what such a model is not for.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Copy qw(copy);
use File::Temp;
use JSON::PP;
use List::Util qw(max);
use LlmServer;
use Test::More;

my $model  = LlmServer::source('t/data/encoder/classes');
my @known  = @{ decode_json(LlmServer::read_file("$model/reference.json"))->{classes} };
my $engine = "[engine]\nthreads = 1\npin = false\n";
my $server = LlmServer->serve("[model]\npath = $model\n$engine");

sub classes { my ($input, %more) = @_; return $server->post('/classify', { input => $input, %more })->{json} }
sub furthest { my ($got, $want) = @_; return max map { abs($got->[$_] - $want->[$_]) } 0 .. $#$want }

my $all = classes([map { $_->{text} } @known]);
is_deeply [map { [@$_{qw(index label num_classes)}] } @{ $all->{data} }], [map { [$_, $known[$_]{label}, 3] } 0 .. $#known], 'the classes of texts';
cmp_ok furthest($all->{data}[$_]{probs}, $known[$_]{probs}), '<', 1e-4, "  with transformers' probabilities: $known[$_]{text}" for 0 .. $#known;
is_deeply [@$all{qw(object model)}, $all->{usage}{prompt_tokens}, $all->{id} =~ /^classify-/], ['list', 'classes', (map { eval { my $n = 0; $n += @{ $_->{ids} } for @known; $n } } 1), 1], '  in the shape of vLLM';
my $raw = classes($known[0]{text}, use_activation => JSON::PP::false)->{data}[0];
cmp_ok furthest($raw->{probs}, $known[0]{logits}), '<', 1e-3, 'the scores without an activation';
my $ids = [@{ $known[1]{ids} }];
is classes($ids)->{data}[0]{label}, $known[1]{label}, 'a text of ids';
is classes('one ' x 200, truncate_prompt_tokens => 5)->{usage}{prompt_tokens}, 5, 'a text that is cut';

for my $case ([{ input => [] }, 'input'], [{}, 'input'], [{ input => 'x', use_activation => 'yes' }, 'use_activation']) {
    my $error = $server->post('/classify', $case->[0]);
    is_deeply [$error->{status}, $error->{json}{error}{param}], [400, $case->[1]], "refused: $case->[1]";
}
for my $path (qw(/v1/embeddings /v1/rerank /v1/score /v1/completions)) {
    my $error = $server->post($path, { input => 'x', prompt => 'x', query => 'x', documents => ['x'], text_1 => 'x', text_2 => 'x' });
    is $error->{status}, 400, "$path is refused";
    like $error->{json}{error}{message}, qr{/classify}, '  with the way that there is';
}
is $server->stop, 0, 'the server ends well';

# ---- classes that do not exclude each other ---------------------------------------------
my $folder = File::Temp->newdir;
copy("$model/$_", "$folder/$_") or die "$_: $!" for qw(model.safetensors tokenizer.json);
my $config = decode_json(LlmServer::read_file("$model/config.json"));
$config->{problem_type} = 'multi_label_classification';
delete $config->{id2label}{2};
$config->{id2label}{x} = 'y';
LlmServer::write_file("$folder/config.json", encode_json($config));
$server = LlmServer->serve("[model]\npath = $folder\n$engine");
my $several = classes($known[3]{text})->{data}[0];
cmp_ok furthest($several->{probs}, [map { 1 / (1 + exp(-$_)) } @{ $known[3]{logits} }]), '<', 1e-4, 'a logistic function of each class';
is classes($known[3]{text})->{data}[0]{label}, $known[3]{label}, '  the likeliest is named';
is $server->stop, 0, 'the server ends well';

$server = LlmServer->serve("[model]\npath = " . LlmServer::source('t/data/encoder/mean') . "\n$engine");
my $error = $server->post('/classify', { input => 'x' });
is $error->{status}, 400, 'a model without classes refuses';
like $error->{json}{error}{message}, qr/id2label/, '  and says what one has';
is $server->stop, 0, 'the server ends well';
done_testing;
