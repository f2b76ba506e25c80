#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Features that clients of vLLM, llama.cpp and the Kubernetes inference gateway use beyond plain
# requests: scoring of prompts, tokens, tiers and deadlines, comments, probes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
sub bytes { return map { 3 + ord } split //, $_[0] }
sub prompt { return [1, bytes($_[0])] }

my $server = LlmServer->fake;
sub complete { my (%body) = @_; return $server->post('/v1/completions', \%body) }
sub choice { return complete(@_)->{json}{choices}[0] }

# ---- echo -----------------------------------------------------------------------------

is choice(prompt => prompt('ab'), max_tokens => 3, echo => $true)->{text}, '<s>ababa', 'echo: the prompt, with all that its ids stand for, then the answer';
is choice(prompt => 'Once  upon', max_tokens => 1, echo => $true)->{text}, 'Once  upon Once', 'the text as it was given';
my $json = complete(prompt => prompt('abc'), max_tokens => 0, echo => $true, logprobs => 2)->{json};
is_deeply $json->{choices}[0], {
    index => 0, text => '<s>abc', prompt_logprobs => undef, token_ids => undef, prompt_token_ids => undef, finish_reason => 'length', stop_reason => undef,
    logprobs => {
        tokens         => [$json->{choices}[0]{logprobs}{tokens}[0], 'a', 'b', 'c'],
        token_logprobs => [undef, -1, -2, -3],
        top_logprobs   => [undef, { a => -1, b => -2 }, { b => -2, c => -3 }, { c => -3, d => -4 }],
        text_offset    => [0, 3, 4, 5],
    },
}, 'max_tokens 0 scores the prompt and answers nothing';
is_deeply [@{ $json->{usage} }{qw(prompt_tokens completion_tokens)}], [4, 0], 'and counts nothing';
my $logprobs = choice(prompt => prompt('ab'), max_tokens => 2, echo => $true, logprobs => 0)->{logprobs};
is_deeply $logprobs->{token_logprobs}, [undef, -1, -2, -0.5, -0.5], 'the answer follows the prompt';
is_deeply $logprobs->{text_offset}, [0, 3, 4, 5, 6], 'and its offsets go on';
is_deeply choice(prompt => 'ab', max_tokens => 1, echo => $true, logprobs => 0)->{logprobs}{text_offset}, [0, 0, 1, 2], 'the BOS before a text is not part of it';
is choice(prompt => prompt('aXb'), max_tokens => 3, echo => $true, stop => 'X')->{text}, '<s>aXba', 'a stop string in the prompt stops nothing';

my @events = LlmServer::events(complete(prompt => prompt('ab'), max_tokens => 2, echo => $true, logprobs => 1, stream => $true));
is join('|', map { ref ? $_->{choices}[0]{text} : () } @events), '<s>aba|b', 'in a stream the first chunk begins with it';
is_deeply [map { @{ $_->{choices}[0]{logprobs}{text_offset} } } grep { ref } @events], [0, 3, 4, 5, 6], 'offsets there too';
@events = LlmServer::events(complete(prompt => prompt('ab'), max_tokens => 0, echo => $true, stream => $true));
is_deeply [map { ref ? [@{ $_->{choices}[0] }{qw(text finish_reason)}] : $_ } @events], [['<s>ab', 'length'], '[DONE]'], 'max_tokens 0 in a stream';
is choice(prompt => [prompt('ab'), prompt('c')], echo => $true, max_tokens => 1, n => 2)->{text}, '<s>aba', 'several prompts';

my $list = choice(prompt => prompt('ab'), max_tokens => 1, prompt_logprobs => 1)->{prompt_logprobs};
my ($a, $b) = bytes('ab');
is $list->[0], undef, 'prompt_logprobs: nothing for the first token';
is_deeply $list->[1], { $a => { logprob => -1, rank => 1, decoded_token => 'a' } }, 'then one object a token';
$list = $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'hi' }], prompt_logprobs => 0, max_tokens => 1 })->{json};
is scalar @{ $list->{prompt_logprobs} }, $list->{usage}{prompt_tokens}, 'beside the choices of a chat';
is complete(prompt => 'x', prompt_logprobs => 1, stream => $true)->{status}, 400, 'not in a stream';

# tokens by their ids: the text stays, and so do the offsets
$json = complete(prompt => prompt('ab'), max_tokens => 2, echo => $true, logprobs => 2, return_tokens_as_token_ids => $true)->{json}{choices}[0];
is_deeply $json->{logprobs}{tokens}, ['token_id:1', "token_id:$a", "token_id:$b", "token_id:$a", "token_id:$b"], 'return_tokens_as_token_ids';
is_deeply [sort keys %{ $json->{logprobs}{top_logprobs}[1] }], [sort "token_id:$a", "token_id:$b"], '  the alternatives too';
is_deeply $json->{logprobs}{text_offset}, [0, 3, 4, 5, 6], '  and the offsets are those of the text';
is $json->{text}, '<s>abab', '  which stays';
my $one = $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'hi' }], max_tokens => 1, logprobs => $true, return_tokens_as_token_ids => $true })
    ->{json}{choices}[0]{logprobs}{content}[0];
like $one->{token}, qr/\Atoken_id:\d+\z/, 'in a chat';
isnt scalar @{ $one->{bytes} }, 0, '  whose bytes stay';

# ---- limits, as llama.cpp has them ----------------------------------------------------

is complete(prompt => 'Once', max_tokens => -1)->{json}{usage}{total_tokens}, 512, 'max_tokens -1 is as many as fit';
is $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'hi' }], max_tokens => -1 })->{json}{usage}{total_tokens}, 512, 'in a chat too';
is $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'hi' }], max_tokens => 1, add_special_tokens => $true })->{json}{usage}{prompt_tokens},
    1 + $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'hi' }], max_tokens => 1 })->{json}{usage}{prompt_tokens}, 'a chat with BOS';

# ---- usage ----------------------------------------------------------------------------

@events = LlmServer::events(complete(prompt => prompt('ab'), max_tokens => 2, stream => $true,
        stream_options => { include_usage => $true, continuous_usage_stats => $true }));
is_deeply [map { ref ? $_->{usage}{completion_tokens} : () } @events], [1, 2, 2], 'continuous_usage_stats';
@events = LlmServer::events(complete(prompt => [prompt('ab'), prompt('xyz')], max_tokens => 2, stream => $true,
        stream_options => { include_usage => $true, continuous_usage_stats => $true }));
is_deeply [map { ref && @{ $_->{choices} } ? "$_->{choices}[0]{index}:$_->{usage}{prompt_tokens}+$_->{usage}{completion_tokens}" : () } @events],
    ['0:3+1', '1:4+1', '0:3+2', '1:4+2'], '  of the choice that the chunk is of';
is $events[-2]{usage}{total_tokens}, 11, '  and of all at the end';
like complete(prompt => 'x')->{json}{system_fingerprint}, qr/\Afp_[0-9a-f]{16}\z/, 'a fingerprint';

# ---- tokens ---------------------------------------------------------------------------

sub ask { my ($path, %body) = @_; my $answer = $server->post($path, \%body); return $answer->{json} }
is_deeply ask('/tokenize', prompt => 'Once upon a time'),
    { count => 5, max_model_len => 512, tokens => [1, 403, 407, 261, 378], token_strs => undef }, '/tokenize';
is_deeply ask('/tokenize', prompt => 'Once', add_special_tokens => $false, return_token_strs => $true)->{token_strs}, ["\x{2581}Once"], 'with strings';
is_deeply ask('/tokenize', content => 'Once')->{tokens}, [403], 'as llama.cpp asks';
is ask('/tokenize', messages => [{ role => 'user', content => 'hi' }])->{count}, $list->{usage}{prompt_tokens}, 'of messages';
is ask('/detokenize', tokens => [1, 403, 407, 261, 378])->{prompt}, '<s> Once upon a time', '/detokenize';
is ask('/detokenize', tokens => [403, 407])->{content}, 'Once upon', 'as llama.cpp reads it';
is ask('/detokenize', tokens => [bytes("\xe2\x82")])->{prompt}, "\x{fffd}", 'half a character';
is_deeply ask('/tokenize', content => 'Once', with_pieces => $true)->{tokens}, [{ id => 403, piece => ' Once' }], '  with pieces';
is_deeply ask('/tokenize', content => "\x{1f600}", with_pieces => $true)->{tokens}[-1], { id => (bytes("\x80"))[0], piece => [0x80] }, '  of bytes that are no text';
my @messages = (messages => [{ role => 'user', content => 'hi' }]);
is ask('/tokenize', @messages, add_special_tokens => $true)->{count}, 1 + ask('/tokenize', @messages)->{count}, 'a chat with BOS';
for my $case ([continue_final_message => 1], [chat_template => 'x'], [tools => ['x']], [add_generation_prompt => 1], [return_token_strs => 'yes'],
    [add_special_tokens => 'no'], [model => 7], [chat_template_kwargs => []]) {
    is ask('/tokenize', @messages, @$case)->{error}{param}, $case->[0], "/tokenize of messages checks $case->[0] as a chat does";
}
isnt ask('/tokenize', @messages, tools => [{ function => { name => 'f' } }])->{count}, ask('/tokenize', @messages)->{count}, 'tools are part of the prompt';
is ask('/tokenize', prompt => 'x', @$_)->{error}{param}, $_->[0], "/tokenize of a text checks $_->[0]"
    for [add_special_tokens => 1], [return_token_strs => 'x'], [model => 'gpt-4'];
is ask('/tokenize', content => 'x', @$_)->{error}{param}, $_->[0], "/tokenize of a content checks $_->[0]" for [add_special => 1], [with_pieces => 1];
is ask('/detokenize', tokens => [1], model => 'gpt-4')->{error}{code}, 'model_not_found', '/detokenize checks the model';
is ask('/tokenize', prompt => 1)->{error}{param}, 'prompt', 'no text';
is ask('/detokenize', tokens => [512])->{error}{param}, 'tokens', 'no token';
is $server->post('/tokenize', { prompt => 'x' x (1 << 20) . 'x' })->{status}, 413, 'too much text';

# ---- class, tier, tenant, deadlines ---------------------------------------------------

sub tier { my (%body) = @_; return $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'hi' }], max_tokens => 1, %body })->{json}{service_tier} }
is tier(service_tier => 'auto'), 'default', 'no class';
is tier(service_tier => 'priority'), 'priority', 'a tier';
is tier(class => 'realtime'), 'priority', 'a class has its tier';
is tier(service_tier => 'priority', class => 'best_effort'), 'flex', 'and goes first';
is $server->metric('llmserve_class_requests_total{class="realtime"}'), 2, 'classes are counted';
is $server->metric('llmserve_class_requests_total{class="best_effort"}'), 1, 'apart';

complete(prompt => 'x', user => 'ann', max_tokens => 3);
$server->post('/v1/completions', { prompt => 'x', user => 'ann', max_tokens => 2 }, { 'x-gateway-inference-fairness-id' => 'team "a"' });
is $server->metric('llmserve_tenant_generated_tokens_total{tenant="ann"}'), 3, 'user is the tenant';
is $server->metric('llmserve_tenant_generated_tokens_total{tenant="team \"a\""}'), 2, 'unless the gateway names one';
complete(prompt => 'x', user => "\x{e9}" x 200, max_tokens => 2);
complete(prompt => 'x', user => "\x{e9}" x 201, max_tokens => 3);
my %cut = $server->get('/metrics')->{content} =~ /^llmserve_tenant_generated_tokens_total\{tenant="((?:\xc3\xa9){50,}[^"\x80-\xff]+)"\} (\d)$/mg;
is_deeply [sort values %cut], [2, 3], 'long names are cut, but not in a character, and stay apart';
complete(prompt => 'x', user => "user $_", max_tokens => 1) for 1 .. 300;
like $server->get('/metrics')->{content}, qr/llmserve_tenant_requests_total\{tenant="user 300"\} 1\n/, 'new tenants find a place';
cmp_ok $server->metric('llmserve_tenant_requests_total{tenant="other"}'), '>', 40, 'of those that left';

sub slo { my ($outcome) = @_; return $server->metric("llmserve_class_slo_requests_total{class=\"none\",outcome=\"$outcome\"}") }
complete(prompt => 'x', slo => { ttft_ms => 60000, tbt_ms => 60000, tpot_ms => 60000, completion_ms => 60000 });
is slo('attained'), 1, 'deadlines that are met';
complete(prompt => 'x', slo => { ttft_ms => 0 });
is slo('missed_ttft'), 1, 'missed at the first token';
complete(prompt => 'x', slo => { tbt_ms => 0 });
is slo('missed_tbt'), 1, 'between two';
complete(prompt => 'x', slo => { completion_ms => 0 });
is slo('missed_completion'), 1, 'at the end';
$server->post('/v1/completions', { prompt => 'x' }, { 'x-slo-ttft-ms' => 0 });
is slo('missed_ttft'), 2, 'x-slo-ttft-ms';
$server->post('/v1/completions', { prompt => 'x' }, { 'x-slo-tpot-ms' => 0 });
is slo('missed_tpot'), 1, 'x-slo-tpot-ms';
$server->post('/v1/completions', { prompt => 'x', slo => { ttft_ms => 60000 } }, { 'x-slo-ttft-ms' => 0 });
is slo('attained'), 2, 'the body says more';
$server->post('/v1/completions', { prompt => 'x', slo => { ttft_ms => 60000 } }, { 'x-request-id' => 'failnow-9' });
is slo('failed'), 1, 'an error misses them all';
is $server->post('/v1/completions', { prompt => 'x' }, { 'x-slo-ttft-ms' => 'soon' })->{json}{error}{param}, 'x-slo-ttft-ms', 'not a number';

# ---- probes ---------------------------------------------------------------------------

is $server->get($_)->{status}, 200, $_ for qw(/live /ready /health);
is $server->stop, 0, 'the server ends well';
{
    my $draining = LlmServer->fake(silence => 100);
    my $stream   = $draining->connect;
    syswrite $stream, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":100,"stream":true}', 'x-request-id: pause-1');
    my $probe = $draining->connect;
    LlmServer::read_until($stream, qr/data: /);
    $draining->signal('TERM');
    my %said;
    for (my $deadline = time + $LlmServer::TIMEOUT; time < $deadline;) {
        for my $path (qw(/ready /live)) {
            syswrite $probe, "GET $path HTTP/1.1\r\nHost: x\r\n\r\n";
            $said{$path} = LlmServer::read_until($probe, qr/\}\z/);
        }
        last if $said{'/ready'} =~ / 503 /;
    }
    like $said{'/ready'}, qr/ 503 .*retry-after: \d/s, 'who drains is not ready';
    like $said{'/live'}, qr/ 200 OK/, 'but alive';
    close $stream;
    is $draining->wait_for_end, 0, 'and ends well';
}

# ---- unknown parameters ---------------------------------------------------------------
{
    my $strict = LlmServer->fake(strict => 1);
    my $answer = $strict->post('/v1/completions', { prompt => 'x', tempersture => 1 });
    is $answer->{status}, 400, 'strict_params refuses a slip';
    is_deeply [@{ $answer->{json}{error} }{qw(code param)}], ['unknown_parameter', 'tempersture'], 'and names it';
    is $strict->post('/v1/chat/completions', { messages => [], suffix => 'x' })->{json}{error}{param}, 'suffix', 'what only the other endpoint knows too';
    is $strict->post('/v1/completions', { prompt => 'x', store => $false, metadata => {}, user => 'me', service_tier => 'auto' })->{status}, 200,
        'what OpenAI knows is let through';
    for my $long ("\x{e9}" x 100, 'a' . "\x{e9}" x 100) {
        is $strict->post('/v1/completions', { prompt => 'x', $long => 1 })->{status}, 400, 'a long one, cut but not in a character';
        is $strict->post('/v1/completions', { prompt => 'x', slo => { $long => 1 } })->{json}{error}{code}, 'unknown_parameter', '  nor inside an object';
    }
    is $strict->post('/v1/completions', { prompt => 'x', slo => { ttft => 1 } })->{json}{error}{param}, 'slo.ttft', 'a slip inside an object';
    is $strict->post('/v1/completions', { prompt => 'x', stream => $true, stream_options => { include_usage => $true, include_obfuscation => $false } })->{status},
        200, '  but not what OpenAI knows there';
    is $strict->stop, 0, 'the server ends well';
}

# ---- silence and time -----------------------------------------------------------------
{
    my $quiet = LlmServer->fake(silence => 100);
    my $held  = $quiet->connect;
    syswrite $held, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"stream":true}', 'x-request-id: hold-1');
    like LlmServer::read_until($held, qr/(?:: keep-alive\n\n\r\n.*){3}/s), qr/\AHTTP\/1\.1 200 OK\r\n.*\r\n\r\ne\r\n: keep-alive\n\n\r\n/s,
        'a stream that waits gets comments';
    close $held;
    ok $quiet->metric_becomes('llmserve_generations_live', 0), 'and ends when its client leaves';
    is $quiet->stop, 0, 'the server ends well';
    $quiet = LlmServer->fake(silence => 60000);
    @events = LlmServer::events($quiet->post('/v1/completions', { prompt => prompt('abc'), max_tokens => 3, stream => $true }));
    is scalar @events, 4, 'one that does not wait as long gets none';
    is $quiet->stop, 0, 'the server ends well';
}
{
    my $brief = LlmServer->fake(total => 500);
    for my $stream ($false, $true) {
        my $answer = $brief->post('/v1/completions', { prompt => 'x', stream => $stream }, { 'x-request-id' => 'hold-1' });
        is_deeply [$answer->{status}, $answer->{json}{error}{type}], [504, 'timeout'], 'a request that takes too long ends' . ($stream ? ', streamed' : '');
    }
    my @seen = LlmServer::events($brief->post('/v1/completions', { prompt => 'x', max_tokens => 400, stream => $true }, { 'x-request-id' => 'pause-1' }));
    is $seen[-1], '[DONE]', 'in the middle of a stream too';
    is $seen[-2]{error}{code}, 'timeout', 'with an error event';
    ok $brief->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
    is $brief->stop, 0, 'the server ends well';
}
done_testing;
