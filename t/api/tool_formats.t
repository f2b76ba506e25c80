#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# How the models of 2026 write thoughts and calls of tools, with their marks as tokens of their own and a model that
# replays such answers: the client's view of them, whole and streamed. The formats are found in the templates.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use LlmServer;
use Script;
use Test::More;

my @tools = (tools => [
    { type => 'function', function => { name => 'find', parameters => { type => 'object', properties => {
        text => { type => 'string' }, count => { type => 'integer' }, where => { type => 'object' } } } } },
    { type => 'function', function => { name => 'now' } }]);
my @ask = (messages => [{ role => 'user', content => 'Call. ' }], max_tokens => 500);
my ($s, $m) = (':opensource', ']<]minimax[>[');

# A name, marks that the template has, all that are tokens of their own, an answer of thoughts, text and two calls,
# and one of text alone.
my @formats = (
    ['gemma4', '<|tool_call> <tool_call|> <channel|>', [qw(<|tool_call> <tool_call|> <|"|> <|channel> <channel|>)],
        '<|channel>thought' . "\nHm.\n" . '<channel|>Look.<|tool_call>call:find{count:3,text:<|"|>7 "a"<|"|>,where:{in:<|"|>b<|"|>}}<tool_call|><|tool_call>call:now{}<tool_call|>', 'Yes.'],
    ['lfm2', 'List of tools: </think>', [qw(<|tool_call_start|> <|tool_call_end|> <think> </think>)],
        q(<think>Hm.</think>Look.<|tool_call_start|>[find(count=3, text='7 "a"', where={"in": "b"}), now()]<|tool_call_end|>), 'Yes.'],
    ['apertus', '<|tools_prefix|> <|tools_suffix|> <|inner_prefix|>', [qw(<|tools_prefix|> <|tools_suffix|> <|inner_prefix|> <|inner_suffix|>)],
        q(<|inner_prefix|>Hm.<|inner_suffix|>Look.<|tools_prefix|>[{"find": {"count": 3, "text": "7 \"a\"", "where": {"in": "b"}}}, {"now": {}}]<|tools_suffix|>), 'Yes.'],
    ['kimi_k3', '<|open|> <|close|> <|sep|>', [qw(<|open|> <|close|> <|sep|>)],
        '<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Look.<|close|>response<|sep|><|open|>tools<|sep|>' .
            '<|open|>call tool="find" index="1"<|sep|><|open|>argument key="count" type="number"<|sep|>3<|close|>argument<|sep|>' .
            '<|open|>argument key="text" type="string"<|sep|>7 "a"<|close|>argument<|sep|>' .
            '<|open|>argument key="where" type="object"<|sep|>{"in": "b"}<|close|>argument<|sep|><|close|>call<|sep|>' .
            '<|open|>call tool="now" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>',
        '<|open|>think<|sep|><|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|close|>message<|sep|>'],
    ['minimax_m3', "$m <tool_call> <mm:think>", [$m, qw(<mm:think> </mm:think>)],
        "<mm:think>Hm.</mm:think>Look.$m<tool_call>\n$m<invoke name=\"find\">$m<count>3$m</count>$m<text>7 \"a\"$m</text>" .
            "$m<where>$m<in>b$m</in>$m</where>$m</invoke>\n$m<invoke name=\"now\">$m</invoke>\n$m</tool_call>", '</mm:think>Yes.'],
    ['hunyuan', $s, [map { ("<$_$s>", "</$_$s>") } qw(think tool_calls tool_call tool_sep arg_key arg_value)],
        "<think$s>Hm.</think$s>Look.<tool_calls$s>\n<tool_call$s>find<tool_sep$s>\n<arg_key$s>count</arg_key$s>\n<arg_value$s>3</arg_value$s>\n" .
            "<arg_key$s>text</arg_key$s>\n<arg_value$s>7 \"a\"</arg_value$s>\n<arg_key$s>where</arg_key$s>\n<arg_value$s>{\"in\": \"b\"}</arg_value$s>\n" .
            "</tool_call$s>\n<tool_call$s>now<tool_sep$s>\n</tool_call$s>\n</tool_calls$s>", "<think$s></think$s>Yes."]);

my %want = (finish_reason => 'tool_calls', content => 'Look.', reasoning => 'Hm.');
for (@formats) {
    my ($name, $signs, $special, @answers) = @$_;
    my $script = Script->new(special => $special, answers => \@answers, template =>
            "{# $signs #}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n");
    my $message = Script::message($script->chat(0, { @ask, @tools }));
    my @calls   = map { [$_->{name}, decode_json($_->{arguments})] } @{ delete $message->{tool_calls} // [] };
    is_deeply \@calls, [['find', { count => 3, text => '7 "a"', where => { in => 'b' } }], ['now', {}]], "$name: calls, with their types";
    my $usage = delete $message->{usage};
    is_deeply $message, \%want, '  beside text and thoughts' or diag explain $message;
    my $stream = Script::whole($script->streamed(0, { @ask, @tools }));
    is_deeply [map { [$_->{name}, decode_json($_->{arguments})] } @{ delete $stream->{tool_calls} // [] }], \@calls, '  streamed: the same';
    is_deeply $stream, { %want, usage => $usage }, '  and beside the same';
    for my $given ([], [@tools]) {
        my $plain = Script::message($script->chat(1, { @ask, @$given }));
        is_deeply [@$plain{qw(content reasoning tool_calls finish_reason)}], ['Yes.', undef, undef, 'stop'], '  an answer without marks, ' . (@$given ? 'with tools' : 'without tools')
            or diag explain $plain;
    }
    is $script->server->stop, 0, '  the server ends well';
}
done_testing;
