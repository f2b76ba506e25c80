#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Tool calls that are truncated, are not JSON, or lack a mark: the client's view of them, whole and streamed,
# with a model that replays a script.
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
        text => { anyOf => [{ type => 'string' }, { type => 'null' }] }, count => { type => 'integer' }, deep => { type => 'boolean' } } } } },
    { type => 'function', function => { name => 'now' } }]);
my @ask = (messages => [{ role => 'user', content => 'Call. ' }], @tools, max_tokens => 150);

# The message without its usage, the same whole and streamed.
sub told {
    my ($script, $k, $more, $name) = @_;
    my $whole  = Script::message($script->chat($k, { @ask, %$more }));
    my $stream = Script::whole($script->streamed($k, { @ask, %$more }));
    delete $_->{usage} for $whole, $stream;
    delete $whole->{content}  if ($whole->{content}  // '') eq '';
    delete $stream->{content} if ($stream->{content} // '') eq '';
    is_deeply $stream, $whole, "$name: streamed as whole" or diag explain $stream, $whole;
    return $whole;
}

sub call { my ($name, $arguments) = @_; return (tool_calls => [{ name => $name, arguments => $arguments }]) }

# ---- as an object ---------------------------------------------------------------------------
my $object = '<tool_call>{"name": "find", "arguments": {"text": "a b c", "count": 3}}</tool_call>';
my $script = Script->new(model => "tool_format = hermes\n", answers => [$object,
    '<tool_call>{"name": "find", "arguments": {"text": "a b', '<tool_call>{"name": "find", "argu', '<tool_call>{"name": "fi',
    qq(<tool_call>{"name": "find", "arguments": {"text": "a\nb", "deep": True,}}</tool_call>),
    '<tool_call>{"name": "find", "arguments": {"count": 100000000000000000000}}',
    '<tool_call>{"name": "now"}</tool_call><tool_call>{"name": "find", "arguments": {"te']);
is_deeply told($script, 0, {}, 'a call'), { finish_reason => 'tool_calls', call('find', '{"text": "a b c", "count": 3}') }, '  is one';
is_deeply told($script, 1, {}, 'the end within arguments'), { finish_reason => 'stop', call('find', '{"text": "a b') }, '  is no call to make';
is_deeply told($script, 2, {}, 'the end before them'), { finish_reason => 'stop', call('find', '') }, '  leaves nothing in the content';
is_deeply told($script, 3, {}, 'the end within the name'), { finish_reason => 'stop', content => '<tool_call>{"name": "fi' }, '  is text';
is_deeply told($script, 0, { stop => ['b c'] }, 'a stop string in the arguments'), { finish_reason => 'stop', call('find', '{"text": "a ') }, '  is no call to make';
is_deeply told($script, 0, { max_tokens => 55 }, 'a cut'), { finish_reason => 'length', call('find', substr '{"text": "a b c", "count": 3}', 0, 55 - 41) }, '  leaves what came';
is_deeply told($script, 0, { max_tokens => 34 }, 'a cut before arguments'), { finish_reason => 'length', call('find', '') }, '  leaves no content';
is_deeply told($script, 0, { max_tokens => 25 }, 'a cut within the name'), { finish_reason => 'length' }, '  leaves nothing';
is_deeply told($script, 4, {}, 'line ends, commas and Python'), { finish_reason => 'tool_calls', call('find', '{"text": "a\nb", "deep": true}') }, '  become JSON';
is_deeply told($script, 5, {}, 'a call without its last brace'), { finish_reason => 'tool_calls', call('find', '{"count": 100000000000000000000}') }, '  is one, with all digits';
my $two = told($script, 6, {}, 'a whole call and a half one');
is $two->{finish_reason}, 'stop', '  is no answer to act on';
is $script->server->stop, 0, 'the server ends well';

# ---- with a tag for each argument -------------------------------------------------------------
$script = Script->new(model => "tool_format = qwen3_coder\n", answers => [
    "<tool_call>\n<function=find>\n<parameter=text>\n42\n</parameter>\n<parameter=deep>\nTrue\n</parameter>\n</function>\n</tool_call>",
    "Well. <function=find>\n<parameter=text>\n</parameter> ends it\n</parameter>\n<parameter=count>\n9223372036854775808\n</function>\n</tool_call>",
    "<tool_call>\n<function=find>\n<parameter=text>\nhalf a te"]);
is_deeply told($script, 0, {}, 'tags'), { finish_reason => 'tool_calls', call('find', '{"text": "42", "deep": true}') }, '  a string stays one, True is true';
is_deeply told($script, 1, {}, 'tags that lack'), { finish_reason => 'tool_calls', content => 'Well.', call('find', '{"text": "</parameter> ends it", "count": 9223372036854775808}') }, '  what is meant';
is_deeply told($script, 2, {}, 'the end within a value'), { finish_reason => 'stop', call('find', '') }, '  is no call to make';
is_deeply told($script, 0, { max_tokens => 70 }, 'a cut within a tag'), { finish_reason => 'length', call('find', '{"text": "42"') }, '  leaves what came';
is $script->server->stop, 0, 'the server ends well';
done_testing;
