#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The small dialects: TGI's /generate, /generate_stream and POST /; Azure's paths, which name the model; /ping and
# /invocations of SageMaker.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $script = Script->new(model => "pooling = last\n", first => 100, answers => ['One two.']);
my $server = $script->server;
my $prompt = 'x' x $script->start(0);

sub generate { my ($path, %parameters) = @_; return $server->post($path, { inputs => $prompt, parameters => \%parameters }) }
sub events_of { my ($answer) = @_; return map { /^data: (.*)/ ? decode_json($1) : () } split /\n\n/, $answer->{content} }

# ---- TGI --------------------------------------------------------------------------------
is_deeply generate('/generate')->{json}, { generated_text => 'One two.' }, 'generate';
is_deeply generate('/')->{json}, [{ generated_text => 'One two.' }], 'POST / has a list';
is generate('/generate', return_full_text => $true)->{json}{generated_text}, "${prompt}One two.", 'return_full_text';
for my $case ([{}, 'One two.', 'eos_token'], [{ max_new_tokens => 4 }, 'One ', 'length'], [{ stop => ['two'] }, 'One ', 'stop_sequence']) {
    my ($given, $text, $reason) = @$case;
    my $whole  = generate('/generate', %$given, details => $true)->{json};
    my @events = events_of(generate('/generate_stream', %$given));
    my $last   = $events[-1];
    is_deeply [@$whole{'generated_text'}, $whole->{details}{finish_reason}], [$text, $reason], "$reason, whole";
    is scalar @{ $whole->{details}{tokens} }, $whole->{details}{generated_tokens}, '  with each token';
    is_deeply [join('', map { $_->{token}{text} } @events), $last->{generated_text}, $last->{details}{finish_reason}, $last->{details}{generated_tokens}],
        [$text, $text, $reason, $whole->{details}{generated_tokens}], '  the events say the same';
    is scalar(grep { defined $_->{generated_text} } @events), 1, '  the last one alone has the text';
}
my $top = generate('/generate', top_n_tokens => 2, details => $true, max_new_tokens => 1)->{json}{details};
is_deeply [$top->{tokens}[0]{text}, scalar @{ $top->{top_tokens}[0] }], ['O', 2], 'top_n_tokens';
is generate('/generate', grammar => { type => 'regex', value => 'One' })->{json}{generated_text}, 'One', 'grammar';
for my $case ([watermark => $true], [best_of => 2], [decoder_input_details => $true], [adapter_id => 'x']) {
    my $refused = generate('/generate', @$case);
    is_deeply [$refused->{status}, $refused->{json}{error_type}], [400, 'validation'], "$case->[0] is refused";
    like $refused->{json}{error}, qr/\A'$case->[0]'/, '  by name';
}
is generate('/generate', n => 2)->{headers}{'x-llmserve-ignored'}, 'n', 'what others have is listed';
like $server->post('/generate', { text => 'x' })->{json}{error}, qr/\A'inputs'/, 'so is a body without inputs';

# ---- paths ------------------------------------------------------------------------------
my %chat = (messages => [{ role => 'user', content => 'x' }], max_tokens => 1);
is $server->post('/openai/deployments/any/chat/completions?api-version=2024-06-01', \%chat)->{json}{object}, 'chat.completion', "Azure's path of chats";
is $server->post('/openai/deployments/a%2Fb/completions', { prompt => 'x', max_tokens => 1 })->{json}{object}, 'text_completion', 'of completions';
is $server->post('/openai/deployments/any/embeddings', { input => 'x' })->{json}{object}, 'list', 'of embeddings';
is $server->post('/openai/v1/chat/completions', \%chat)->{json}{object}, 'chat.completion', 'of its newer version';
is $server->post('/openai/responses?api-version=2025-03-01-preview', { input => 'x', max_output_tokens => 1 })->{json}{object}, 'response', 'of responses';
is $server->post('/openai/deployments//embeddings', { input => 'x' })->{status}, 404, 'but not without a name';
is_deeply [map { $server->post('/invocations', $_)->{json}{object} } \%chat, { prompt => 'x', max_tokens => 1 }, { input => 'x' }], [qw(chat.completion text_completion list)],
    'invocations of each kind';
is_deeply [map { $_->{status} } $server->get('/ping'), $server->post('/ping', {})], [200, 200], 'ping';
my $info = decode_json($server->get('/info')->{content});
my $room = decode_json($server->get('/v1/models')->{content})->{data}[0]{max_model_len};
is_deeply [@$info{qw(max_total_tokens max_input_tokens router)}], [$room, $room - 1, 'llmserve'], "TGI's /info";

# ---- vLLM: ids in, ids out; pooling ------------------------------------------------------------
my $ids = $server->post('/tokenize', { prompt => 'Once upon a time' })->{json}{tokens};
sub ids { my (%body) = @_; return $server->post('/inference/v1/generate', { token_ids => $ids, %body }) }
my $made = ids(sampling_params => { max_tokens => 6, logprobs => 2, prompt_logprobs => 0, ignore_eos => $true })->{json};
my $whole = $server->post('/v1/completions', { prompt => $ids, max_tokens => 6, ignore_eos => $true, return_token_ids => $true })->{json}{choices}[0];
is_deeply $made->{choices}[0]{token_ids}, $whole->{token_ids}, 'ids of an answer to ids';
is_deeply [$made->{choices}[0]{finish_reason}, map { scalar @$_ } $made->{choices}[0]{logprobs}{content}, $made->{prompt_logprobs}], ['length', 6, scalar @$ids], '  with log probabilities';
is $made->{choices}[0]{logprobs}{content}[0]{token}, "token_id:$whole->{token_ids}[0]", '  by id';
my @pieces = map { decode_json($_) } ids(stream => $true, sampling_params => { max_tokens => 6, ignore_eos => $true })->{content} =~ /^data: (\{.*)$/mg;
is_deeply [map { @{ $_->{choices}[0]{token_ids} // [] } } @pieces], $whole->{token_ids}, '  streamed';
is_deeply [map { $_->{json}{error}{param} } ids(token_ids => 'x'), ids(token_ids => []), ids(sampling_params => 5), ids(token_ids => [1 .. 600])], [qw(token_ids token_ids sampling_params token_ids)], '  wrong ones by name';
my $pooled = $server->post('/pooling', { input => ['x', 'y'], task => 'embed' })->{json};
is_deeply [map { $_->{data} } @{ $pooled->{data} }], [map { $_->{embedding} } @{ $server->post('/v1/embeddings', { input => ['x', 'y'] })->{json}{data} }], 'pooling is of embeddings';
is $pooled->{data}[0]{object}, 'pooling', '  in its shape';
is $server->post('/pooling', { input => 'x', task => 'token_embed' })->{json}{error}{param}, 'task', '  of whole texts';
is $server->stop, 0, 'the server ends well';

my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "good\n");
my $guarded = Script->new(front => "api_keys = $folder/keys\nserved_model_name = m\n", answers => ['x'])->server;
my %key = ('api-key' => 'good');
is $guarded->post('/openai/deployments/m/completions', { prompt => 'x', max_tokens => 1 }, \%key)->{status}, 200, "Azure's header has the key";
is $guarded->post('/openai/deployments/other/completions', { prompt => 'x', max_tokens => 1 }, \%key)->{status}, 404, 'a path of another model';
is $guarded->post('/', { inputs => 'x' })->{status}, 401, 'POST / needs the key';
is $guarded->get('/ping')->{status}, 200, 'ping does not';
done_testing;
