#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Constraints on answers (response_format, guided decoding, required or chosen calls) and reasoning: the
# constraint begins after the reasoning, and with tools an answer is either a call or matches the constraint.
# With a model whose answers the test chooses.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my @ask    = (messages => [{ role => 'user', content => 'Go on.' }], max_tokens => 300);
my $schema = { type => 'object', properties => { a => { type => 'integer' } }, required => ['a'], additionalProperties => $false };
my @schema = (response_format => { type => 'json_schema', json_schema => { name => 'x', schema => $schema } });
my @tools  = (tools => [map { { type => 'function', function => { name => $_, parameters => { type => 'object',
    properties => { place => { type => 'string' } }, required => ['place'] } } } } qw(weather news)]);
my $chatml = q({%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{%- if tools %}{{ tools }} <tool_call> </tool_call>{% endif %}<|im_start|>assistant
);

# Whole and streamed, without usage, which is tested elsewhere.
sub said {
    my ($script, $k, %body) = @_;
    my $message  = Script::message($script->chat($k, {@ask, %body}));
    my $streamed = Script::whole($script->streamed($k, {@ask, %body}));
    delete $_->{content} for grep { ($_->{content} // '') eq '' } $message, $streamed;
    is_deeply $streamed, $message, '  streamed: the same';
    delete $message->{usage};
    return $message;
}

# ---- a form after a thought -----------------------------------------------------------
my %forms = (
    'response_format json_schema'  => [{@schema}, '{"a": 17}'],
    'response_format json_object'  => [{ response_format => { type => 'json_object' } }, '{"b": [1, "x"]}'],
    'guided_json'                  => [{ guided_json => $schema }, '{"a": 17}'],
    'guided_regex'                 => [{ guided_regex => 'a{3}b' }, 'aaab'],
    'guided_choice'                => [{ guided_choice => ['yes', 'no'] }, 'yes'],
    'guided_grammar'               => [{ guided_grammar => 'root ::= "x"+ "!"' }, 'xx!'],
    'grammar'                      => [{ grammar => 'root ::= "x"+ "!"' }, 'xx!'],
    'structured_outputs json'      => [{ structured_outputs => { json => $schema } }, '{"a": 17}'],
    'structured_outputs regex'     => [{ structured_outputs => { regex => 'a{3}b' } }, 'aaab'],
    'a structural tag'             => [{ response_format => { type => 'structural_tag', format => { type => 'triggered_tags', triggers => ['<v>'],
        tags => [{ begin => '<v>', content => { type => 'json_schema', json_schema => $schema }, end => '</v>' }] } } }, 'So <v>{"a": 17}</v>.']);
my @names = sort keys %forms;
my $hm    = "Hm, {\"a\": \"x\"} or yes? ";
my %kinds = (
    'the template opens the thought' => { template => "$chatml<think>\n", special => ['<think>', '</think>'],
        begin => "$hm</think>\n\n" },
    'the model opens the thought' => { template => "{# </think> #}$chatml", special => ['<think>', '</think>'],
        begin => "<think>$hm</think>\n\n" },
    'marks of letters' => { template => "$chatml<think>\n", begin => "$hm</think>\n\n" },
    'marks of Mistral' => { template => "{# [/THINK] #}$chatml", special => ['[THINK]', '[/THINK]'],
        begin => "[THINK]$hm\[/THINK]" },
    'no thought where one may be' => { template => "{# </think> #}$chatml", special => ['<think>', '</think>'], begin => '', none => 1 });
for my $kind (sort keys %kinds) {
    my %kind   = %{ $kinds{$kind} };
    my $script = Script->new(template => $kind{template}, special => $kind{special} // [],
        answers => [map { $kind{begin} . $forms{$_}[1] } @names]);
    for my $k (0 .. $#names) {
        is_deeply said($script, $k, %{ $forms{ $names[$k] }[0] }),
            { content => $forms{ $names[$k] }[1], finish_reason => 'stop', $kind{none} ? () : (reasoning => $hm =~ s/\s+\z//r) },
            "$kind: $names[$k]";
    }
    is $script->server->stop, 0, '  the server ends well';
}

# ---- the form holds, the thought is free ----------------------------------------------
my $script = Script->new(template => "$chatml<think>\n", special => ['<think>', '</think>'], answers => [
    'Hm.</think>maybe', 'Hm.</think>' . '{"a": 17}', 'Never ends', "</think>\n\nyes"]);
my $message = said($script, 0, guided_choice => ['yes', 'no']);
is_deeply [@$message{qw(reasoning content)}], ['Hm.', 'no'], 'what the form does not allow is not said after the thought';
my $response = $script->respond(1, { input => 'x', text => { format => { type => 'json_schema', name => 'x', schema => $schema } } })->{json};
is_deeply [map { $_->{type} } @{ $response->{output} }], ['reasoning', 'message'], 'a response has the thought as an item';
is $response->{output}[1]{content}[0]{text}, '{"a": 17}', '  and the form as its text';
$message = said($script, 2, guided_choice => ['yes', 'no'], max_tokens => 10);
is_deeply $message, { reasoning => 'Never ends', finish_reason => 'length' }, 'a thought that is cut';
$message = said($script, 3, guided_choice => ['yes', 'no']);
is_deeply $message, { content => 'yes', finish_reason => 'stop' }, 'an empty thought';
is $script->complete(1, { prompt => 'x', guided_choice => ['yes', 'no'], max_tokens => 9 })->{json}{choices}[0]{text}, 'no', 'a completion has no thought: its form is at its beginning';
is $script->server->stop, 0, 'the server ends well';

# ---- gpt-oss --------------------------------------------------------------------------
my $analysis = '<|channel|>analysis<|message|>Hm, yes?<|end|><|start|>assistant';
my %channels = (end => ['<|return|>', '<|call|>'], special => [qw(<|start|> <|channel|> <|message|> <|end|> <|constrain|>)]);
my $harmony  = '{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}{{ tools }}<|start|>assistant{# <|channel|> #}';
my @named = grep { $_ ne 'a structural tag' } @names;
$script = Script->new(%channels, template => $harmony,
    answers => [(map { $analysis . '<|channel|>final<|message|>' . $forms{$_}[1] } @named),
        '<|channel|>final <|constrain|>json<|message|>{"a": 17}',
        $analysis . '<|channel|>commentary to=functions.news <|constrain|>json<|message|>{"place": "here"}<|call|>',
        $analysis . '<|channel|>final<|message|>Just text.']);
for my $k (0 .. $#named) {
    is_deeply said($script, $k, %{ $forms{ $named[$k] }[0] }), { content => $forms{ $named[$k] }[1], reasoning => 'Hm, yes?', finish_reason => 'stop' },
        "channels: $named[$k]";
}
is_deeply said($script, @named + 0, @schema), { content => '{"a": 17}', finish_reason => 'stop' }, 'channels: a header that says JSON, no thought';
my $news = { tool_calls => [{ name => 'news', arguments => '{"place": "here"}' }], reasoning => 'Hm, yes?', finish_reason => 'tool_calls' };
is_deeply said($script, @named + 1, @tools, %$_), $news, 'channels: a call' for {}, {@schema}, { tool_choice => 'required' }, { tool_choice => 'required', @schema };
is said($script, @named + 2, @schema)->{content} =~ /\A\{"a":\s*-?\d+\s*\}\z/, 1, 'channels: text is held to the form';
is $script->server->stop, 0, 'the server ends well';
$script = Script->new(%channels, template => "$harmony<|channel|>analysis<|message|>", answers => ['Hm, yes?<|end|><|start|>assistant<|channel|>final<|message|>{"a": 17}']);
is_deeply said($script, 0, @$_), { content => '{"a": 17}', reasoning => 'Hm, yes?', finish_reason => 'stop' }, 'channels: the template opens the thought' for [], [@schema];
is $script->server->stop, 0, 'the server ends well';

# ---- tools beside a form --------------------------------------------------------------
sub call { my ($name, $place) = @_; return { name => $name, arguments => qq({"place": "$place"}) } }
my %formats = (
    hermes      => [qq(<tool_call>\n{"name": "news", "arguments": {"place": "here"}}\n</tool_call>), "\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"there\"}}\n</tool_call>"],
    mistral     => [qq([TOOL_CALLS][{"name": "news", "arguments": {"place": "here"}}), q(, {"name": "weather", "arguments": {"place": "there"}}), ']'],
    mistral_v11 => [q([TOOL_CALLS]news[ARGS]{"place": "here"}), q([TOOL_CALLS]weather[ARGS]{"place": "there"})],
    llama3_json => [q({"name": "news", "parameters": {"place": "here"}}), q(; {"name": "weather", "parameters": {"place": "there"}})],
    generic     => [q([{"name": "news", "arguments": {"place": "here"}}), q(, {"name": "weather", "arguments": {"place": "there"}}), ']'],
    'functionary_v3.2' => [qq(news\n{"place": "here"}), qq(>>>weather\n{"place": "there"})]);
for my $format (sort keys %formats) {
    my ($first, $second, $end) = (@{ $formats{$format} }, '');
    my $script = Script->new(template => "{# </think> #}$chatml", special => ['<think>', '</think>', '<tool_call>', '</tool_call>', '[TOOL_CALLS]', '[ARGS]'],
        model => "tool_format = $format\n", answers => ["$first$end", "$first$second$end", '{"a": 17}', "<think>Hm.</think>\n$first$end",
            "<think>Hm.</think>\n{\"a\": 17}", 'Just text.', '{"name": "news", "rank": "x"}']);
    my @calls = (call('news', 'here'), call('weather', 'there'));
    is_deeply said($script, 0, @tools, @schema), { tool_calls => [$calls[0]], finish_reason => 'tool_calls' }, "$format: beside a form a call";
    is_deeply said($script, 1, @tools, @schema), { tool_calls => \@calls, finish_reason => 'tool_calls' }, '  two calls';
    is_deeply said($script, 2, @tools, @schema), { content => '{"a": 17}', finish_reason => 'stop' }, '  the form';
    is_deeply said($script, 3, @tools, @schema), { reasoning => 'Hm.', tool_calls => [$calls[0]], finish_reason => 'tool_calls' }, '  a call after a thought';
    is_deeply said($script, 4, @tools, @schema), { reasoning => 'Hm.', content => '{"a": 17}', finish_reason => 'stop' }, '  the form after a thought';
    my $other = Script::message($script->chat(5, { @ask, @tools, @schema }));
    ok exists $other->{tool_calls} || ($other->{content} // '') =~ /\A\s*\{/, '  nothing else';
    is_deeply said($script, 1, @tools, @schema, tool_choice => 'required'), { tool_calls => \@calls, finish_reason => 'tool_calls' }, '  required: calls';
    is_deeply said($script, 0, @tools, @schema, tool_choice => { type => 'function', function => { name => 'news' } }),
        { tool_calls => [$calls[0]], finish_reason => $format eq 'x' ? 'stop' : 'tool_calls' }, '  named: that call';
    is_deeply said($script, 2, @tools, @schema, tool_choice => 'none'), { content => '{"a": 17}', finish_reason => 'stop' }, '  none: the form';
    is_deeply said($script, 0, @tools, @schema, parallel_tool_calls => $false), { tool_calls => [$calls[0]], finish_reason => 'tool_calls' }, '  one call at most';
    is_deeply said($script, 6, @tools, guided_json =>
        '{"properties": {"name": {"type": "string"}, "rank": {"type": "string"}}, "required": ["name", "rank"], "additionalProperties": false}'), { content => '{"name": "news", "rank": "x"}', finish_reason => 'stop' }, '  a form that names a tool';
    my @flat = (tools => [map { { type => 'function', %{ $_->{function} } } } @{ $tools[1] }]);
    my @text = (text => { format => { type => 'json_schema', name => 'x', schema => $schema } });
    is_deeply [map { $_->{name} // $_->{type} } @{ $script->respond(0, { input => 'x', @flat, @text })->{json}{output} }], ['news'], '  a response: a call';
    is $script->respond(2, { input => 'x', @flat, @text })->{json}{output}[0]{content}[0]{text}, '{"a": 17}', '  or the form';
    is $script->server->stop, 0, '  the server ends well';
}

# ---- what looks like a call within the form -------------------------------------------
$script = Script->new(template => $chatml, special => ['<think>'], answers => ['{"s": "<tool_call>{\\"name\\": \\"news\\"}"}'], model => "tool_format = hermes\n");
is_deeply said($script, 0, @tools, response_format => { type => 'json_object' }), { content => '{"s": "<tool_call>{\\"name\\": \\"news\\"}"}', finish_reason => 'stop' },
    'a mark within the form is text';
is $script->server->stop, 0, 'the server ends well';

# ---- at any temperature ---------------------------------------------------------------
my @small = (guided_json => { type => 'object', properties => { kind => { enum => ['x', 'y'] } }, required => ['kind'], additionalProperties => $false });
my @few = (tools => [{ type => 'function', function => { name => 'news', parameters => { type => 'object',
    properties => { place => { enum => ['here', 'there'] } }, required => ['place'] } } }], parallel_tool_calls => $false);
for my $format (qw(hermes llama3_json)) {
    $script = Script->new(template => $chatml, model => "tool_format = $format\n", sharp => 0.5, answers => ['']);
    my ($calls, $texts, @bad) = (0, 0);
    for my $choice (map { @{ $script->chat(0, { @ask, @small, @few, temperature => 1.5, seed => $_, n => 8 })->{json}{choices} } } 1 .. 3) {
        my @made = @{ $choice->{message}{tool_calls} // [] };
        if    (@made == 1 && $choice->{finish_reason} eq 'tool_calls' && $made[0]{function}{arguments} =~ /\A\{\s*"place":\s*"t?here"\s*\}\z/) { $calls++ }
        elsif (!@made && $choice->{finish_reason} eq 'stop' && $choice->{message}{content} =~ /\A\s*\{\s*"kind":\s*"[xy]"\s*\}\s*\z/) { $texts++ }
        else                                                                                                               { push @bad, $choice }
    }
    is scalar(@bad), 0, "$format: noise is a call or the form" or 
    cmp_ok $calls, '>', 0, '  some are calls';
    cmp_ok $texts, '>', 0, '  some the form';
    is $script->server->stop, 0, '  the server ends well';
}
done_testing;
