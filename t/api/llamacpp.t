#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llama.cpp's own endpoints: /completion whole and as a stream, with probabilities, grammars and response_fields;
# /infill, /props, /slots, /apply-template; timings.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use LlmServer;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my @fim    = ('<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>');
my $script = Script->new(special => [@fim], first => 100, answers => ["One.\nTwo.", '{"a": "x"}'], rest => "[engine]\nmax_sequences = 3\nthreads = 1\npin = false\n");
my $server = $script->server;

sub get { return decode_json($server->get($_[0])->{content}) }
# Without a template a prompt of n letters is n tokens.
sub prompt { my ($k) = @_; return 'x' x $script->start($k) }
sub complete { my ($k, %more) = @_; return $server->post('/completion', { prompt => prompt($k), temperature => 0, %more }) }
sub events_of { my ($answer) = @_; return map { /^data: (.*)/ ? decode_json($1) : $_ } grep { length } split /\n\n/, $answer->{content} }

# ---- whole ----------------------------------------------------------------------------
my $answer = complete(0);
my $body   = $answer->{json};
is_deeply [@$body{qw(content stop stop_type stopping_word has_new_line tokens truncated index id_slot)}],
    ["One.\nTwo.", $true, 'eos', '', $true, [], $false, 0, -1], 'a whole answer, as long as the model likes';
is_deeply [@$body{qw(tokens_predicted tokens_evaluated)}, @{ $body->{timings} }{qw(predicted_n)}, $body->{timings}{prompt_n} + $body->{timings}{cache_n}],
    [10, $script->start(0), 10, $script->start(0)], 'it counts tokens';
is_deeply [$body->{prompt}, $body->{model}], [prompt(0), get('/v1/models')->{data}[0]{id}], 'and names prompt and model';
ok !defined $answer->{headers}{'x-llmserve-ignored'}, 'nothing is ignored';

is_deeply [@{ complete(0, n_predict => 4, return_tokens => $true)->{json} }{qw(content stop_type has_new_line)}], ['One.', 'limit', $false], 'n_predict';
is scalar @{ complete(0, n_predict => 4, return_tokens => $true)->{json}{tokens} }, 4, 'return_tokens';
is_deeply [@{ complete(0, stop => ['', 'Two'])->{json} }{qw(content stop_type stopping_word)}], ["One.\n", 'word', 'Two'], 'stop, of which empty strings are none';
is_deeply [map { $_->{content} } @{ complete(0, prompt => [(prompt(0)) x 2])->{json} }], [("One.\nTwo.") x 2], 'several prompts, several answers';
is complete(0, prompt => { prompt_string => prompt(0) })->{json}{content}, "One.\nTwo.", 'a prompt as an object';
my $ids = $server->post('/tokenize', { content => prompt(0) })->{json}{tokens};
is complete(0, prompt => $ids)->{json}{content}, "One.\nTwo.", 'a prompt of ids';
is complete(0, prompt => ['xx', @$ids[2 .. $#$ids]])->{json}{content}, "One.\nTwo.", 'a mixed prompt';

my %settings = (n_predict => 4, temperature => 0, top_k => 7, top_p => 0.5, min_p => 0.25, repeat_penalty => 1, seed => 11, stop => ['Q']);
my $shown = complete(0, %settings)->{json}{generation_settings};
is_deeply { map { $_ => $shown->{$_} } keys %settings }, \%settings, 'generation_settings';
is complete(0, repeat_penalty => 3, n_predict => 1)->{json}{generation_settings}{repeat_penalty}, 3, 'repeat_penalty is taken';
is complete(0, repeat_penalty => 3, repeat_last_n => 9, n_predict => 1)->{json}{generation_settings}{repeat_last_n}, 9, 'and the tokens that it looks at';
is_deeply complete(0, n_predict => 4, response_fields => ['content', 'generation_settings/n_predict', 'nothing'])->{json},
    { content => 'One.', 'generation_settings/n_predict' => 4 }, 'response_fields';

my $probs = complete(0, n_predict => 2, n_probs => 3)->{json}{completion_probabilities};
is_deeply [scalar @$probs, scalar @{ $probs->[0]{top_logprobs} }, $probs->[0]{token}, $probs->[0]{bytes}, $probs->[0]{top_logprobs}[0]{id}],
    [2, 3, 'O', [79], $probs->[0]{id}], 'n_probs';

is complete(1, json_schema => { type => 'object', properties => { a => { type => 'string' } }, required => ['a'] })->{json}{content}, '{"a": "x"}', 'json_schema';
is complete(0, grammar => 'root ::= "One"')->{json}{content}, 'One', 'grammar';

# ---- a stream -------------------------------------------------------------------------
for my $more ({}, { n_predict => 4 }, { stop => ['Two'] }, { n_probs => 2 }, { prompt => [(prompt(0)) x 2] }) {
    my $whole  = complete(0, %$more)->{json};
    my @whole  = ref $whole eq 'ARRAY' ? @$whole : $whole;
    my @events = events_of(complete(0, %$more, stream => $true));
    for my $one (@whole) {
        my @mine = grep { $_->{index} == $one->{index} } @events;
        my $last = pop @mine;
        is join('', map { $_->{content} } @mine), $one->{content}, 'the pieces are the whole';
        is scalar(grep { !@{ $_->{tokens} } || $_->{stop} } @mine), 0, 'each has tokens, and is not the last';
        is_deeply [map { @{ $_->{completion_probabilities} // [] } } @mine], $one->{completion_probabilities} // [], 'and probabilities';
        my @same = qw(stop stop_type stopping_word has_new_line tokens_predicted tokens_evaluated prompt);
        is_deeply [@$last{@same}], [@$one{@same}], 'the last event has the rest';
    }
}
my $stream = complete(0, stream => $true);
unlike $stream->{content}, qr/DONE/, 'the stream ends without a mark';
ok((grep { $_->{timings} } events_of(complete(0, n_predict => 2, stream => $true, timings_per_token => $true))) > 1, 'timings_per_token');

# ---- refused, ignored -----------------------------------------------------------------
for my $case ([mirostat => 3], [dry_base => 0], [samplers => ['infill']], [dry_sequence_breakers => ['']], [t_max_predict_ms => 5], [n_predict => 0],
    [n_probs => 21], [prompt => { prompt_string => 'x', multimodal_data => ['AAAA'] }], [response_fields => 'content']) {
    my $refused = complete(0, @$case);
    is_deeply [$refused->{status}, @{ $refused->{json}{error} }{qw(param code)}], [400, $case->[0], 400], "$case->[0] is refused by name";
}
is join(' ', sort split /, /, complete(0, n_predict => 1, id_slot => 1, n_keep => 2, logprobs => 1)->{headers}{'x-llmserve-ignored'}), 'id_slot logprobs n_keep',
    'what has no effect is listed';
my @cached = map { complete(0, n_predict => 1, cache_prompt => $_)->{json}{timings}{cache_n} } $true, $false;
ok $cached[0] > 0 && $cached[1] == 0, 'cache_prompt';
is complete(0, n_predict => 1, id_slot => -1, cache_prompt => $true, seed => 4294967295)->{headers}{'x-llmserve-ignored'}, undef, 'neutral values are not';

# ---- what llama.cpp's tests ask for ------------------------------------------------------
my $context = get('/v1/models')->{data}[0]{max_model_len};
my $drawn = complete(0, n_predict => 2, n_probs => 3, temperature => 1, top_k => 1, post_sampling_probs => $true)->{json}{completion_probabilities};
is_deeply [map { [$_->{prob}, scalar @{ $_->{top_probs} }, $_->{top_probs}[0]{prob}, exists $_->{logprob}] } @$drawn], [([1, 1, 1, '']) x 2], 'post_sampling_probs';
my $biased = complete(0, n_predict => 1, logit_bias => { 'O' => -100, 40 => 3 }, ignore_eos => $true)->{json};
isnt substr($biased->{content}, 0, 1), 'O', 'logit_bias by texts';
is_deeply [sort { $a <=> $b } map { $_->{bias} // -1000 } @{ $biased->{generation_settings}{logit_bias} }], [-1000, -100, 3], '  is shown, with that of ignore_eos';
my $long = complete(0, n_predict => $context)->{json};
is_deeply [@$long{qw(stop_type truncated)}], ['eos', $false], 'an n_predict beyond the context is cut';
my $full = complete(0, prompt => 'x' x ($context - 6), n_predict => 100, ignore_eos => $true)->{json};
is_deeply [@$full{qw(stop_type truncated)}, $full->{tokens_evaluated} + $full->{tokens_predicted}], ['limit', $true, $context], '  and the answer truncated';
my $over = complete(0, prompt => 'x' x ($context + 1))->{json}{error};
is $over->{type}, 'exceed_context_size_error', 'a prompt that is too long has a type of its own';
like $over->{message}, qr/exceeds the available context size/, '  and llama.cpp\'s words';
is $server->post('/v1/completions', { prompt => 'x', max_tokens => $context + 1 })->{status}, 400, 'which /v1 refuses';

# ---- beside it ------------------------------------------------------------------------
my $start = $script->start(0) - 3;
is $server->post('/infill', { input_prefix => 'x' x ($start - 2), input_suffix => 'y', prompt => 'z', temperature => 0 })->{json}{content}, "One.\nTwo.", 'infill';
is $server->post('/infill', { input_prefix => 'x', input_extra => [{ filename => 'a', text => 'b' }] })->{json}{error}{param}, 'input_extra', 'other files need tokens of theirs';

my $props = get('/props');
is_deeply [@$props{qw(total_slots eos_token model_path)}, $props->{default_generation_settings}{n_ctx}],
    [3, '<|im_end|>', $body->{model}, get('/v1/models')->{data}[0]{max_model_len}], 'props';
like $props->{chat_template}, qr/im_start/, 'with the template';
is_deeply [map { $_->{is_processing} } @{ get('/slots') }], [($false) x 3], 'slots';
is $server->get('/slots?fail_on_no_slot=1')->{status}, 200, 'one is free';
is_deeply $server->post('/apply-template', { messages => [{ role => 'user', content => 'Hi <|im_end|>' }] })->{json},
    { prompt => "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n" }, 'apply-template';
my $timed = $server->post('/v1/completions', { prompt => prompt(0), max_tokens => 3, timings_per_token => $true })->{json};
is $timed->{timings}{predicted_n}, 3, 'timings in /v1, where they are wanted';
ok !exists $server->post('/v1/completions', { prompt => 'x', max_tokens => 1 })->{json}{timings}, 'and only there';
is $server->stop, 0, 'the server ends well';

my $plain = Script->new(answers => ['x'], template => '{{ messages[0].content }}{{ mood }}', front => "cut_max_tokens = true\n",
    model => "template_variables = {\"mood\": \"glad\"}\n", rest => "[engine]\nseed = 7\nthreads = 1\npin = false\n")->server;
my @mood = map { $plain->post('/apply-template', { messages => [{ role => 'user', content => 'a' }], %$_ })->{json}{prompt} } {}, { chat_template_kwargs => { mood => 'sad' } };
is_deeply \@mood, ['aglad', 'asad'], 'template_variables, which a request overrides';
is $plain->post('/completion', { prompt => 'x', n_predict => 1 })->{json}{generation_settings}{seed}, 7, 'the seed of requests that set none';
is $plain->post('/v1/completions', { prompt => 'x', max_tokens => 1e6 })->{status}, 200, 'cut_max_tokens';
like $plain->post('/infill', { input_prefix => 'x' })->{json}{error}{message}, qr/does not fill in texts/, 'a model that does not fill in says so';
done_testing;
