#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Tools in a chat: calls in what the model writes become tool_calls, whole and streamed, and
# what it thinks before becomes reasoning_content. The fake's answer repeats its prompt, which
# with the variable "only" is the content of the last message, after a space of the tokeniser's.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my @tools = (tools => [
        { type => 'function', function => { name => 'weather', parameters => { type => 'object', properties => { place => { type => 'string' } } } } },
        { type => 'function', function => { name => 'now' } }]);
my $server = LlmServer->fake(reasoning => 'think');

# The answer that the model gives when it writes this text.
sub says {
    my ($text, %more) = @_;
    return $server->post('/v1/chat/completions', {
            messages => [{ role => 'user', content => "$text<stop>" }], chat_template_kwargs => { only => $true },
            stop => ['<stop>'], @tools, %more });
}

# A stream's parts put together as OpenAI's client does it.
sub assembled {
    my (@events) = @_;
    my (%message, $reason);
    for my $choice (map { ref $_ ? $_->{choices}[0] : () } @events) {
        my $delta = $choice->{delta};
        for my $name (qw(content reasoning reasoning_content)) {
            $message{$name} = ($message{$name} // '') . $delta->{$name} if defined $delta->{$name};
        }
        for my $part (@{ $delta->{tool_calls} // [] }) {
            my $call = $message{tool_calls}[$part->{index}] //= {};
            $call->{$_} = $part->{$_} for grep { exists $part->{$_} } qw(id type);
            $call->{function}{name} = $part->{function}{name} if exists $part->{function}{name};
            $call->{function}{arguments} .= $part->{function}{arguments};
        }
        $reason = $choice->{finish_reason} if defined $choice->{finish_reason};
    }
    return (\%message, $reason);
}

my $call  = qq(<tool_call>\n{"name": "weather", "arguments": {"place": "Z\x{fc}rich"}}\n</tool_call>);
my $other = qq(<tool_call>{"name": "now", "arguments": {}}</tool_call>);

# ---- a whole answer -------------------------------------------------------------------
my $choice  = says("Let me look.\n$call\n$other")->{json}{choices}[0];
my $message = $choice->{message};
is $choice->{finish_reason}, 'tool_calls', 'the reason is the calls';
is $message->{content}, ' Let me look.', 'the content before them';
like $_->{id}, qr/\Acall_[0-9a-f]{32}\z/, 'an id' for @{ $message->{tool_calls} };
isnt $message->{tool_calls}[0]{id}, $message->{tool_calls}[1]{id}, 'of its own';
is_deeply [map { { %$_, id => 'x' } } @{ $message->{tool_calls} }], [
    { id => 'x', type => 'function', function => { name => 'weather', arguments => qq({"place": "Z\x{fc}rich"}) } },
    { id => 'x', type => 'function', function => { name => 'now', arguments => '{}' } }], 'the calls';
ok !exists $message->{reasoning_content}, 'no reasoning where there was none';
is says($call)->{json}{choices}[0]{message}{content}, undef, 'calls alone: content is null';
$choice = says('Just text.')->{json}{choices}[0];
is_deeply [@$choice{qw(finish_reason message)}], ['stop', { role => 'assistant', content => ' Just text.', refusal => undef }], 'no call';

# ---- streamed -------------------------------------------------------------------------
my @events = LlmServer::events(says("<think>\nHm.\n</think>\n\nLet me look.\n$call\n$other", stream => $true));
my ($streamed, $reason) = assembled(@events);
is $reason, 'tool_calls', 'streamed: the reason';
$_->{id} = 'x' for @{ $streamed->{tool_calls} };
is_deeply $streamed, {
    content => 'Let me look.', reasoning => 'Hm.', reasoning_content => 'Hm.',
    tool_calls => [
        { id => 'x', type => 'function', function => { name => 'weather', arguments => qq({"place": "Z\x{fc}rich"}) } },
        { id => 'x', type => 'function', function => { name => 'now', arguments => '{}' } }] }, '  and the same parts';
my @parts = map { ref $_ ? @{ $_->{choices}[0]{delta}{tool_calls} // [] } : () } @events;
is_deeply [map { exists $_->{id} ? $_->{index} : () } @parts], [0, 1], '  id and name are in the first part of each call';
cmp_ok scalar(@parts), '>', 5, '  arguments come piece by piece';
my @kinds = map { my ($c) = ref $_ ? $_->{choices}[0]{delta} : {}; $c->{reasoning} ? 'r' : $c->{content} ? 'c' : $c->{tool_calls} ? 't' : () } @events;
like join('', @kinds), qr/\Ar+c+t+\z/, '  reasoning, content, calls, each as it comes';

# ---- reasoning ------------------------------------------------------------------------
my $answer = says("<think>Well ...</think>Yes.", tools => undef)->{json};
is_deeply [@{ $answer->{choices}[0]{message} }{qw(content reasoning_content reasoning)}], ['Yes.', 'Well ...', 'Well ...'], 'reasoning needs no tools';
cmp_ok $answer->{usage}{completion_tokens_details}{reasoning_tokens}, '>', 3, '  and its tokens are counted';
is says("Well ...</think>Yes.", tools => undef)->{json}{choices}[0]{message}{content}, ' Well ...</think>Yes.', 'none was begun';
# the prompt ends with <think>, and the answer repeats it from its beginning
my $opened = $server->post('/v1/chat/completions', { messages => [{ role => 'user', content => "Hm.</think>Yes.<stop><think>" }],
        chat_template_kwargs => { only => $true }, stop => ['<stop>'] })->{json}{choices}[0]{message};
is_deeply [@$opened{qw(content reasoning_content)}], ['Yes.', 'Hm.'], 'a prompt that has opened it';

# ---- what was asked for ---------------------------------------------------------------
$choice = says("$call$other", parallel_tool_calls => $false)->{json}{choices}[0];
is scalar @{ $choice->{message}{tool_calls} }, 1, 'parallel_tool_calls: false is one call';
is $choice->{finish_reason}, 'tool_calls', '  with its reason';
is says($call, tool_choice => 'none')->{json}{choices}[0]{message}{content}, " $call", 'tool_choice none: calls are text';
is says($call, tool_choice => 'auto')->{json}{choices}[0]{message}{tool_calls}[0]{function}{name}, 'weather', 'auto is the default';
my $cut = says($call, max_tokens => length($call) - 30)->{json}{choices}[0];
is $cut->{finish_reason}, 'length', 'an answer that is cut off says so';
is says($call, tool_choice => $_)->{json}{error}{param}, 'tool_choice', 'a choice that is none' for 'some', {}, 3, { type => 'function', function => { name => 'none' } };
is says('x' x 9 . $call, n => 2)->{json}{choices}[1]{message}{tool_calls}[0]{function}{name}, 'weather', 'each choice has its calls';
is $server->stop, 0, 'the server ends well';

# ---- another format -------------------------------------------------------------------
$server = LlmServer->fake(format => 'mistral');
$message = says('[TOOL_CALLS][{"name": "now", "arguments": {}}]')->{json}{choices}[0]{message};
is $message->{tool_calls}[0]{function}{name}, 'now', 'Mistral';
like $message->{tool_calls}[0]{id}, qr/\A[0-9a-zA-Z]{9}\z/, '  with ids as its templates want them';
is $server->stop, 0, 'the server ends well';
done_testing;
