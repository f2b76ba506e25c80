#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Refused requests: status, code, parameter, and a message that tells the client what to
# do.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my $server = LlmServer->fake;
my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $path = '/v1/completions';

# The four keys, always; the error itself.
sub error_ok {
    my ($answer, $status, $name) = @_;
    is $answer->{status}, $status, $name;
    my $error = ref $answer->{json} eq 'HASH' ? $answer->{json}{error} : undef;
    is_deeply [sort keys %{ $error // {} }], [qw(code message param type)], '  has the four keys' or diag $answer->{content};
    return $error;
}

# ---- bodies ---------------------------------------------------------------------------

my %bodies = (
    'nothing'                  => '',
    'not JSON'                 => 'prompt=x',
    'half an object'           => '{"prompt":"x"',
    'two objects'              => '{"prompt":"x"}{}',
    'an array'                 => '["x"]',
    'a string'                 => '"x"',
    'null'                     => 'null',
    'a key twice'              => '{"prompt":"x","prompt":"y"}',
    'NaN'                      => '{"prompt":"x","temperature":NaN}',
    'Infinity'                 => '{"prompt":"x","temperature":Infinity}',
    'a number with a 0 before' => '{"prompt":"x","seed":099999999999999999999999}',
    'half an exponent'         => '{"prompt":"x","user":1e999,"temperature":1e}',
    'invalid UTF-8'            => "{\"prompt\":\"\xff\"}",
    'an overlong character'    => "{\"prompt\":\"\xc0\x80\"}",
    'half a surrogate'         => '{"prompt":"\ud800"}',
    'NUL in a key'             => '{"a\u0000b":1,"prompt":"x"}',
    'a bare control character' => "{\"prompt\":\"a\nb\"}",
    'deep nesting'             => '{"prompt":' . '[' x 100000 . ']' x 100000 . '}',
    'deep nesting of objects'  => '{"a":' x 100000 . '1' . '}' x 100000,
    'a comment'                => '{"prompt":"x"} // hello',
    'a trailing comma'         => '{"prompt":"x",}',
    'single quotes'            => q({'prompt':'x'}),
    'UTF-16'                   => "\xff\xfe{\0}\0",
);
for my $what (sort keys %bodies) {
    for my $where ($path, '/v1/chat/completions') {
        my $error = error_ok($server->post($where, $bodies{$what}), 400, "$where: $what");
        is $error->{code}, 'invalid_json', '  is no JSON';
    }
}

# ---- parameters -----------------------------------------------------------------------

my $not_a_number = qr/must be a number/;
my @refused = (
    # parameter, values, message
    ['model',       [1, [], {}], qr/must be a string/],
    ['prompt',      [undef, 1, {}, $true], qr/prompt/],
    ['prompt',      [[], [[]]], qr/must not be empty/],
    ['prompt',      [[-1], [512], [1.5], [1e300], [[1, undef]], [['a']], [[['a', 1], 2]], ['a', 512], [{}], [undef]], qr/token ids|must be a string/],
    ['max_tokens',  [0, -2, 1.5, 'x', $true, [], {}, 1e18], qr/'max_tokens' must be an integer (?:of at least|from) [01](?: to \d+)?, not /],
    ['min_tokens',  [-1, 'x', 17], qr/min_tokens/],
    ['temperature', [-0.1, 100.1, 'hot', $true, [1]], qr/'temperature' must be a number from 0 to 100, not /],
    ['top_p',       [-1, 1.01, 'x'], qr/from 0 to 1/],
    ['min_p',       [-1, 1.01, {}], qr/from 0 to 1/],
    ['top_k',       [-2, 1.5, 'x'], qr/must be an integer of at least -1, not /],
    ['top_k',       [1e10, 2147483648], qr/must be an integer from -1 to 2147483647, not /],
    ['n',           [0, 129, -1, 'x'], qr/from 1 to 128/],
    ['seed',        ['x', 1.5, [], 1e300], qr/must be an integer/],
    ['stream',      [1, 'yes', {}], qr/must be true or false/],
    ['ignore_eos',  [1, 'yes'], qr/must be true or false/],
    ['stop',        [1, '', [''], ['a', 1], {}, 'x' x 1025, [('x') x 17]], qr/'stop'/],
    ['stop_token_ids', [1, 'x', [-1], [512], ['x']], qr/token ids/],
    ['stop_token_ids', [[(1) x 4097]], qr/has 4097 ids; at most 4096/],
    ['logit_bias',  [1, 'x', { x => 1 }, { -1 => 1 }, { 512 => 1 }, { 1 => 'x' }, { 1 => 101 }, { '' => 1 }], qr/logit_bias/],
    ['allowed_token_ids', [[], 5, {}, [-1], [512], ['x'], [1, undef]], qr/'allowed_token_ids'/],
    ['bad_words',   ['x', {}, [5], [''], ['  '], ['x' x 257], [map { 'x' } 1 .. 257], ["a\0b"]], qr/'bad_words'/],
    ['logit_bias',  [[1], [[1]], [[1, 2, 3]], [[1, 101]], [[512, 1]], [['x', 'y']], [[undef, 1]], [[1, $true]]], qr/'logit_bias'.*item 0/],
    ['logit_bias',  [{ 512 => 1, 3 => 1, 99999 => 1, x => 2 }], qr/(?=.*"512")(?=.*"99999")(?=.*"x")(?!.*"3")/],
    ['presence_penalty', [2.1, -2.1, 'x'], qr/from -2 to 2/],
    ['repetition_penalty', [0, -1, 'x'], qr/must be a number/],
    ['logprobs',    [-1, 21, 'x', $true], qr/from 0 to 20/],
    ['class',       ['fast', 1, {}], qr/"realtime" or "best_effort"/],
    ['priority',    ['high', 1.5, 1e10], qr/must be an integer/],
    ['slo',         [1, 'x', []], qr/must be an object/],
    ['stream_options', [{}], qr/only for requests with 'stream'/],
    ['echo',        [1, 'yes'], qr/must be true or false/],
    ['suffix',      ['x'], qr/not supported/],
    ['stop_regex',  [1, '', [''], ['x', {}]], qr/must be a regular expression or an array of them/],
    ['stop_regex',  ['x*', ['y', '^x'], 'x(', '(?=x)'], qr/'stop_regex': the regular expression/],
    ['grammar',     ['root ::= "a"'], qr/not supported by this server/],
    ['json_schema', [{ type => 'object' }], qr/not supported by this server/],
    ['logprob_token_ids', [[1]], qr/only for requests with 'logprobs'/],
    ['best_of',     [2], qr/not supported/],
    ['prompt_logprobs', [-1, 21, $true], qr/from 0 to 20/],
    ['service_tier', ['express', 1], qr/must be one of "auto"/],
    ['user',        [1, {}], qr/must be a string/],
    ['response_format', [{ type => 'json_object' }], qr/not supported by this server/],
    ['response_format', ['x', {}], qr/must be an object with a 'type'/],
);
my $encoder = JSON::PP->new->allow_nonref->canonical;
for my $case (@refused) {
    my ($parameter, $values, $message) = @$case;
    for my $value (@$values) {
        my $shown = substr $encoder->encode($value), 0, 40;
        my $error = error_ok($server->post($path, { prompt => 'x', $parameter => $value }), 400, "$parameter = $shown");
        like $error->{message}, $message, '  says why';
        is $error->{param}, $parameter, '  and of what';
        is $error->{type}, 'invalid_request_error', '  and whose fault';
    }
}
my $error = error_ok($server->post($path, { prompt => 'x', slo => { ttft_ms => 'soon' } }), 400, 'slo.ttft_ms');
is $error->{param}, 'slo.ttft_ms', '  the inner name';
$error = error_ok($server->post($path, { prompt => 'x', slo => { ttft => 5 } }), 400, 'a deadline that nobody knows');
like $error->{message}, qr/'slo.ttft' is no part of 'slo', which knows ttft_ms, tbt_ms, tpot_ms, completion_ms/, '  what there is';
$error = error_ok($server->post($path, { prompt => 'x', stream => $true, stream_options => { include_usage => 1 } }), 400, 'include_usage');
is $error->{param}, 'stream_options.include_usage', '  the inner name';
$error = error_ok($server->post($path, { prompt => [('x') x 65], n => 2 }), 400, '130 answers');
like $error->{message}, qr/65 prompts times n = 2 is more than the 128/, '  with the numbers';
$error = error_ok($server->post($path, { prompt => [('x') x 129] }), 400, '129 prompts');
$error = error_ok($server->post($path, { prompt => 'x', model => 'gpt-4' }), 404, 'another model');
is_deeply [@$error{qw(code param)}], ['model_not_found', 'model'], '  is not found';

error_ok($server->post($path, { prompt => '', add_special_tokens => $false }), 400, 'an empty text without BOS');

# Numbers of any size are JSON; what has to be small says so.
for my $case (['seed', '9223372036854775808', qr/must be an integer from -9\d{18} to 9\d{18}, not 9.22/],
              ['seed', '-1e999', qr/must be an integer from -9\d{18} to 9\d{18}, not -9e307/],
              ['temperature', '1e999', qr/must be a number from 0 to 100, not 9e307/],
              ['max_tokens', '99999999999999999999999', qr/must be an integer of at least|must be an integer from/],
              ['top_k', '18446744073709551615', qr/must be an integer from -1 to 2147483647, not 1.84/]) {
    for my $where ($path, '/v1/chat/completions') {
        my $body = qq({"prompt":"x","messages":[{"role":"user","content":"x"}],"$case->[0]":$case->[1]});
        $body =~ s/"messages".*?\}\],// if $where eq $path;
        $body =~ s/"prompt":"x",// if $where ne $path;
        my $said = error_ok($server->post($where, $body), 400, "$where: $case->[0] $case->[1]");
        like $said->{message}, $case->[2], '  is told why';
        is $said->{param}, $case->[0], '  and where';
    }
}
is $server->post($path, "{\"prompt\":\"x\",$_}")->{status}, 200, $_
    for '"metadata":{"id":1000000000000000019884624838656}', '"foo":[1e999,-99999999999999999999,{"a":18446744073709551615}]',
        '"user":"1e999","bar":' . ('7' x 5000);

my %accepted = (
    'null is absent'       => { map { $_ => undef } qw(model max_tokens temperature stop logit_bias slo class stream seed n) },
    'unknown is ignored'   => { foo => { bar => [1] }, user => 'me', store => $false, metadata => {} },
    'all of ours'          => {
        model => 'fake/model', temperature => 0, top_p => 0.5, top_k => 40, min_p => 0.1, seed => -5, n => 1, max_tokens => 3.0,
        min_tokens => 1, stop => [], ignore_eos => $false, logit_bias => { 5 => -100 }, class => 'realtime', priority => -3,
        slo => { ttft_ms => 100, tbt_ms => 50.5, tpot_ms => undef, completion_ms => 1e6 }, stop_token_ids => [],
        presence_penalty => 1, frequency_penalty => -1, repetition_penalty => 1.1,
    },
    'neutral values'       => { echo => $false, suffix => '', best_of => 1, response_format => { type => 'text' } },
    'an extreme seed'      => { seed => JSON::PP->new->allow_bignum->decode('-9223372036854775808') },
    'no limit, to llama.cpp' => { max_tokens => -1, seed => -1 },
    'a bias as an array'   => { logit_bias => [[5, -100], [6, $false], ['upon', 1.5]] },
    'a hot temperature'    => { temperature => 5 },
    'NUL in a prompt'      => { prompt => "a\0b" },
);
for my $what (sort keys %accepted) {
    my $answer = $server->post($path, { prompt => 'x', %{ $accepted{$what} } });
    is $answer->{status}, 200, $what or diag $answer->{content};
}

# ---- the step loop's refusals ---------------------------------------------------------

sub fated { my ($fate, %body) = @_; return $server->post($path, { prompt => 'Once upon a time', %body }, { 'x-request-id' => $fate }) }

for my $stream ($false, $true) {
    my $how = $stream ? ', streamed' : '';
    my $answer = fated('full-1', stream => $stream);
    $error = error_ok($answer, 429, "the queue is full$how");
    is $error->{type}, 'rate_limit_error', '  a limit';
    like $answer->{headers}{'retry-after'}, qr/\A[1-9]\d?\z/, '  with a time to wait';
    is $answer->{headers}{'x-request-id'}, 'full-1', '  and the request id';
    $answer = fated('reject-1', stream => $stream);
    $error = error_ok($answer, 429, "the scheduler refuses$how");
    is $error->{code}, 'rejected', '  and it shows';
    $answer = fated('capacity-1', stream => $stream);
    error_ok($answer, 400, "can never fit$how");
    is $answer->{headers}{'x-should-retry'}, 'false', '  no use to try again';
    $error = error_ok(fated('failnow-1', stream => $stream), 500, "the engine fails at once$how");
    is_deeply [@$error{qw(type code)}], ['server_error', 'engine_error'], '  an engine error';
}
error_ok(fated('fail-1', n => 3), 500, 'the engine fails in the middle');

my @events = LlmServer::events(fated('fail-1', stream => $true, n => 2));
is $events[-1], '[DONE]', 'a stream that fails ends with [DONE]';
is_deeply [sort keys %{ $events[-2]{error} }], [qw(code message param type)], 'after an error event';
is scalar(grep { ref && $_->{error} } @events), 1, 'one error for both choices';
ok $events[0]{choices}, 'and the text before it';

error_ok($server->post($path, { prompt => [('x') x 10] }, { 'x-request-id' => 'full-2' }), 429, 'several prompts of which none fits');
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left of all these';

# ---- a queue that fills ---------------------------------------------------------------

my $small = LlmServer->fake(requests => 3);
error_ok($small->post($path, { prompt => [('Once') x 5], max_tokens => 2 }), 429, 'the fourth of five prompts does not fit');
ok $small->metric_becomes('llmserve_generations_live', 0), 'and the three before it are cancelled';
is $small->post($path, { prompt => ['Once', 'upon', 'a'], max_tokens => 1 })->{status}, 200, 'so that there is room again';
is $small->stop, 0, 'the server ends well';

# ---- a broken engine ------------------------------------------------------------------

fated('break-1');
is $server->get('/health')->{status}, 503, 'a broken engine is not healthy';
is decode_json($server->get('/health')->{content})->{status}, 'failed', 'and says so';
error_ok(fated('later-1'), 503, 'and takes no requests');
is $server->stop, 0, 'the server ends well';
done_testing;
