#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /v1/completions: the fake step loop repeats the prompt, so each test decides its answer.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my $server = LlmServer->fake;
my ($true, $false) = (JSON::PP::true, JSON::PP::false);

# The model's tokens for single bytes: any text as ids, one byte each.
sub bytes { return map { 3 + ord } split //, $_[0] }
sub prompt { return [1, bytes($_[0])] }

sub complete { my (%body) = @_; return $server->post('/v1/completions', \%body) }

# All text of a stream by choice, and its data events.
sub stream {
    my (%body) = @_;
    my @events = LlmServer::events(complete(%body, stream => $true));
    my %text;
    for my $event (grep { ref } @events) {
        $text{ $_->{index} } .= $_->{text} for @{ $event->{choices} };
    }
    return \%text, @events;
}

# ---- shapes ---------------------------------------------------------------------------

my $answer = complete(model => 'fake/model', prompt => [1, 403, 407, 261], max_tokens => 3, return_token_ids => $true);
is $answer->{status}, 200, 'token ids';
my $json = $answer->{json};
like delete $json->{id}, qr/\Acmpl-[0-9a-f]{32}\z/, 'the id';
LlmServer::is_recent delete $json->{created}, 'created now';
is_deeply $json, {
    object  => 'text_completion',
    model   => 'fake/model',
    choices => [{
            index => 0, text => $json->{choices}[0]{text}, logprobs => undef, finish_reason => 'length',
            stop_reason => undef, token_ids => [403, 407, 261], prompt_token_ids => [1, 403, 407, 261], prompt_logprobs => undef,
    }],
    system_fingerprint => $json->{system_fingerprint},
    usage => { prompt_tokens => 4, completion_tokens => 3, total_tokens => 7, prompt_tokens_details => { cached_tokens => 0 } },
}, 'the whole shape';

$answer = complete(prompt => 'Once upon a time', max_tokens => 4, return_token_ids => $true);
is_deeply $answer->{json}{choices}[0]{prompt_token_ids}, [1, 403, 407, 261, 378], 'text is tokenised with BOS';
is $answer->{json}{choices}[0]{text}, ' Once upon a time', 'and comes back as text';
is complete(prompt => 'Once upon a time', add_special_tokens => $false)->{json}{usage}{prompt_tokens}, 4, 'add_special_tokens';
is complete(prompt => '')->{json}{usage}{prompt_tokens}, 1, 'an empty text is a BOS';
is complete(prompt => 'Once')->{json}{usage}{completion_tokens}, 16, 'max_tokens is 16 by default';

$answer = complete(prompt => [prompt('ab'), prompt('xyz')], n => 2, max_tokens => 3);
is_deeply [map { [$_->{index}, $_->{text}] } @{ $answer->{json}{choices} }],
    [[0, 'aba'], [1, 'aba'], [2, 'xyz'], [3, 'xyz']], 'prompts times n, in order';
is_deeply [@{ $answer->{json}{usage} }{qw(prompt_tokens completion_tokens)}], [7, 12], 'a prompt counts once';
is_deeply complete(prompt => ['Once', 407, 'a', 378], max_tokens => 1, return_token_ids => $true)->{json}{choices}[0]{prompt_token_ids}, [1, 403, 407, 261, 378],
    'texts among ids are one prompt, with one BOS';
is_deeply complete(prompt => [403, 'upon'], max_tokens => 1, return_token_ids => $true)->{json}{choices}[0]{prompt_token_ids}, [403, 407], '  with none where ids begin it';
is_deeply [map { $_->{text} } @{ complete(prompt => ['Once', 'upon'], max_tokens => 1)->{json}{choices} }],
    [' Once', ' upon'], 'several texts';

# ---- streams --------------------------------------------------------------------------

my ($text, @events) = stream(prompt => prompt('hello'), max_tokens => 5);
is $text->{0}, 'hello', 'a stream';
is_deeply [map { $_->{choices}[0]{finish_reason} } @events[0 .. 4]], [undef, undef, undef, undef, 'length'],
    'one chunk a token, the reason on the last';
is $events[5], '[DONE]', 'then [DONE]';
is scalar @events, 6, 'and no more';
is_deeply [map { ref ? $_->{system_fingerprint} : () } @events], [($json->{system_fingerprint}) x 5], 'each with the fingerprint of a whole answer';
is scalar(grep { exists $_->{usage} } grep { ref } @events), 0, 'no usage unless asked for';

($text, @events) = stream(prompt => prompt('hello'), max_tokens => 5, stream_options => { include_usage => $true });
is_deeply $events[-2]{usage},
    { prompt_tokens => 6, completion_tokens => 5, total_tokens => 11, prompt_tokens_details => { cached_tokens => 0 } },
    'include_usage: the usage at the end';
is_deeply $events[-2]{choices}, [], 'in a chunk without choices';
ok exists $events[0]{usage} && !defined $events[0]{usage}, 'and null before';
is scalar(keys %{ { map { $_->{id} => 1 } grep { ref } @events } }), 1, 'all chunks have one id';

($text, @events) = stream(prompt => [prompt('ab'), prompt('xyz')], n => 2, max_tokens => 4);
is_deeply $text, { 0 => 'abab', 1 => 'abab', 2 => 'xyzx', 3 => 'xyzx' }, 'four choices in one stream';
is scalar(grep { ref && $_->{choices}[0]{finish_reason} } @events), 4, 'each with its end';

my $burst = $server->post('/v1/completions', { prompt => prompt('hello'), max_tokens => 5, stream => $true },
    { 'x-request-id' => 'burst-1' });
@events = LlmServer::events($burst);
is join('|', map { ref ? $_->{choices}[0]{text} : $_ } @events), 'h|e|l|l|o|[DONE]', 'a chunk a token, also when they come at once';

($text, @events) = stream(prompt => [1, 403, 407], max_tokens => 2, return_token_ids => $true);
is_deeply [map { $_->{choices}[0]{token_ids} } @events[0, 1]], [[403], [407]], 'token ids in chunks';
is_deeply [map { exists $_->{choices}[0]{prompt_token_ids} ? 1 : 0 } @events[0, 1]], [1, 0], 'the prompt in the first';

# ---- characters -----------------------------------------------------------------------

my $euro = "\xe2\x82\xac";
($text, @events) = stream(prompt => prompt("a${euro}b"), max_tokens => 5);
is join('|', map { ref ? $_->{choices}[0]{text} : () } @events), "a|\x{20ac}|b", 'a character is never split';
($text, @events) = stream(prompt => prompt("a$euro"), max_tokens => 3);
is $text->{0}, "a\x{fffd}", 'nor is half of one shown but as U+FFFD at the end';
is $events[-2]{choices}[0]{finish_reason}, 'length', 'in the last chunk';
is complete(prompt => prompt("\xff\xfe"), max_tokens => 2)->{json}{choices}[0]{text}, "\x{fffd}\x{fffd}", 'bytes that are no text';

# ---- ends -----------------------------------------------------------------------------

my $eos = [1, bytes('ab'), 2, bytes('cd')];
my $choice = complete(prompt => $eos)->{json};
is $choice->{choices}[0]{text}, 'ab', 'the end token ends, and is not shown';
is $choice->{choices}[0]{finish_reason}, 'stop', 'with the reason stop';
is $choice->{usage}{completion_tokens}, 3, 'but counted';
is complete(prompt => $eos, ignore_eos => $true, max_tokens => 5)->{json}{choices}[0]{text}, 'abcd', 'ignore_eos';
is complete(prompt => $eos, ignore_eos => $true, max_tokens => 5, skip_special_tokens => $false)->{json}{choices}[0]{text},
    'ab</s>cd', 'skip_special_tokens';
is complete(prompt => $eos, min_tokens => 4)->{json}{usage}{completion_tokens}, 8, 'min_tokens goes past the first';
$choice = complete(prompt => prompt('abc'), stop_token_ids => [bytes('c')])->{json}{choices}[0];
is_deeply [@$choice{qw(text finish_reason stop_reason)}], ['ab', 'stop', bytes('c')], 'stop_token_ids';

# ---- stop strings ---------------------------------------------------------------------

for my $case (
    # text, stop, shown, reason
    ['one two three', 'two',            'one ',  'two'],
    ['one two three', ['x', ' t'],      'one',   ' t'],
    ['one two three', ['three', 'two'], 'one ',  'two'],
    ['aaab',          'aab',            'a',     'aab'],
    ['abcabd',        'abd',            'abc',   'abd'],
    ["x${euro}y",     "\x{20ac}",       'x',     "\x{20ac}"],
    ['stop',          'stop',           '',      'stop'],
    ['hi',            'never',          'hi',    undef],
    ['hi nev',        'never',          'hi nev', undef],
) {
    my ($given, $stop, $shown, $reason) = @$case;
    my $name = (ref $stop ? join(',', @$stop) : $stop) . " in $given";
    utf8::encode($name);
    my %body = (prompt => prompt($given), max_tokens => length $given, stop => $stop);
    my $whole = complete(%body)->{json}{choices}[0];
    is_deeply [@$whole{qw(text finish_reason stop_reason)}], [$shown, defined $reason ? 'stop' : 'length', $reason], "stop: $name";
    my ($streamed, @seen) = stream(%body);
    is $streamed->{0}, $shown, "  and nothing of it leaks from a stream";
    is scalar(grep { ref && $_->{choices}[0]{finish_reason} } @seen), 1, '  which ends once';
}
is complete(prompt => prompt('one two'), stop => 'two', include_stop_str_in_output => $true, max_tokens => 7)->{json}{choices}[0]{text},
    'one two', 'include_stop_str_in_output';
# ---- stop_regex -----------------------------------------------------------------------

for my $case (
    # text, expressions, shown, with what stopped it, reason
    ['one 12 two', '\d+',             'one ',     'one 1',     '\d+'],
    ['one 12 two', ['z', '\d+ '],     'one ',     'one 12 ',   '\d+ '],
    ['aab aabx',   'a+b[x-z]',        'aab ',     'aab aabx',  'a+b[x-z]'],
    ['open (never', '\(.*\)',         'open (never', 'open (never', undef],
  ) {
    my ($given, $regex, $without, $with, $reason) = @$case;
    for my $include ($false, $true) {
        my $shown = $include ? $with : $without;
        my %body = (prompt => prompt($given), max_tokens => length $given, stop_regex => $regex, include_stop_str_in_output => $include);
        my $whole = complete(%body)->{json}{choices}[0];
        is_deeply [@$whole{qw(text finish_reason stop_reason)}], [$shown, defined $reason ? 'stop' : 'length', $reason], "stop_regex in $given";
        is join('', map { ref && @{ $_->{choices} } ? $_->{choices}[0]{text} : () } LlmServer::events(complete(%body, stream => $true))), $shown,
          '  the same in pieces';
    }
}
is complete(prompt => prompt('one two 3'), stop => 'two', stop_regex => 't|\d', max_tokens => 9)->{json}{choices}[0]{stop_reason}, 't|\d',
    'whichever ends first';
is complete(prompt => prompt('one two 3'), stop => ['t'], stop_regex => 't|\d', max_tokens => 9)->{json}{choices}[0]{stop_reason}, 't',
    '  a string where both do';
is complete(prompt => prompt('a1b2c'), stop_regex => '\d', min_tokens => 3, max_tokens => 5)->{json}{choices}[0]{text}, 'a1b',
    'min_tokens holds for stop_regex too';

is complete(prompt => prompt('abab.'), stop => 'b', min_tokens => 3, max_tokens => 5)->{json}{choices}[0]{text}, 'aba',
    'min_tokens holds for stop strings too';
ok $server->metric_becomes('vllm:num_requests_running{model_name="fake/model",engine="0"}', 0), 'a stop string ends the request in the step loop';

# ---- logprobs -------------------------------------------------------------------------

my $logprobs = complete(prompt => prompt("a$euro"), max_tokens => 2, logprobs => 2)->{json}{choices}[0]{logprobs};
is_deeply $logprobs, {
    tokens         => ['a', "\x{fffd}"],
    token_logprobs => [-0.5, -0.5],
    top_logprobs   => [{ a => -0.5, b => -1.5 }, { "\x{fffd}" => -0.5 }],
    text_offset    => [0, 1],
}, 'logprobs of completions';
($text, @events) = stream(prompt => prompt('ab'), max_tokens => 2, logprobs => 0);
is_deeply [map { $_->{choices}[0]{logprobs} } @events[0, 1]],
    [map { { tokens => [$_->[0]], token_logprobs => [-0.5], top_logprobs => [{ $_->[0] => -0.5 }], text_offset => [$_->[1]] } } ['a', 0], ['b', 1]],
    'in a stream, the offset goes on';
my @hidden = (prompt => [1, bytes('ab'), 2, bytes('cd')], ignore_eos => $true, max_tokens => 5, logprobs => 0);
is_deeply complete(@hidden)->{json}{choices}[0]{logprobs}{text_offset}, [0, 1, 2, 2, 3], 'a token that the text leaves out has no width';
is_deeply complete(@hidden, skip_special_tokens => $false)->{json}{choices}[0]{logprobs}{text_offset}, [0, 1, 2, 6, 7], 'one that it shows has';
(undef, @events) = stream(@hidden);
is_deeply [map { ref ? @{ $_->{choices}[0]{logprobs}{text_offset} } : () } @events], [0, 1, 2, 2, 3], 'so in a stream';

# ---- context --------------------------------------------------------------------------

$answer = complete(prompt => [(5) x 512]);
is $answer->{status}, 400, 'a prompt that fills the context';
is $answer->{json}{error}{code}, 'context_length_exceeded', 'has its own code';
like $answer->{json}{error}{message},
    qr/\AThis model's maximum context length is 512 tokens\. However, you requested 513 tokens \(512 in the prompt, 1 in the completion\)\. /,
    'and the sentence that clients look for';
is $answer->{headers}{'x-should-retry'}, 'false', 'and need not be tried again';
like complete(prompt => 'x ' x 1000000)->{json}{error}{message}, qr/you requested at least \d+ tokens \(at least \d+ in the prompt, /, 'megabytes are not even tokenised';
$answer = complete(prompt => [(5) x 500], max_tokens => 13);
is_deeply [$answer->{status}, $answer->{json}{error}{code}], [400, 'context_length_exceeded'], 'so has an answer that has no room';
like $answer->{json}{error}{message}, qr/you requested 513 tokens \(500 in the prompt, 13 in the completion\)/, 'with all numbers';
is complete(prompt => [(5) x 500], max_tokens => 12)->{json}{usage}{completion_tokens}, 12, 'one token less is well';
is complete(prompt => [(5) x 510])->{json}{usage}{completion_tokens}, 2, 'without max_tokens the answer is cut to the room';
like complete(prompt => 'x', max_tokens => 2147483648)->{json}{error}{message}, qr/ 2147483648 in the completion\)/, 'a huge one is told the same';

# truncate_prompt_tokens: the last tokens, and the BOS of a text
sub kept { my (%body) = @_; return complete(max_tokens => 1, return_token_ids => $true, %body)->{json}{choices}[0]{prompt_token_ids} }
is_deeply kept(prompt => [5 .. 300], truncate_prompt_tokens => 3), [298, 299, 300], 'truncate_prompt_tokens';
is_deeply kept(prompt => 'Once upon a time', truncate_prompt_tokens => 3), [1, 261, 378], '  leaves the BOS before a text';
is_deeply kept(prompt => 'Once upon', truncate_prompt_tokens => 9), [1, 403, 407], '  and a short one as it is';
is scalar @{ kept(prompt => [(5) x 600], truncate_prompt_tokens => -1, max_tokens => 100) }, 412, '  -1 makes room for the answer';
is complete(prompt => 'Once upon a time', truncate_prompt_tokens => 2, max_tokens => 0, echo => $true)->{json}{choices}[0]{text}, '<s> time', '  what is echoed is what is left';
is complete(prompt => [5], truncate_prompt_tokens => 0)->{json}{error}{param}, 'truncate_prompt_tokens', '  to nothing is no length';

my $echoed = complete(prompt => [(403) x 400], max_tokens => 1, n => 3, echo => $true, logprobs => 19, stream => $true);
is $echoed->{status}, 400, 'scores of a long prompt are not streamed';
like $echoed->{json}{error}{message}, qr/scores of 1200 tokens of prompts; with 'stream' at most 1000/, '  and whoever wants them is told what else to do';
is complete(prompt => [(403) x 300], max_tokens => 1, n => 3, echo => $true, logprobs => 19, stream => $true)->{status}, 200, '  those of a shorter one are';

# ---- request ids ----------------------------------------------------------------------

is $server->post('/v1/completions', { prompt => 'x' }, { 'x-request-id' => 'mine-1' })->{headers}{'x-request-id'}, 'mine-1', 'a request id comes back';
like $server->post('/v1/completions', { prompt => 'x' }, { 'x-request-id' => 'a b' })->{headers}{'x-request-id'}, qr/\A[0-9a-f]{32}\z/, 'not so an odd one';

ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
is $server->stop, 0, 'the server ends well';
done_testing;
