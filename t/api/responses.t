#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /v1/responses: the fake loop answers with the prompt, which is each message as "role: content" and a
# line end (without the last one), so that an answer shows the chat that the request became.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my $server = LlmServer->fake;
my ($true, $false) = (JSON::PP::true, JSON::PP::false);

sub ask { my ($body, $headers) = @_; return $server->post('/v1/responses', $body, $headers) }
sub text_of { return join '', map { $_->{text} } map { @{ $_->{content} } } grep { $_->{type} eq 'message' } @{ $_[0]{output} } }

# The prompt that the input becomes.
sub prompt_of {
    my (%body) = @_;
    my $answer = ask({ %body, max_output_tokens => 1 })->{json};
    my $tokens = $answer->{usage}{input_tokens} or return $answer->{error}{message};
    (my $text = text_of(ask({ %body, max_output_tokens => $tokens - 1 })->{json})) =~ s/\A //;
    return $text;
}

# ---- the whole answer ------------------------------------------------------------------

my $answer = ask({ model => 'fake/model', input => 'Once', max_output_tokens => 3, metadata => { a => 'b' }, temperature => 0.5 });
is $answer->{status}, 200, 'a text';
my $json = $answer->{json};
like delete $json->{id}, qr/\Aresp_[0-9a-f]{32}\z/, 'the id';
LlmServer::is_recent delete $json->{created_at}, 'created now';
like delete $json->{output}[0]{id}, qr/\Amsg_[0-9a-f]{34}\z/, 'the id of its item';
cmp_ok length(delete $json->{output}[0]{content}[0]{text}), '>', 0, 'its text';
my $input_tokens = $json->{usage}{input_tokens};
is_deeply $json, {
    object => 'response', model => 'fake/model', status => 'incomplete', incomplete_details => { reason => 'max_output_tokens' },
    output => [{ type => 'message', role => 'assistant', status => 'incomplete', content => [{ type => 'output_text', annotations => [], logprobs => [] }] }],
    usage  => {
        input_tokens => $input_tokens, input_tokens_details => { cached_tokens => 0 }, output_tokens => 3,
        output_tokens_details => { reasoning_tokens => 0 }, total_tokens => $input_tokens + 3 },
    metadata => { a => 'b' }, temperature => 0.5, top_p => 1, max_output_tokens => 3, instructions => undef,
    parallel_tool_calls => $true, tool_choice => 'auto', tools => [], text => { format => { type => 'text' } },
    reasoning => { effort => undef, summary => undef }, background => $false, store => $false, truncation => 'disabled',
    previous_response_id => undef, error => undef, user => undef, top_logprobs => undef, max_tool_calls => undef,
    service_tier => 'default',
}, 'the whole shape';
$json = ask({ input => 'Once', max_output_tokens => 30, stop => ['r:'] })->{json};
is_deeply [@{$json}{qw(status incomplete_details)}], ['completed', undef], 'one that ends by itself';
is ask({ input => 'Once', max_output_tokens => 2, store => $true })->{json}{store}, $false, 'store: nothing is kept, and the answer says so';

# ---- what the input becomes ------------------------------------------------------------

is prompt_of(input => 'Once'), "user: Once", 'a text is what the user says';
is prompt_of(input => 'Once', instructions => 'Be brief.'), "system: Be brief.\nuser: Once", 'instructions come first';
is prompt_of(input => [
        { role => 'developer', content => 'Be kind.' },
        { type => 'message', role => 'user', content => [{ type => 'input_text', text => 'a' }, { type => 'input_text', text => 'b' }] },
        { type => 'message', role => 'assistant', id => 'msg_1', status => 'completed', content => [{ type => 'output_text', text => 'c', annotations => [] }] },
        { type => 'reasoning', id => 'rs_1', summary => [] },
        { role => 'user', content => 'd' },
    ]), "system: Be kind.\nuser: a\nb\nassistant: c\nuser: d", 'items are messages, and what was thought is left out';
is prompt_of(input => [
        { role => 'user', content => 'e' },
        { type => 'function_call', call_id => 'c1', name => 'weather', arguments => '{"city": "Rome"}' },
        { type => 'function_call_output', call_id => 'c1', output => 'sun' },
    ]), "user: e\nassistant: Rome\ntool: sunc1", 'a call and what came of it';

# ---- streams ---------------------------------------------------------------------------

# Its events, each of which bears its type twice, and is counted.
sub stream {
    my ($body, $headers) = @_;
    my $reply = ask({ %$body, stream => $true }, $headers);
    my (@events, $wrong);
    for my $event (split /\n\n/, $reply->{content}) {
        my ($type, $data) = $event =~ /\Aevent: (\S+)\ndata: (.*)\z/ or $wrong = $event, next;
        my $decoded = decode_json($data);
        $wrong = $event if $decoded->{type} ne $type || $decoded->{sequence_number} != @events;
        push @events, $decoded;
    }
    is $wrong, undef, 'events with a type each, counted from 0';
    return @events;
}
my @events = stream({ input => 'Once upon', max_output_tokens => 4 });
my @deltas = grep { $_->{type} eq 'response.output_text.delta' } @events;
is_deeply [map { $_->{type} } grep { $_->{type} ne 'response.output_text.delta' } @events], [qw(
        response.created response.in_progress response.output_item.added response.content_part.added
        response.output_text.done response.content_part.done response.output_item.done response.incomplete)], 'in order';
cmp_ok scalar @deltas, '>', 1, 'with more than one delta';
my $whole = join '', map { $_->{delta} } @deltas;
my ($done) = grep { $_->{type} eq 'response.output_text.done' } @events;
is $done->{text}, $whole, 'the text is that of its deltas';
is text_of($events[-1]{response}), $whole, '  and that of the response at the end';
is $events[-1]{response}{usage}{output_tokens}, 4, '  which has the usage';
is_deeply [@{ $events[0]{response} }{qw(status output usage)}], ['in_progress', [], undef], 'and at the beginning there is none';
is_deeply [map { $_->{item_id} } @deltas], [($events[2]{item}{id}) x @deltas], 'of one item';
is_deeply [map { [@{$_}{qw(output_index content_index logprobs)}] } @deltas], [([0, 0, []]) x @deltas], '  at its place';
is_deeply $events[-1]{response}{output}[0], $events[-2]{item}, '  which stands in the response as it was told';
unlike ask({ input => 'Once', max_output_tokens => 2, stream => $true })->{content}, qr/\[DONE\]/, 'without [DONE]';
is((stream({ input => 'Once', max_output_tokens => 30, stop => ['r:'] }))[-1]{type}, 'response.completed', 'one that ends by itself');

# The template prints the message alone, so that the fake calls what the message calls.
my %calls = (
    input => 'Look. <tool_call>{"name": "weather", "arguments": {"place": "Bern"}}</tool_call><tool_call>{"name": "weather", "arguments": {}}</tool_call><stop>',
    tools => [{ type => 'function', name => 'weather', parameters => { type => 'object', properties => { place => { type => 'string' } } } }],
    stop  => ['<stop>'], chat_template_kwargs => { only => $true }, max_output_tokens => 300,
);
my $called = ask({%calls})->{json};
is_deeply [map { [@{$_}{qw(type name status)}] } @{ $called->{output} }],
    [['message', undef, 'completed'], (['function_call', 'weather', 'completed']) x 2], 'calls of tools are items';
is_deeply [map { decode_json($_->{arguments}) } @{ $called->{output} }[1, 2]], [{ place => 'Bern' }, {}], '  with their arguments';
isnt $called->{output}[1]{call_id}, $called->{output}[2]{call_id}, '  and an id each';
@events = stream({%calls});
is_deeply [map { $_->{type} } grep { $_->{type} !~ /delta\z/ } @events],
    [map { "response.$_" } qw(created in_progress output_item.added content_part.added output_text.done content_part.done output_item.done
        output_item.added function_call_arguments.done output_item.done output_item.added function_call_arguments.done output_item.done completed)], '  and come in order';
for my $i (1, 2) {
    my @parts = grep { $_->{type} =~ /arguments/ && $_->{output_index} == $i } @events;
    my $ended = pop @parts;
    is join('', map { $_->{delta} } @parts), $ended->{arguments}, "  the arguments of call $i, piece by piece";
    is $ended->{item_id}, $events[-1]{response}{output}[$i]{id}, '  of the item that stands in the response';
}

@events = stream({ input => 'Once upon a time', max_output_tokens => 9 }, { 'x-request-id' => 'fail-1' });
is $events[-1]{type}, 'response.failed', 'the engine fails in the middle';
is $events[-1]{response}{status}, 'failed', '  and so does the response';
like $events[-1]{response}{error}{message}, qr/the engine failed/, '  with the reason';
is ask({ input => 'Once', stream => $true }, { 'x-request-id' => 'failnow-1' })->{status}, 500, 'before it began: an error as others';

# ---- tools of agents -------------------------------------------------------------------

my @foreign = map { { type => $_ } } qw(web_search namespace image_generation file_search mcp local_shell);
my $patch   = { type => 'custom', name => 'apply_patch', description => 'Edits files.', format => { type => 'grammar', syntax => 'lark', definition => 'start: "x"' } };
my $left    = ask({ %calls, tools => [@foreign, @{ $calls{tools} }], tool_choice => 'auto' });
is $left->{status}, 200, 'tools that run elsewhere are left out';
is_deeply [sort split /, /, $left->{headers}{'x-llmserve-ignored'}], [sort map { "tools.$_->{type}" } @foreign], '  and named';
is_deeply [map { $_->{name} } @{ $left->{json}{tools} }], ['weather'], '  the answer repeats the others';
is scalar(grep { $_->{type} eq 'function_call' } @{ $left->{json}{output} }), 2, '  which are called';
is ask({ input => 'a', tools => \@foreign, tool_choice => 'auto', max_output_tokens => 1 })->{status}, 200, 'none is left';

my %custom = (%calls, tools => [$patch, @{ $calls{tools} }]);
$custom{input} = qq(So. <tool_call>{"name": "apply_patch", "arguments": {"input": "*** Begin\\n\\"\\u00e9\\""}}</tool_call><stop>);
my $edit = ask({%custom});
is $edit->{headers}{'x-llmserve-ignored'}, 'tools.format', 'a grammar that is only shown is named';
is_deeply [map { [@{$_}{qw(type name input arguments status)}] } $edit->{json}{output}[1]], [['custom_tool_call', 'apply_patch', qq(*** Begin\n"\x{e9}"), undef, 'completed']], 'a custom tool is called with a text';
like $edit->{json}{output}[1]{id}, qr/\Actc_/, '  an item of its own kind';
@events = stream({%custom});
is_deeply [map { [@{$_}{qw(type delta input output_index)}] } grep { $_->{type} =~ /custom/ } @events],
    [['response.custom_tool_call_input.delta', qq(*** Begin\n"\x{e9}"), undef, 1], ['response.custom_tool_call_input.done', undef, qq(*** Begin\n"\x{e9}"), 1]], '  streamed, too';
my ($added) = grep { $_->{type} eq 'response.output_item.added' && $_->{output_index} == 1 } @events;
is_deeply [@{ $added->{item} }{qw(type input)}], ['custom_tool_call', ''], '  from an item without text';
is_deeply $events[-1]{response}{output}[1]{input}, $edit->{json}{output}[1]{input}, '  to one with it';
is prompt_of(input => [
        { role => 'user', content => 'e' },
        { type => 'custom_tool_call', call_id => 'c1', name => 'weather', input => 'a "b"' },
        { type => 'custom_tool_call_output', call_id => 'c1', output => 'sun' },
    ]), "user: e\nassistant: \ntool: sunc1", 'such a call and what came of it';
my $allowed = { type => 'allowed_tools', mode => 'auto', tools => [{ type => 'custom', name => 'apply_patch' }] };
is ask({ %calls, tools => $custom{tools}, tool_choice => { %$allowed, tools => $calls{tools} } })->{json}{output}[1]{name}, 'weather', 'allowed_tools: an allowed one is called';

# ---- long conversations ----------------------------------------------------------------

my @turns = map { ({ role => 'user', content => "question $_" }, { type => 'function_call', call_id => 'c', name => 'f', arguments => '{}' },
    { type => 'function_call_output', call_id => 'c', output => "found $_" }, { role => 'assistant', content => "answer $_ " . 'x ' x 15 }) } 1 .. 20;
my %talk = (instructions => 'Be brief.', input => [@turns, { role => 'user', content => 'last' }], max_output_tokens => 4);
is ask({%talk})->{json}{error}{code}, 'context_length_exceeded', 'a conversation that is too long';
my $cut = ask({ %talk, truncation => 'auto' })->{json};
is $cut->{truncation}, 'auto', 'truncation auto answers it';
cmp_ok $cut->{usage}{input_tokens}, '>', 400, '  from as much as fits';
cmp_ok $cut->{usage}{input_tokens}, '<=', 508, '  and leaves room for the answer';
my $kept = prompt_of(input => [{ role => 'user', content => 'first ' . 'x ' x 420 }, @turns[1, 2], { role => 'user', content => 'y ' x 40 }, { role => 'user', content => 'last' }],
    instructions => 'Be brief.', truncation => 'auto');
like $kept, qr/\Asystem: Be brief.\n(?!tool)(?!.*first).*user: last\z/s, 'instructions and the last message stay, an output goes with its call';
is prompt_of(input => 'a', truncation => 'auto'), 'user: a', 'nothing is dropped without need';

my $count = sub { return $server->post('/v1/responses/input_tokens', $_[0])->{json} };
is_deeply $count->({ input => 'Once upon', tools => $calls{tools} }),
    { object => 'response.input_tokens', input_tokens => ask({ input => 'Once upon', tools => $calls{tools}, max_output_tokens => 1 })->{json}{usage}{input_tokens} }, 'input_tokens are counted';
is $count->({ input => [5] })->{error}{param}, 'input', '  of what can be read';
is $server->post('/responses/input_tokens', { input => 'x', stream => $true })->{json}{object}, 'response.input_tokens', '  at once';

# ---- refused ---------------------------------------------------------------------------

for (
    [{}, 'input', qr/must be a string or an array of items/],
    [{ input => [] }, 'input', qr/must be a string or an array of items/],
    [{ input => [5] }, 'input', qr/must be a string or an array of items/],
    [{ input => [{ type => 'item_reference', id => 'x' }] }, 'input', qr/has an item_reference, but this server stores no responses/],
    [{ input => [{ role => 'user', content => [{ type => 'input_image', image_url => 'x' }] }] }, 'input', qr/this model reads text only/],
    [{ input => [{ role => 'user' }] }, 'input', qr/messages\[0\].content must be/],
    [{ input => [{ type => 'function_call', name => 'f' }] }, 'input', qr/function_call without/],
    [{ input => [{ type => 'function_call_output', output => 'f' }] }, 'input', qr/function_call_output without a "call_id"/],
    [{ input => 'a', instructions => 5 }, 'instructions', qr/must be a string/],
    [{ input => 'a', max_output_tokens => 0 }, 'max_output_tokens', qr/an integer of at least 1/],
    [{ input => 'a', max_output_tokens => 'x' }, 'max_output_tokens', qr/must be an integer/],
    [{ input => 'a', max_output_tokens => 5000 }, 'input', qr/maximum context length is 512/],
    [{ input => 'a', temperature => -1 }, 'temperature', qr/temperature/],
    [{ input => 'a', previous_response_id => 'resp_1' }, 'previous_response_id', qr/this server stores no responses .*; send all items as 'input'/],
    [{ input => 'a', conversation => 'conv-1' }, 'conversation', qr/send all items as 'input'/],
    [{ input => [{ type => 'compaction', encrypted_content => 'other' }] }, 'input', qr/a compaction that is not of this server/],
    [{ input => 'a', prompt => { id => 'p' } }, 'prompt', qr/no named prompts/],
    [{ input => 'a', background => $true }, 'background', qr/only be used when `store` is true: this server stores no responses/],
    [{ input => 'a', truncation => 'some' }, 'truncation', qr/must be "auto" or "disabled"/],
    [{ input => [{ role => 'user', content => 'gone' }, { role => 'user', content => 'x ' x 600 }], truncation => 'auto' }, 'input', qr/maximum context length is 512/],
    [{ input => 'a', tools => [5] }, 'tools', qr/tools\[0\] must be an object with a "type"/],
    [{ input => 'a', tools => [{ type => 'custom', name => 'x', format => { type => 'grammar', syntax => 'abnf', definition => 'x' } }] }, 'tools', qr/tools\[0\].format must be/],
    [{ input => 'a', tools => [{ type => 'web_search' }], tool_choice => 'required' }, 'tool_choice', qr/only for requests with 'tools'/],
    [{ input => 'a', tools => [{ type => 'web_search' }], tool_choice => { type => 'web_search' } }, 'tool_choice', qr/a tool of type "web_search"/],
    [{ input => 'a', tools => [{ type => 'function', name => 'f' }], tool_choice => { type => 'allowed_tools', mode => 'any', tools => [] } }, 'tool_choice', qr/must have a "mode"/],
    [{ input => [{ type => 'custom_tool_call', call_id => 'c', name => 'f' }] }, 'input', qr/a custom_tool_call without/],
    [{ input => [{ type => 'custom_tool_call_output', output => 'f' }] }, 'input', qr/a custom_tool_call_output without a "call_id"/],
  ) {
    my ($body, $param, $message) = @$_;
    my $reply = ask($body);
    is_deeply [$reply->{status}, $reply->{json}{error}{param}], [400, $param], "refused: $param";
    like $reply->{json}{error}{message}, $message, '  with the reason';
}
is ask({ input => 'a', previous_response_id => undef, background => $false, truncation => 'disabled', include => [], tools => [], max_output_tokens => 1 })->{status}, 200,
    'what asks for nothing is taken';
my @long  = (max_output_tokens => 1, metadata => { a => 'x' x 262_144 });
my $reply = ask({ input => 'a', @long });
is $reply->{status}, 413, 'too much to be repeated in the answer';
like $reply->{json}{error}{message}, qr/has \d+ bytes; at most 262144 are possible/, '  with both numbers';
$long[3]{a} = 'x' x 260_000;
like ask({ input => 'a', @long, stream => $true })->{content}, qr/"type":"response.incomplete","sequence_number":\d+\}\n\n\z/, 'what may be repeated is streamed to the end';

ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
is $server->stop, 0, 'the server ends well';
done_testing;
