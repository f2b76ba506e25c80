#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /v1/chat/completions: messages pass through a template ("role: content" and a line end
# each), and the answer is a message, whole and in chunks.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my $server = LlmServer->fake;
my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $path = '/v1/chat/completions';
my $hello = [{ role => 'user', content => 'Once upon a time' }];

sub chat { my (%body) = @_; return $server->post($path, \%body) }

# The whole prompt, which the fake answers with.
sub echo {
    my ($messages, @more) = @_;
    my $answer = chat(messages => $messages, max_tokens => 1, @more);
    my $tokens = $answer->{json}{usage}{prompt_tokens} or return $answer->{content};
    return chat(messages => $messages, max_tokens => $tokens, @more)->{json}{choices}[0]{message}{content};
}

# ---- shapes ---------------------------------------------------------------------------

my $json = chat(messages => $hello, max_tokens => 3, model => 'fake/model')->{json};
like delete $json->{id}, qr/\Achatcmpl-[0-9a-f]{32}\z/, 'the id';
LlmServer::is_recent delete $json->{created}, 'created now';
my $content = delete $json->{choices}[0]{message}{content};
cmp_ok length $content, '>', 0, 'content';
my $prompt_tokens = $json->{usage}{prompt_tokens};
is_deeply $json, {
    object  => 'chat.completion',
    model   => 'fake/model',
    choices => [{
            index => 0, message => { role => 'assistant', refusal => undef, reasoning => undef }, logprobs => undef,
            finish_reason => 'length', stop_reason => undef, token_ids => undef,
    }],
    prompt_logprobs => undef, prompt_token_ids => undef,
    service_tier       => 'default',
    system_fingerprint => $json->{system_fingerprint},
    usage => {
        prompt_tokens => $prompt_tokens, completion_tokens => 3, total_tokens => $prompt_tokens + 3, completion_tokens_details => { reasoning_tokens => 0, accepted_prediction_tokens => 0, rejected_prediction_tokens => 0 },
        prompt_tokens_details => { cached_tokens => 0 } },
}, 'the whole shape';

my @events = LlmServer::events(chat(messages => $hello, max_tokens => 3, stream => $true, stream_options => { include_usage => $true }));
is $events[-1], '[DONE]', 'a stream ends with [DONE]';
is_deeply $events[0]{choices}, [{ index => 0, delta => { role => 'assistant', content => '' }, logprobs => undef, finish_reason => undef }],
    'the first chunk has the role';
is scalar(grep { ref && @{ $_->{choices} } && $_->{choices}[0]{delta}{role} } @events), 1, 'only the first';
is join('', map { $_->{choices}[0]{delta}{content} // '' } @events[0 .. $#events - 2]), $content, 'the deltas are the content';
is_deeply [map { $_->{choices}[0]{finish_reason} } @events[1 .. $#events - 2]], [undef, undef, 'length'], 'the reason is on the last token';
is_deeply $events[-2]{choices}, [], 'the usage has a chunk of its own';
is $events[-2]{usage}{completion_tokens}, 3, 'with the numbers';
is_deeply [sort { $a cmp $b } keys %{ { map { $_->{object} => 1 } grep { ref } @events } }], ['chat.completion.chunk'], 'all are chunks';

is scalar @{ chat(messages => $hello, max_tokens => 1, n => 3)->{json}{choices} }, 3, 'n choices';
my $roles = grep { ref && $_->{choices}[0]{delta}{role} } LlmServer::events(chat(messages => $hello, max_tokens => 2, n => 3, stream => $true));
is $roles, 3, 'each begins with its role';
@events = LlmServer::events(chat(messages => $hello, max_tokens => 2, stream => $true, service_tier => 'flex'));
is_deeply [map { ref ? [@$_{qw(system_fingerprint service_tier)}] : () } @events], [([$json->{system_fingerprint}, 'flex']) x 3],
    'chunks have the fingerprint and the tier that a whole answer has';
sub counted {
    my (%options) = @_;
    return [map { ref ? [@{ $_->{usage} // {} }{qw(prompt_tokens completion_tokens)}] : () }
            LlmServer::events(chat(messages => $hello, max_tokens => 2, stream => $true, stream_options => \%options))];
}
my $p = $prompt_tokens;
is_deeply counted(include_usage => $true, continuous_usage_stats => $true), [[$p, 0], [$p, 1], [$p, 2], [$p, 2]], 'the role is no token yet';
is_deeply counted(continuous_usage_stats => $true), counted(include_usage => $true, continuous_usage_stats => $true), 'continuous usage is usage';
is_deeply counted(include_usage => $false, continuous_usage_stats => $true), [([undef, undef]) x 3], 'unless that is refused';
is_deeply counted(include_usage => $true), [([undef, undef]) x 3, [$p, 2]], 'the usage of the whole is in the last chunk';
is_deeply counted(), [([undef, undef]) x 3], 'and in none that was not asked for it';

$json = chat(messages => $hello, max_tokens => 2, max_completion_tokens => 1)->{json};
is $json->{usage}{completion_tokens}, 1, 'max_completion_tokens comes before max_tokens';
$json = chat(messages => $hello)->{json};
is $json->{usage}{total_tokens}, 512, 'without a limit the context is one';

$json = chat(messages => $hello, max_tokens => 1, logprobs => $true, top_logprobs => 2, return_token_ids => $true)->{json};
my $logprobs = $json->{choices}[0]{logprobs};
is $logprobs->{content}[0]{logprob}, -0.5, 'logprobs';
is scalar @{ $logprobs->{content}[0]{top_logprobs} }, 2, 'with alternatives';
is join('', map { chr } @{ $logprobs->{content}[0]{bytes} }), $logprobs->{content}[0]{token}, 'and bytes';
is scalar @{ $json->{choices}[0]{token_ids} }, 1, 'token ids';
is scalar @{ $json->{prompt_token_ids} }, $json->{usage}{prompt_tokens}, 'and those of the prompt';

# ---- messages -------------------------------------------------------------------------

my $user = { role => 'user', content => 'hi' };
like echo([$user]), qr/user: hi\n\z/, 'one message';
like echo([{ role => 'system', content => 'Be kind.' }, $user, { role => 'assistant', content => 'yes' }, $user]),
    qr/system: Be kind\.\nuser: hi\nassistant: yes\nuser: hi\n\z/, 'several';
like echo([{ role => 'developer', content => 'x' }, $user]), qr/system: x\n/, 'a developer is the system';
like echo([{ role => 'user', content => [{ type => 'text', text => 'a' }, { type => 'text', text => 'b' }] }]), qr/user: a\nb\n/,
    'parts are joined';
like echo([$user, { role => 'assistant', content => undef }]), qr/assistant: \n/, 'no content is an empty one';

my $call = { id => 'call_1', type => 'function', function => { name => 'weather', arguments => '{"city":"Oslo"}' } };
like echo([$user, { role => 'assistant', tool_calls => [$call] }, { role => 'tool', tool_call_id => 'call_1', content => 'rain' }]),
    qr/assistant: Oslo\ntool: raincall_1\n\z/, 'calls of tools that were made are for the template, their arguments an object';
like echo([{ %$user, name => 'ann' }]), qr/user ann: hi\n\z/, 'and names';
$call->{function}{arguments} = '{"city":';
is chat(messages => [$user, { role => 'assistant', content => undef, tool_calls => [$call, 1, [], { function => 1 }] }], max_tokens => 1)->{status}, 200,
    'whatever the calls are';

my @refused = (
    ['no messages',        undef],
    ['an empty array',     []],
    ['no array',           'hello'],
    ['a message that is none', ['hello']],
    ['no role',            [{ content => 'x' }]],
    ['an empty role',      [{ role => '', content => 'x' }]],
    ['a role of no type',  [{ role => 1, content => 'x' }]],
    ['no content at all',  [{ role => 'user' }]],
    ['content of no type', [{ role => 'user', content => 1 }]],
    ['a part of no type',  [{ role => 'user', content => ['x'] }]],
    ['an image',           [{ role => 'user', content => [{ type => 'image_url', image_url => { url => 'x' } }] }]],
    ['a part without text', [{ role => 'user', content => [{ type => 'text' }] }]],
);
for my $case (@refused) {
    my ($what, $messages) = @$case;
    my $answer = chat(messages => $messages);
    is $answer->{status}, 400, $what;
    is $answer->{json}{error}{param}, 'messages', '  is about messages';
}
like echo([$user], chat_template_kwargs => { note => 'be brief' }), qr/be brief\nuser: hi\n\z/, 'chat_template_kwargs are variables of the template';
is chat(messages => $hello, chat_template_kwargs => [])->{json}{error}{param}, 'chat_template_kwargs', '  if they have names';
for my $case ([guided_choice => ['a', 'b']], [structured_outputs => { json => {} }], [chat_template => 'x'],
    [logits_processors => ['x']], [modalities => ['text', 'audio']]) {
    is chat(messages => $hello, @$case)->{json}{error}{code}, 'unsupported_parameter', "$case->[0] is refused";
}
is chat(messages => $hello, max_tokens => 1, structured_outputs => {}, guided_json => undef, continue_final_message => $false, bad_words => [])->{status}, 200,
    'but not where they ask for nothing';

# ---- the last message goes on ----------------------------------------------------------
my @begun = ($user, { role => 'assistant', content => "Well, it's a trap. " });
my @continued = (continue_final_message => $true);
is echo(\@begun, @continued), " user: hi\nassistant: Well, it's a trap. ", 'a last message that is continued: the prompt ends with it';
is echo(\@begun, @continued, add_generation_prompt => $false, chat_template_kwargs => { trim => $true }), " user: hi\nassistant: Well, it's a trap.",
    '  without its blanks, of a template that trims';
is echo([{ role => 'assistant', content => 'x' }, @begun[1, 0]], @continued), " assistant: x\nassistant: Well, it's a trap. \nuser: hi", '  whoever has said it';
is echo([$user, { role => 'assistant', content => [{ type => 'text', text => 'a' }, { type => 'text', text => 'b' }] }], @continued),
    " user: hi\nassistant: a\nb", '  in parts';
my $both = chat(messages => \@begun, @continued, add_generation_prompt => $true);
is $both->{json}{error}{param}, 'continue_final_message', '  but no other one is begun beside it';
like chat(messages => [$user, { role => 'mute', content => 'x' }], @continued)->{json}{error}{message}, qr/the model's chat template does not show the last message's content/,
    '  and a template that does not show it is a 400';
my $plain  = chat(messages => \@begun, @continued, max_tokens => 3)->{json}{choices}[0]{message}{content};
my $echoed = chat(messages => \@begun, @continued, echo => $true, max_tokens => 3, logprobs => $true);
is $echoed->{json}{choices}[0]{message}{content}, "Well, it's a trap. $plain", 'echo: the answer begins with it';
is scalar @{ $echoed->{json}{choices}[0]{logprobs}{content} }, 3, '  which has no logprobs';
my @pieces = map { ref && @{ $_->{choices} } ? $_->{choices}[0]{delta}{content} // '' : () } LlmServer::events(chat(messages => \@begun, @continued, echo => $true, max_tokens => 3, stream => $true));
is join('', @pieces), "Well, it's a trap. $plain", '  in a stream too';
is chat(messages => \@begun, echo => $true, max_tokens => 1, @$_)->{json}{choices}[0]{message}{content} =~ /\AWell, it's a trap\. /, 1, '  and where tools are looked for' for [tools => [{ type => 'function', function => { name => 'f' } }]];
is chat(messages => $hello, echo => $true, max_tokens => 3)->{json}{choices}[0]{message}{content}, $content, '  but not with what a user has said';

like echo([{ role => 'boss', content => 'x' }]), qr/boss: x\n/, 'a role of which the template knows';
my @tools = (tools => [{ type => 'function', function => { name => 'weather' } }]);
like echo([$user], @tools, @$_), qr/tool weather\nuser: hi\n/, 'tools are for the template' for [], [tool_choice => 'auto'], [tool_choice => 'none'];
is chat(messages => $hello, tools => [], max_tokens => 1)->{status}, 200, 'no tools are fine';
is chat(messages => $hello, tools => $_)->{json}{error}{param}, 'tools', 'what are no tools is not'
    for {}, ['weather'], [{ type => 'x', function => { name => 'f' } }], [{ type => 'function' }], [{ function => { name => 'a b' } }],
    [{ function => { name => 'f', parameters => [] } }];
for my $choice ('auto', 'required', { type => 'function', function => { name => 'f' } }) {
    is chat(messages => $hello, tool_choice => $choice)->{json}{error}{param}, 'tool_choice', 'a choice needs tools';
}
is chat(messages => $hello, tool_choice => $_, max_tokens => 1)->{status}, 200, 'but not the choice of none' for 'none', undef;
is chat(messages => $hello, modalities => ['text'], max_tokens => 1)->{status}, 200, 'text is a modality';
is chat(messages => $hello, modalities => 'text')->{json}{error}{param}, 'modalities', '  in an array';
is chat(messages => $hello, top_logprobs => 1)->{status}, 400, 'top_logprobs needs logprobs';
is chat(messages => [{ role => 'user', content => 'x ' x 2000 }])->{json}{error}{code}, 'context_length_exceeded', 'a long chat';
is chat(messages => $hello, max_tokens => 1, logprobs => $false)->{status}, 200, 'logprobs: false';

is $server->stop, 0, 'the server ends well';
done_testing;
