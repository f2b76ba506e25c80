#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /v1/embeddings, /v1/rerank and /v1/score. The fake step loop's vector of a prompt is: the
# number of its tokens, the first one, the last one, and 0; it can be cut to 2 dims. Then
# with a real model.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use List::Util qw(sum);
use File::Basename qw(basename);
use File::Temp qw(tempdir);
use MIME::Base64;
use Test::More;

my $server = LlmServer->fake;
my ($true, $false) = (JSON::PP::true, JSON::PP::false);

sub embed { my (%body) = @_; return $server->post('/v1/embeddings', \%body) }

sub length_of { return sqrt sum map { $_**2 } @_ }
sub unit { my @v = @_; my $length = length_of(@v); return map { $_ / $length } @v }

# Numbers that are alike to f32's precision.
sub is_vector {
    my ($got, $expected, $name) = @_;
    my @off = grep { abs($got->[$_] - $expected->[$_]) > 1e-6 } 0 .. $#$expected;
    ok @$got == @$expected && !@off, $name or diag "@$got\n@$expected";
    return;
}
sub vectors { return map { $_->{embedding} } @{ $_[0]{json}{data} } }

# ---- /v1/embeddings --------------------------------------------------------------------

my $answer = embed(input => [1, 403, 407], model => 'fake/model', user => 'me');
is $answer->{status}, 200, 'token ids';
my $json = $answer->{json};
like delete $json->{id}, qr/\Aembd-[0-9a-f]{32}\z/, 'the id';
LlmServer::is_recent delete $json->{created}, 'created now';
is_vector delete $json->{data}[0]{embedding}, [unit(3, 1, 407, 0)], 'a vector of length 1';
is_deeply $json, {
    object => 'list', model => 'fake/model', data => [{ object => 'embedding', index => 0 }],
    usage => { prompt_tokens => 3, total_tokens => 3 },
}, 'the whole shape';

is_vector +(vectors(embed(input => 'Once upon')))[0], [unit(3, 1, 407, 0)], 'a text, with BOS';
is_vector +(vectors(embed(input => 'Once upon', normalize => $false)))[0], [3, 1, 407, 0], '  as the model makes it, without normalize';
is embed(input => 'x', embd_normalize => 0)->{json}{error}{param}, 'embd_normalize', "  llama.cpp's name for other lengths is refused";
is_vector +(vectors(embed(input => 'Once upon', add_special_tokens => $false)))[0], [unit(2, 403, 407, 0)], '  or without';
$answer = embed(input => ['Once', 'Once upon', 'upon']);
is_deeply [map { $_->{index} } @{ $answer->{json}{data} }], [0, 1, 2], 'several texts, in order';
is_vector +(vectors($answer))[1], [unit(3, 1, 407, 0)], '  each with its vector';
is $answer->{json}{usage}{prompt_tokens}, 7, '  and all counted';
is_vector +(vectors(embed(input => [[5, 6], [7]])))[1], [unit(1, 7, 7, 0)], 'several prompts of ids';
is scalar(vectors(embed(input => [('Once') x 900]))), 900, 'many';

my ($packed) = vectors(embed(input => 'Once upon', encoding_format => 'base64'));
is_vector [unpack 'f<*', decode_base64($packed)], [unit(3, 1, 407, 0)], 'base64 of little-endian f32';
is_vector [unpack 'f<*', decode_base64((vectors(embed(input => 'Once upon', encoding_format => 'base64', dimensions => 2)))[0])],
    [unit(3, 1)], '  with an odd number of bytes at its end';
is_vector +(vectors(embed(input => 'Once upon', dimensions => 2)))[0], [unit(3, 1)], 'dimensions: the beginning, of length 1 again';
is_vector +(vectors(embed(input => 'Once upon', dimensions => 4)))[0], [unit(3, 1, 407, 0)], '  all of them are no change';
is_vector +(vectors(embed(input => [1 .. 20], truncate_prompt_tokens => 3)))[0], [unit(3, 18, 20, 0)], 'truncate_prompt_tokens: the last ones';
is scalar(vectors($server->post('/embeddings', { input => 'Once' }))), 1, 'without /v1';
is scalar(vectors(embed(input => [(5) x 511]))), 1, 'a prompt almost as long as the context';

sub refused {
    my ($name, $param, $message, %body) = @_;
    my $reply = embed(%body);
    is $reply->{status}, 400, "$name: refused";
    is $reply->{json}{error}{param}, $param, '  the parameter';
    like $reply->{json}{error}{message}, $message, '  the reason';
    return;
}
refused 'no input', 'input', qr/'input' is missing/;
refused 'an empty list', 'input', qr/'input' must not be empty/, input => [];
refused 'a number', 'input', qr/'input' must be a string, an array of token ids, or/, input => 5;
refused 'an empty text among others', 'input', qr/must not be empty/, input => ['a', ''], add_special_tokens => $false;
refused 'an id outside', 'input', qr/vocabulary|token id/, input => [512];
refused 'an odd format', 'encoding_format', qr/must be "float" or "base64", not "hex"/, input => 'a', encoding_format => 'hex';
refused 'dimensions that were not trained', 'dimensions', qr/'dimensions' is 3; vectors of this model have 4 numbers and may be cut to/, input => 'a', dimensions => 3;
refused 'dimensions 0', 'dimensions', qr/'dimensions' must be an integer/, input => 'a', dimensions => 0;
refused 'a long prompt', 'input', qr/maximum context length is 512 tokens. However, you requested 600 tokens in the input/, input => [(5) x 600];
is embed(input => [(5) x 600])->{headers}{'x-should-retry'}, 'false', '  need not be tried again';
refused 'too many', 'input', qr/'input' has 2049 items; at most 2048/, input => [('a') x 2049];
is embed(input => [('Once') x 1500])->{status}, 429, 'more than may wait: later';
is $server->request('POST', '/v1/embeddings', '{"input": "Once"}', { 'content-type' => 'application/json', 'x-request-id' => 'fail-1' })->{status}, 200,
    'a fate that needs tokens is none';
is $server->post('/v1/embeddings', { input => 'Once' }, { 'x-request-id' => 'failnow-1' })->{status}, 500, 'the engine fails';
is $server->post('/v1/embeddings', { input => 'Once' }, { 'x-request-id' => 'reject-1' })->{status}, 429, 'the scheduler refuses';

# ---- /v1/rerank ------------------------------------------------------------------------

# Vectors of one token: (1, id, id, 0); the more alike, the nearer the ids' ratio to 1.
my %near = (query => 'Once', documents => ['upon', 'Once', { text => 'a time' }]);
$answer = $server->post('/v1/rerank', {%near});
is $answer->{status}, 200, 'a ranking';
$json = $answer->{json};
like $json->{id}, qr/\Arerank-/, '  the id';
is_deeply [sort keys %$json], [qw(created id model results usage)], '  the members';
is $json->{results}[0]{index}, 1, '  the query itself is the best';
ok abs($json->{results}[0]{relevance_score} - 1) < 1e-6, '  with a cosine of 1';
is_deeply $json->{results}[0]{document}, { text => 'Once' }, '  and comes with its text';
is_deeply [map { $_->{relevance_score} } @{ $json->{results} }],
    [sort { $b <=> $a } map { $_->{relevance_score} } @{ $json->{results} }], '  the best first';
is_deeply [map { $_->{index} } @{ $server->post('/v2/rerank', { %near, top_n => 1, return_documents => $false })->{json}{results} }], [1], 'top_n, by /v2';
ok !exists $server->post('/rerank', { %near, return_documents => $false })->{json}{results}[0]{document}, 'return_documents, without /v1';
is scalar @{ $server->post('/rerank', { %near, top_n => 0 })->{json}{results} }, 3, 'top_n 0: all';
for my $bad (['query', query => 5], ['query', query => ['a']], ['documents', documents => 'a'], ['documents', documents => []], ['documents', documents => [5]]) {
    my ($param, %more) = @$bad;
    my $reply = $server->post('/v1/rerank', { %near, %more });
    is_deeply [$reply->{status}, $reply->{json}{error}{param}], [400, $param], "an odd $param: refused";
}

# ---- /v1/score -------------------------------------------------------------------------

sub scores {
    my ($first, $second) = @_;
    return $server->post('/v1/score', { text_1 => $first, text_2 => $second });
}
$answer = scores('Once', ['Once', 'Once upon a time Once']);
is $answer->{status}, 200, 'one text and two';
is $answer->{json}{object}, 'list', '  a list';
is_deeply [map { [@{$_}{qw(index object)}] } @{ $answer->{json}{data} }], [[0, 'score'], [1, 'score']], '  of scores';
ok abs($answer->{json}{data}[0]{score} - 1) < 1e-6 && $answer->{json}{data}[1]{score} < 1 - 1e-6, '  which are cosines';
my $pairs = scores(['upon', 'Once'], ['upon', 'Once upon a time Once']);
ok abs($pairs->{json}{data}[0]{score} - 1) < 1e-6, 'pairs';
ok abs($pairs->{json}{data}[1]{score} - $answer->{json}{data}[1]{score}) < 1e-6, '  of one from each list';
is scalar @{ scores('Once', 'upon')->{json}{data} }, 1, 'two texts';
$answer = scores(['a', 'b', 'c'], ['a', 'b']);
is $answer->{status}, 400, 'three and two: refused';
like $answer->{json}{error}{message}, qr/'text_1' has 3 texts and 'text_2' 2/, '  with the numbers';
is scores('a', [])->{status}, 400, 'none: refused';

like $server->get('/metrics')->{content}, qr/vllm:request_success_total\{[^}]*finished_reason="stop"[^}]*\} [1-9]/, 'they end as done, not as cut off';
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
is $server->stop, 0, 'the server ends well';

# ---- a real model ----------------------------------------------------------------------

my $stories = LlmServer::source('t/data/models/stories260K');
my @texts   = ('Once upon a time there was a dog.', 'Lily', 'He ran and ran and ran. ' x 8);
my %by;
for my $pooling (qw(last mean)) {
    $server = LlmServer->serve("[model]\npath = $stories\npooling = $pooling\n[engine]\ndevice = cpu\nmax_step_tokens = 32\n");
    my @together = vectors(embed(input => \@texts));
    ok !(grep { abs(length_of(@$_) - 1) > 1e-5 } @together), "$pooling: of length 1";
    is scalar @{ $together[0] }, 64, '  all of the model\'s numbers';
    is_vector +(vectors(embed(input => $texts[$_])))[0], $together[$_], "  text $_ alone, and maybe from the cache" for 0 .. 2;
    like embed(input => 'a', dimensions => 32)->{json}{error}{message}, qr/cannot be cut/, '  it cannot be cut';
    is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 3 })->{status}, 200, '  and answers still';
    $by{$pooling} = $together[0];
    is $server->stop, 0, '  the server ends well';
}
cmp_ok length_of(map { $by{last}[$_] - $by{mean}[$_] } 0 .. 63), '>', 0.1, 'which is not the same';

# As Qwen3-Embedding-8B is published: a class with a head, and no head among the tensors.
my $headless = tempdir(CLEANUP => 1);
mkdir "$headless/1_Pooling";
symlink "$stories/$_", "$headless/$_" for grep { $_ ne 'config.json' } map { basename($_) } glob "$stories/*";
my $config = decode_json(LlmServer::read_file("$stories/config.json"));
$config->{tie_word_embeddings} = JSON::PP::false;
LlmServer::write_file("$headless/config.json", encode_json($config));
LlmServer::write_file("$headless/1_Pooling/config.json", '{"pooling_mode_lasttoken":true}');
$server = LlmServer->serve("[model]\npath = $headless\n[engine]\ndevice = cpu\nmax_step_tokens = 32\n");
is_vector +(vectors(embed(input => $texts[0])))[0], $by{last}, 'a folder without a head: the same vector';
$answer = $server->post('/v1/completions', { prompt => 'Once', max_tokens => 3 });
is $answer->{status}, 400, '  and no text';
like $answer->{json}{error}{message}, qr/makes no text, it was saved without a head/, '  for the reason that it has no head';
is $server->stop, 0, '  the server ends well';

my %elsewhere = (
    'two ranks'            => "[engine]\ntensor_parallel_size = 2\ndevice = cpu\nmax_step_tokens = 32\n",
    'prefill for a decode' => "[engine]\nroles = prefill, decode\ndevice = cpu\n[plugins]\nscheduler = distserve\n",
);
for my $where (sort keys %elsewhere) {
    $server = LlmServer->serve("[model]\npath = $stories\npooling = mean\n$elsewhere{$where}");
    my ($vector) = vectors(embed(input => \@texts));
    cmp_ok length_of(map { $vector->[$_] - $by{mean}[$_] } 0 .. 63), '<', 1e-4, "$where: the same vector";
    is $server->stop, 0, '  the server ends well';
}

$server = LlmServer->serve("max_inputs = 2\n[model]\npath = $stories\npooling = none\n[engine]\ndevice = cpu\n");
$answer = embed(input => 'a');
is $answer->{status}, 400, 'pooling = none: refused';
like $answer->{json}{error}{message}, qr/makes no vectors of texts: \[model\] pooling = none/, '  with the reason';
$server->stop;
done_testing;
