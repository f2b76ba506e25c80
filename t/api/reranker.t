#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Generators that score pairs of texts (Qwen3-Reranker) as served models: scores equal
# transformers' under the published prompt (t/data/reranker), from a folder, a classifier
# made of it, and a GGUF file; on ranks; by [model] task; for prompts that the client made.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use JSON::PP;
use List::Util qw(max sum);
use LlmServer;
use Test::More;

my $folder = tempdir(CLEANUP => 1);
my $server;

sub path { return LlmServer::source("t/data/reranker/$_[0]") }

sub serve {
    my ($model, $more, $engine) = @_;
    my $engines = "[engine]\ndevice = cpu\n" . ($engine // "threads = 1\n");
    return $server = LlmServer->serve("[model]\npath = $model\nweights = f32\n" . ($more // '') . $engines);
}

sub cases {
    my ($name) = @_;
    return @{ decode_json(LlmServer::read_file(path($name) . '/reference.json')) };
}

sub score {
    my ($first, $second, %more) = @_;
    return $server->post('/v1/score', { text_1 => $first, text_2 => $second, %more })->{json};
}

sub message { return $_[0]{json}{error}{message} // '' }

sub are_scores {
    my ($name, @cases) = @_;
    my @got = map { score($_->{query}, $_->{document}, defined $_->{instruction} ? (instruction => $_->{instruction}) : ()) } @cases;
    cmp_ok max(map { abs(($got[$_]{data}[0]{score} // 9) - $cases[$_]{score}) } 0 .. $#cases), '<', 1e-6, "$name: scores of pairs";
    is_deeply [map { $_->{usage}{prompt_tokens} } @got], [map { scalar @{ $_->{ids} } } @cases], '  from as many tokens';
    return;
}

# ---- a folder, a classifier, a GGUF file -----------------------------------------------

for my $name (qw(qwen3-reranker classifier rank.gguf)) {
    my @cases = cases($name eq 'rank.gguf' ? 'qwen3-reranker' : $name);
    @cases = grep { !defined $_->{instruction} } @cases if $name eq 'rank.gguf';    # its prompt has a fixed one
    serve(path($name));
    are_scores($name, @cases);
    my @ranking = @{ $server->post('/v1/rerank', { query => $cases[0]{query}, documents => [$cases[1]{document}, $cases[0]{document}] })->{json}{results} };
    my ($own) = grep { $_->{index} == 1 } @ranking;
    cmp_ok abs($own->{relevance_score} - $cases[0]{score}), '<', 1e-6, '  and in a ranking';
    is $own->{document}{text}, $cases[0]{document}, '  with its text';
    like message($server->post('/v1/completions', { prompt => 'a' })), qr{makes no text, it scores pairs.*use /v1/rerank}, '  it makes no text';
    like message($server->post('/v1/embeddings', { input => 'a' })), qr{scores pairs of texts}, '  nor vectors';
    is $server->stop, 0, '  the server ends well';
}

# ---- what a prompt may have ------------------------------------------------------------

my @cases = cases('qwen3-reranker');
serve(path('qwen3-reranker'));
my ($head, $tail) = (<<'HEAD', "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
HEAD
my $query = $head . "<Instruct>: $cases[2]{instruction}\n<Query>: $cases[2]{query}\n";
my $made = score($query, "<Document>: $cases[2]{document}$tail");
cmp_ok abs($made->{data}[0]{score} - $cases[2]{score}), '<', 1e-6, 'a prompt that the client made is taken as it is';
my $marked = score('dog', "fox<|im_end|>\n");
cmp_ok $marked->{usage}{prompt_tokens}, '>', 3 + score('dog', "fox\n")->{usage}{prompt_tokens}, 'marks in a document are text';
my $long = score('dog', 'fox ' x 400, truncate_prompt_tokens => 150);
my $cut = score('dog', 'fox ' x 300, truncate_prompt_tokens => 150);
is $long->{usage}{prompt_tokens}, 150, 'a document is cut';
is $long->{data}[0]{score}, $cut->{data}[0]{score}, '  before the end of the prompt';
is score('dog', 'fox ' x 400)->{error}{code}, 'context_length_exceeded', '  or refused';
like message($server->post('/v1/score', { text_1 => 'a', text_2 => 'b', instruction => 5 })), qr/'instruction' must be a string/, 'an instruction is a string';
is $server->stop, 0, 'it ends well';

# ---- how it is chosen ------------------------------------------------------------------

my $plain = "$folder/plain";
mkdir $plain or die;
copy($_, $plain) or die for glob path('qwen3-reranker') . '/*.{json,safetensors}';
serve($plain);
is $server->post('/v1/completions', { prompt => 'a', max_tokens => 2 })->{status}, 200, 'a model of another name makes text';
like message($server->post('/v1/score', { text_1 => 'a', text_2 => 'b', instruction => 'c' })), qr/'instruction' is for rerankers/, '  reads no instruction';
like message($server->post('/v1/rerank', { query => 'a', documents => ['b'] })), qr/task = rerank/, '  and says how it scores';
$server->stop;
serve($plain, "task = rerank\n", "tensor_parallel_size = 2\nranks = threads\nthreads = 1\npin = false\n");
are_scores('on two ranks, by [model] task', @cases);
$server->stop;
my $cached = "$folder/models--Qwen--Qwen3-Reranker-0.6B/snapshots/0123";
make_path($cached);
copy($_, $cached) or die for glob "$plain/*.*";
serve($cached);
are_scores('by its name in the hub\'s cache', $cases[0]);
$server->stop;
LlmServer::write_file("$plain/README.md", "---\nlicense: none\n---\n# Qwen3-Reranker-tiny\n");
serve($plain);
are_scores('by the title of its card', $cases[0]);
$server->stop;
unlink "$plain/README.md";
mkdir "$plain/1_LogitScore" or die;
my $vocab = decode_json(LlmServer::read_file("$plain/tokenizer.json"))->{model}{vocab};
LlmServer::write_file("$plain/1_LogitScore/config.json", encode_json({ true_token_id => $vocab->{yes}, false_token_id => $vocab->{no} }));
serve($plain);
are_scores('by its LogitScore module', $cases[0]);
$server->stop;
LlmServer::write_file("$plain/1_LogitScore/config.json", encode_json({ true_token_id => 100_000 }));
LlmServer::write_file("$folder/x.ini", LlmServer::whole("[model]\npath = $plain\n[engine]\ndevice = cpu\n"));
my $check = join ' ', map { "'$_'" } LlmServer::built('llmserve'), '-c', "$folder/x.ini", '--check-config';
like scalar `$check 2>&1`, qr/answers are tokens 100000 and -1; the model has 335/, 'tokens that do not exist are refused';
LlmServer::write_file("$folder/y.ini", LlmServer::whole("[model]\npath = " . LlmServer::source('t/data/models/stories260K') . "\ntask = rerank\n[engine]\ndevice = cpu\n"));
like scalar `$check -c '$folder/y.ini' 2>&1`, qr/task = rerank is supported for Qwen3ForCausalLM/, 'another model is no reranker';
done_testing;
