#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Anthropic's /v1/messages and count_tokens: the shapes, the events in order, and that a stream's blocks are
# those of the whole answer. The fake loop answers with the prompt, each message as "role: content" and a line
# end (without the last one), so that an answer shows the chat that the request became; a model that replays a
# script gives answers of exact text.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use List::Util 'sum';
use LlmServer;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $fake = LlmServer->fake;
srand($ENV{LLS_SEED} // 40);

sub user { return (messages => [{ role => 'user', content => $_[0] }]) }
sub ask { my ($body, $headers) = @_; return $fake->post('/v1/messages', { max_tokens => 8, %$body }, $headers) }
# Counts the prompt's tokens: those found in the cache, put into it, and the rest.
sub prompt_tokens { my ($message) = @_; return sum map { $message->{usage}{"${_}input_tokens"} // 0 } '', 'cache_creation_', 'cache_read_' }
sub text_of { return join '', map { $_->{text} } grep { $_->{type} eq 'text' } @{ $_[0]{content} } }

# The events of a stream, each of which bears its type twice.
sub events {
    my ($reply) = @_;
    my @events;
    for my $event (split /\n\n/, $reply->{content}) {
        my ($type, $data) = $event =~ /\Aevent: (\S+)\ndata: (.*)\z/ or next;
        push @events, decode_json($data);
        is $events[-1]{type}, $type, 'an event with its type' if $events[-1]{type} ne $type;
    }
    return @events;
}

# The message that a client makes of the events; dies where they are out of order.
sub gathered {
    my (@events) = @_;
    my ($message, $open, %cut);
    for my $event (@events) {
        my ($type, $index) = @$event{qw(type index)};
        if    ($type eq 'message_start') { $message = $event->{message} }
        elsif ($type eq 'content_block_start') {
            die "block $index out of order" if defined $open || $index != @{ $message->{content} };
            push @{ $message->{content} }, $event->{content_block};
            $open = $index;
        } elsif ($type eq 'content_block_delta') {
            die "a delta of $index" if !defined $open || $index != $open;
            my ($block, $delta) = ($message->{content}[$index], $event->{delta});
            my ($name) = grep { $_ ne 'type' } keys %$delta;
            die "$delta->{type} of $block->{type}"
                if { text_delta => 'text', thinking_delta => 'thinking', signature_delta => 'thinking', input_json_delta => 'tool_use' }->{ $delta->{type} } ne $block->{type};
            $block->{$name} .= $delta->{$name};
        } elsif ($type eq 'content_block_stop') {
            die "the end of $index" if !defined $open || $index != $open;
            my $block = $message->{content}[$index];
            my $json  = delete $block->{partial_json};
            $cut{$index} = $json if defined $json && !eval { $block->{input} = JSON::PP->new->decode($json); 1 };
            undef $open;
        } elsif ($type eq 'message_delta') {
            $message = { %$message, %{ $event->{delta} }, usage => $event->{usage} };
        }
    }
    die 'a block is open' if defined $open;
    return ($message, \%cut);
}

# ---- the shape -------------------------------------------------------------------------
my $answer = ask({ user('Once'), model => 'fake/model', max_tokens => 3 }, { 'x-api-key' => 'any', 'anthropic-version' => '2023-06-01' });
is $answer->{status}, 200, 'a text';
is $answer->{headers}{'request-id'}, $answer->{headers}{'x-request-id'}, 'the request id under both names';
is $answer->{headers}{'x-llmserve-ignored'}, undef, 'nothing is ignored';
my $json = $answer->{json};
like delete $json->{id}, qr/\Amsg_[0-9a-f]{32}\z/, 'the id';
cmp_ok length(delete $json->{content}[0]{text}), '>', 0, 'its text';
cmp_ok delete $json->{usage}{input_tokens}, '>', 3, 'the input is counted';
is_deeply $json, { type => 'message', role => 'assistant', model => 'fake/model', content => [{ type => 'text' }], stop_reason => 'max_tokens', stop_sequence => undef,
    usage => { output_tokens => 3, cache_creation_input_tokens => 0, cache_read_input_tokens => 0 } }, 'the whole shape';
$json = ask({ user('Once'), max_tokens => 30, stop_sequences => ['zz', 'r:'] })->{json};
is_deeply [@$json{qw(stop_reason stop_sequence)}], ['stop_sequence', 'r:'], 'a stop sequence, named';
$json = ask({ user('Once upon a time'), max_tokens => 5000 })->{json};
is_deeply [$json->{stop_reason}, $json->{usage}{input_tokens} + $json->{usage}{output_tokens}], ['model_context_window_exceeded', 512], 'max_tokens above the room: as many as fit';

# ---- the stream ------------------------------------------------------------------------
my $streamed = ask({ user('Once upon'), stream => $true });
my @events   = events($streamed);
is_deeply [map { $_->{type} } @events[0 .. 3]], [qw(message_start content_block_start ping content_block_delta)], 'it begins in order';
is_deeply [map { $_->{type} } @events[-3 .. -1]], [qw(content_block_stop message_delta message_stop)], '  and so it ends';
is_deeply [@{ $events[0]{message} }{qw(type role content stop_reason stop_sequence)}], ['message', 'assistant', [], undef, undef], 'the start has no content';
is_deeply $events[0]{message}{usage}, { input_tokens => prompt_tokens({ usage => $events[-2]{usage} }), cache_creation_input_tokens => 0, cache_read_input_tokens => 0, output_tokens => 0 },
    '  and counts the whole prompt as input';
is_deeply $events[1], { type => 'content_block_start', index => 0, content_block => { type => 'text', text => '' } }, 'the block is told empty';
is_deeply $events[-2]{delta}, { stop_reason => 'max_tokens', stop_sequence => undef }, 'the end has the reason';
is $events[-2]{usage}{output_tokens}, 8, '  and the tokens';
is_deeply $events[-1], { type => 'message_stop' }, 'the last one';
unlike $streamed->{content}, qr/\[DONE\]/, 'no [DONE]';
my $whole = ask({ user('Once upon') })->{json};
my ($same) = gathered(@events);
delete $_->{id} for $same, $whole;
is_deeply $same, $whole, 'streamed as whole';
@events = events(ask({ user('Once upon a time'), stream => $true }, { 'x-request-id' => 'fail-1' }));
is $events[-1]{type}, 'error', 'the engine fails in the middle';
is_deeply [$events[-1]{error}{type}, $events[-1]{request_id}], ['api_error', 'fail-1'], '  an event says so';
like $events[-1]{error}{message}, qr/the engine failed/, '  with the reason';

# ---- what the messages become ----------------------------------------------------------
sub prompt_of {
    my (%body) = @_;
    my $one = ask({ %body, max_tokens => 1 })->{json};
    my $n   = prompt_tokens($one) or return $one->{error}{message};
    (my $text = text_of(ask({ %body, max_tokens => $n - 1 })->{json})) =~ s/\A //;
    return $text;
}
sub text { return { type => 'text', text => $_[0] } }
my $result = { type => 'tool_result', tool_use_id => 'c1' };
is prompt_of(system => 'Be brief.', user('Once')), "system: Be brief.\nuser: Once", 'the system comes first';
is prompt_of(system => [text('Be brief.'), text('x-anthropic-billing-header: cch=1;'), text('And kind.')], user([text('a'), text('b')])),
    "system: Be brief.\nAnd kind.\nuser: a\nb", 'blocks are lines; the billing line is left out';
is prompt_of(messages => [{ role => 'user', content => 'e' },
        { role => 'assistant', content => [text('f'), { type => 'tool_use', id => 'c1', name => 'weather', input => { city => 'Rome' } }] },
        { role => 'user', content => [{ %$result, content => 'sun' }, text('g')] }]),
    "user: e\nassistant: fRome\ntool: sunc1\nuser: g", 'a call, its result and a text';
is prompt_of(messages => [{ role => 'user', content => 'e' }, { role => 'assistant', content => [{ type => 'tool_use', id => 'c1', name => 'w', input => {} }] },
        { role => 'user', content => [{ %$result, is_error => $true, content => [text('no'), text('sun')] }] }]), "user: e\nassistant: \ntool: Error:\nno\nsunc1", 'a result that is an error';
my @begun = (messages => [{ role => 'user', content => 'e' }, { role => 'assistant', content => 'It is' }]);
my $begun = prompt_tokens(ask({ @begun, max_tokens => 1 })->{json});
is text_of(ask({ @begun, max_tokens => $begun })->{json}), " user: e\nassistant: It is", 'the last turn of the assistant is continued: no line end follows';
my $count = $fake->post('/v1/messages/count_tokens', { system => 'Be brief.', user('Once') })->{json};
is_deeply $count, { input_tokens => prompt_tokens(ask({ system => 'Be brief.', user('Once') })->{json}) }, 'count_tokens says what a request counts';
cmp_ok $fake->post('/v1/messages/count_tokens', { user('a ' x 2000) })->{json}{input_tokens}, '>', 512, '  also of a prompt that is too long';

# ---- refused ---------------------------------------------------------------------------
my @image = (type => 'image', source => { type => 'base64', media_type => 'image/png', data => 'AA==' });
my $tool  = { name => 'f', input_schema => { type => 'object' } };
for (
    [{}, qr/messages must be an array/],
    [{ messages => [5] }, qr/messages\.0 must have the role/],
    [{ messages => [{ role => 'tool', content => 'a' }] }, qr/messages\.0 must have the role "user" or "assistant"/],
    [{ user('a'), max_tokens => undef }, qr/max_tokens must be given/],
    [{ user('a'), max_tokens => 0 }, qr/max_tokens must be given, as an integer of at least 1/],
    [{ user(5) }, qr/messages\.0 must have a content/],
    [{ user([text('a'), {@image}]) }, qr/messages\.0\.content\.1 has the type "image": here the server reads blocks of type text and tool_result/],
    [{ user([{ type => 'document', source => {} }]) }, qr/messages\.0\.content\.0 has the type "document"/],
    [{ user([{ %$result, content => [{@image}] }]) }, qr/messages\.0\.content\.0 has the type "image": here the server reads blocks of type text /],
    [{ user([{ type => 'tool_result' }]) }, qr/without a string "tool_use_id"/],
    [{ user([{ type => 'text', text => 5 }]) }, qr/messages\.0\.content\.0 must be an object such as/],
    [{ messages => [{ role => 'assistant', content => [{ type => 'tool_use', id => 'a', name => 'b' }] }] }, qr/messages\.0\.content\.0 is a tool_use without/],
    [{ messages => [{ role => 'assistant', content => [{ type => 'tool_use', id => 'a', name => 'b', input => {} }] }] }, qr/messages ends with a tool_use/],
    [{ user('a'), system => 5 }, qr/'system' must be an array or a string/],
    [{ user('a'), system => [{@image}] }, qr/system\.0 has the type "image"/],
    [{ user('a'), stop_sequences => 'x' }, qr/'stop_sequences' must be an array/],
    [{ user('a'), stop_sequences => [''] }, qr/stop_sequences must be an array/],
    [{ user('a'), thinking => { type => 'x' } }, qr/thinking must have the type/],
    [{ user('a'), thinking => { type => 'enabled', budget_tokens => 'x' } }, qr/thinking\.budget_tokens must be/],
    [{ user('a'), metadata => { user_id => 5 } }, qr/metadata\.user_id must be a string/],
    [{ user('a'), service_tier => 'flex' }, qr/service_tier must be "auto"/],
    [{ user('a'), mcp_servers => [{}] }, qr/mcp_servers is not supported/],
    [{ user('a'), tools => {} }, qr/'tools' must be an array/],
    [{ user('a'), tools => [{ name => 'f' }] }, qr/tools\.0 must have an "input_schema"/],
    [{ user('a'), tools => [{ %$tool, name => 'a b' }] }, qr/tools\.0 must have a "name"/],
    [{ user('a'), tools => [$tool], tool_choice => 'auto' }, qr/'tool_choice' must be an object/],
    [{ user('a'), tools => [$tool], tool_choice => { type => 'x' } }, qr/tool_choice must be \{"type": "auto"\}/],
    [{ user('a'), tools => [$tool], tool_choice => { type => 'tool', name => 'g' } }, qr/'tool_choice' names "g"/],
    [{ user('a'), tools => [$tool], tool_choice => { type => 'auto', disable_parallel_tool_use => 5 } }, qr/must be true or false/],
    [{ user('a'), output_config => { format => { type => 'text' } } }, qr/output_config\.format must be/],
    [{ user('a'), temperature => -1 }, qr/temperature/],
    [{ user('a ' x 600) }, qr/\Aprompt is too long: .*512/],
  ) {
    my ($body, $message) = @$_;
    my $reply = ask($body);
    is_deeply [$reply->{status}, $reply->{json}{type}, $reply->{json}{error}{type}], [400, 'error', 'invalid_request_error'], "refused: $message";
    like $reply->{json}{error}{message}, $message, '  with the reason';
    is $reply->{json}{request_id}, $reply->{headers}{'request-id'}, '  and the request id';
}
for (['/v1/messages', 'text/plain', 415], ['/v1/messages/count_tokens', 'text/plain', 415], ['/v1/messages/count_tokens', 'application/json', 400]) {
    my ($path, $type, $status) = @$_;
    my $reply = $fake->request('POST', $path, '{', { 'content-type' => $type });
    is_deeply [$reply->{status}, decode_json($reply->{content})->{error}{type}], [$status, 'invalid_request_error'], "$path: a body as $type";
}

# ---- without effect --------------------------------------------------------------------
my %hint = (cache_control => { type => 'ephemeral' });
$answer = ask({ system => [{ %{ text('a') }, %hint }], user([{ %{ text('b') }, %hint }]), metadata => { user_id => 'u', x => 1 }, n => 2, logprobs => $true,
    thinking => { type => 'enabled', budget_tokens => 1024 }, context_management => { edits => [1] }, tool_choice => { type => 'auto' },
    tools => [{ %$tool, input_examples => [{}], %hint }, { type => 'web_search_20250305', name => 'web_search' }] });
is_deeply [sort split /, /, $answer->{headers}{'x-llmserve-ignored'}], [sort qw(metadata.x n logprobs context_management
        tools.input_examples tools.web_search_20250305)], 'parameters without effect are named, foreign tools too';
is ask({ user('a'), tools => [{ type => 'bash_20250124', name => 'bash' }], tool_choice => { type => 'auto' } })->{status}, 200, 'foreign tools alone';
# ---- random bodies ---------------------------------------------------------------------
# A member or an element of a sound body is replaced, doubled or left out, once or some times: an answer is a
# message, or an error in the shape.
my @junk = (undef, $true, 0, -1, 1e300, '', 'text', 'tool_use', 'tool_result', 'thinking', 'any', [], {}, [[]], { type => 'text' }, 'x' x 300, "\x{0}", { type => 'image' });
my %sound = (max_tokens => 4, temperature => 1, system => [text('s')], stop_sequences => ['q'], thinking => { type => 'enabled', budget_tokens => 9 }, metadata => { user_id => 'u' },
    tools => [$tool, { type => 'custom', name => 'g', description => 'd', strict => $true, input_schema => { type => 'object' } }], tool_choice => { type => 'auto' },
    messages => [{ role => 'user', content => 'a' }, { role => 'assistant', content => [text('b'), { type => 'thinking', thinking => 'c', signature => 'd' }, { type => 'tool_use', id => 'c1', name => 'f', input => { a => 1 } }] },
        { role => 'user', content => [{ %$result, content => [text('e')] }, text('f')] }]);

sub places {
    my ($value) = @_;
    my @inner = ref $value eq 'HASH' ? (map { \$value->{$_} } sort keys %$value) : ref $value eq 'ARRAY' ? (map { \$_ } @$value) : ();
    return (@inner, map { places($$_) } @inner);
}
my ($n, @wrong, %statuses) = ($ENV{LLS_RANDOM} // 150);
for (1 .. $n) {
    my $random = decode_json(encode_json(\%sound));
    for (1 .. 1 + rand 2) {
        my @all   = places($random);
        my $place = $all[rand @all];
        my $mode  = int rand 3;
        if ($mode == 1 && ref $$place eq 'ARRAY') { push @{$$place}, @{$$place} }
        elsif ($mode == 2 && ref $$place eq 'HASH') { delete $$place->{ (sort keys %{$$place})[0] // '' } }
        else { $$place = $junk[rand @junk] }
    }
    my $path  = rand 4 < 1 ? '/v1/messages/count_tokens' : '/v1/messages';
    $random->{stream} = $true if ref $random eq 'HASH' && rand 3 < 1;
    my $reply = $fake->post($path, $random);
    my $told  = eval { decode_json($reply->{content}) } // {};
    my $shown = ref $told->{error} eq 'HASH' && $told->{type} eq 'error' ? 'error' : $told->{type} // (defined $told->{input_tokens} ? 'count' : (events($reply))[-1]{type} // 'nothing');
    $statuses{"$reply->{status} $shown"}++;
    push @wrong, "$reply->{status} $shown: " . encode_json($random) if $reply->{status} >= 500 || $shown ne ($reply->{status} == 200 ? $path =~ /count/ ? 'count' : $random->{stream} ? 'message_stop' : 'message' : 'error');
}
is_deeply \@wrong, [], "$n random bodies: each is answered or refused in the shape";
cmp_ok scalar(keys %statuses), '>', 3, '  in each way';
note explain \%statuses;
ok $fake->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
is $fake->stop, 0, 'the server ends well';

# ---- answers of exact text -------------------------------------------------------------
my $call   = '<tool_call>{"name": "find", "arguments": {"text": "a b", "count": 3}}</tool_call>';
my @pieces = ($call, 'Some text. ', "\n", '<think>', 'A thought.', '</think>', '<tool_call>{"name": "find", "arguments": {"text": "c\"d", "count"',
    '<tool_call>{"name": "find", "arguments": {}}</tool_call>', "\x{e9}\x{4e16}", '{"a": 1}', '</tool_call>');
my @random = map { join '', map { $pieces[rand @pieces] } 1 .. 1 + rand 5 } 1 .. 12;
my $last   = '3}}</tool_call> So.';    # one token: the end of a call and a text
my $script = Script->new(
    template => q({%- for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>{% endif %}{% endif %}),
    special => ['<think>', '</think>'], words => [$last], model => "tool_format = hermes\n", sharp => 60,
    answers => ["Well. $call$call", "Hm. So.</think>\n\nYes.", '<tool_call>{"name": "find", "arguments": {"text": "a", "list": [1, {"b": "c', '{"a": 7}', "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"count\": 3}}\n</tool_call>",
        ['<tool_call>{"name": "find", "arguments": {"count": ', $last], @random]);
my @tools = (tools => [{ name => 'find', description => 'finds', input_schema => { type => 'object', properties => { text => { type => 'string' }, count => { type => 'integer' } } } }]);
my @on = (thinking => { type => 'enabled', budget_tokens => 1024 });

# The message without id and counts, the same whole and streamed.
sub told {
    my ($k, $more, $name) = @_;
    my $whole = $script->say($k, { user('Call. '), max_tokens => 250, %$more })->{json};
    my ($stream, $cut) = gathered(events($script->say($k, { user('Call. '), max_tokens => 250, %$more, stream => $true })));
    for my $message ($whole, $stream) {
        delete @$message{qw(id model role type)};
        $message->{usage} = $message->{usage}{output_tokens};
        for my $i (grep { $message->{content}[$_]{type} eq 'tool_use' } 0 .. $#{ $message->{content} }) {
            like delete $message->{content}[$i]{id}, qr/\Acall_\w+\z/, "$name: an id of a call";
        }
    }
    my %inputs = map { $_ => delete $whole->{content}[$_]{input} } keys %$cut;
    delete $stream->{content}[$_]{input} for keys %$cut;
    is_deeply $stream, $whole, "$name: streamed as whole" or diag explain $stream, $whole;
    $whole->{content}[$_]{input} = $inputs{$_} for keys %$cut;
    return $whole;
}
my %find = (type => 'tool_use', name => 'find', input => { text => 'a b', count => 3 });
my $told = told(0, {@tools}, 'calls');
is_deeply $told->{content}, [{ type => 'text', text => 'Well.' }, {%find}, {%find}], 'a text and two calls';
is $told->{stop_reason}, 'tool_use', '  end for the tools';
is_deeply told(0, { @tools, tool_choice => { type => 'auto', disable_parallel_tool_use => $true } }, 'one call')->{content}, [{ type => 'text', text => 'Well.' }, {%find}], 'one call at a time';
is told(0, { @tools, tool_choice => { type => 'none' } }, 'no calls')->{content}[0]{text}, "Well. $call$call", 'calls that are not allowed are text';
for my $choice ({ type => 'any' }, { type => 'tool', name => 'find' }) {
    my @one    = (tools => [{ name => 'find', input_schema => { type => 'object', properties => { count => { type => 'integer' } } } }]);
    my $forced = told(4, { @one, tool_choice => $choice }, "tool_choice $choice->{type}");
    is_deeply $forced->{content}, [{ %find, input => { count => 3 } }], '  calls it';
}
$told = told(2, {@tools}, 'a call that breaks off');
is_deeply [$told->{content}[0]{input}, $told->{stop_reason}], [{ text => 'a', list => [1, {}] }, 'end_turn'], '  has the values that are complete';
my $begun_call = length '<tool_call>{"name": "find", "arguments": {"text": "a"';
is_deeply told(2, { @tools, max_tokens => $begun_call }, 'a call that is cut after a value')->{content}[0]{input}, { text => 'a' }, '  has it';
is_deeply told(2, { @tools, max_tokens => $begun_call - 1 }, 'a call that is cut within a value')->{content}[0]{input}, {}, '  lacks it';
is_deeply told(5, {@tools}, 'a token of two blocks')->{content}, [{ %find, input => { count => 3 } }, { type => 'text', text => 'So.' }], '  is divided in order';
is told(2, { @tools, max_tokens => 60 }, 'a call that is cut')->{stop_reason}, 'max_tokens', '  says why';
is_deeply told(3, { output_config => { format => { type => 'json_schema', schema => { type => 'object', properties => { a => { type => 'integer' } }, required => ['a'],
        additionalProperties => $false } } } }, 'a form')->{content}, [{ type => 'text', text => '{"a": 7}' }], '  is followed';
told($_ + 6, { @tools, @on }, "random answer $_") for 0 .. $#random;

# ---- thinking --------------------------------------------------------------------------
my $thought = told(1, {@on}, 'thinking')->{content};
like $thought->[0]{signature}, qr/\Allmserve-1-[0-9a-f]{64}\z/, 'a thought is signed';
is_deeply [@{ $thought->[0] }{qw(type thinking)}, $thought->[1]], ['thinking', 'Hm. So.', { type => 'text', text => 'Yes.' }], '  and precedes the text';
is_deeply [map { $_->{type} } @{ told(1, {}, 'no thinking')->{content} }], ['text'], 'without thinking there is none';
is_deeply told(1, { thinking => { type => 'adaptive', display => 'omitted' } }, 'omitted')->{content}, [{ type => 'text', text => 'Yes.' }], 'a thought that is not shown';
# The replayed model would think on: its tokens after the budget are those of its places.
sub limited { my ($k, $budget, @more) = @_; return told($k, { thinking => { type => 'enabled', budget_tokens => $budget }, @more }, "a budget of $budget")->{content} }
is_deeply [@{ limited(1, 4)->[0] }{qw(type thinking)}], ['thinking', 'Hm.'], '  ends the thought';
like limited(1, 4)->[1]{text}, qr/\Ao\./, '  and what comes next is the answer';
is_deeply limited(1, 7), $thought, '  that the thought keeps changes nothing';
my $formed = limited(1, 3, output_config => { format => { type => 'json_schema', schema => { type => 'object', properties => { a => { type => 'integer' } }, required => ['a'], additionalProperties => $false } } });
is_deeply [map { $_->{type} } @$formed], ['thinking', 'text'], '  beside a form, too';
is $formed->[0]{thinking}, 'Hm.', '  with as much of the thought';
like $formed->[1]{text}, qr/\A\{\s*"a":\s*-?\d+/, '  and the form after it';
my $refused = $script->server->post('/v1/chat/completions', { messages => [{ role => 'user', content => 'a' }], max_tokens => 5, thinking_token_budget => 3, logprobs => $true });
is_deeply [$refused->{status}, $refused->{json}{error}{param}], [400, 'logprobs'], '  not beside log probabilities';
my %before = map { $_->[0] => $_->[1] } (
    [ours => $thought], [none => [$thought->[1]]], [foreign => [{ type => 'thinking', thinking => 'Hm. So.', signature => 'EqQB' }, $thought->[1]]],
    [redacted => [{ type => 'redacted_thinking', data => 'x' }, $thought->[1]]], [changed => [{ %{ $thought->[0] }, thinking => 'Hm! So.' }, $thought->[1]]]);
my %counted = map {
    $_ => $script->server->post('/v1/messages/count_tokens', { messages => [{ role => 'user', content => 'a' }, { role => 'assistant', content => $before{$_} }, { role => 'user', content => 'b' }] })
} keys %before;
is $counted{ours}{json}{input_tokens} - $counted{none}{json}{input_tokens}, length '(Hm. So.)', 'a thought of ours comes back into the prompt';
is $counted{$_}{json}{input_tokens}, $counted{none}{json}{input_tokens}, "  one that is $_ does not" for qw(foreign redacted);
like $counted{changed}{json}{error}{message}, qr/messages\.1\.content\.0 is a thinking block whose text does not match its signature/, '  and a changed one is refused';
is $script->server->stop, 0, 'the server ends well';

# ---- keys and room ---------------------------------------------------------------------
my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "k\n");
my $keys = LlmServer->serve("api_keys = $folder/keys\nany_model = false\n[model]\npath = " . $script->folder . "\n[engine]\nthreads = 1\npin = false\n");
my %hello = (model => 'x', max_tokens => 1, user('a'));
for (['/v1/messages', {}, 401, 'authentication_error'], ['/v1/messages/count_tokens', { 'x-api-key' => 'no' }, 401, 'authentication_error'], ['/v1/messages', { 'x-api-key' => 'k' }, 404, 'not_found_error']) {
    my ($path, $headers, $status, $type) = @$_;
    my $reply = $keys->post($path, \%hello, $headers);
    is_deeply [$reply->{status}, $reply->{json}{error}{type}], [$status, $type], "$path: $type";
}
is $keys->stop, 0, 'the server ends well';
my $full  = LlmServer->fake(requests => 1, period => 200);
my $first = $full->connect;
my $body  = encode_json({ user('Once upon a time'), max_tokens => 400, stream => $true });
print $first "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: @{[length $body]}\r\n\r\n$body";
like LlmServer::read_until($first, qr/message_start/), qr/message_start/, 'a server that has one place';
my $reply = $full->post('/v1/messages', { user('a'), max_tokens => 1 });
is_deeply [$reply->{status}, $reply->{json}{error}{type}], [529, 'overloaded_error'], '  is overloaded';
cmp_ok $reply->{headers}{'retry-after'}, '>', 0, '  and says when to try again';
close $first;
is $full->stop, 0, 'the server ends well';
# ---- what the cache is said to hold ----------------------------------------------------
for (['paged', ''], ['paged', "[cache.paged]\nprefix_sharing = off\n"], ['contiguous', '']) {
    my ($cache, $more) = @$_;
    my $shares = $cache eq 'paged' && $more eq '';
    my $other  = Script->new(answers => ['Yes.'], rest => "[plugins]\ncache = $cache\n$more");
    my @usage  = map { $other->say(0, { user('Call. '), max_tokens => 20 })->{json}{usage} } 1, 2;
    my ($created, $read) = map { my $name = $_; [map { $_->{"cache_${name}_input_tokens"} > 0 ? 1 : 0 } @usage] } qw(creation read);
    is_deeply [$created->[0], $read->[1]], $shares ? [1, 1] : [0, 0], "$cache: " . ($shares ? 'what is put into it is found' : 'nothing is said to be put into it');
    is $other->server->stop, 0, '  the server ends well';
}
done_testing;
