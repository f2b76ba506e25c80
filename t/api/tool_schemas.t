#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Parameters of tools, and objects with optional members: a model that babbles ends its answer, and one that
# writes a member late is not trapped in it. With a model whose answers the test chooses.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my @ask = (messages => [{ role => 'user', content => 'Go on.' }], max_tokens => 200);

sub tool { my ($parameters, %more) = @_; return (tools => [{ type => 'function', function => { name => 'f', $parameters ? (parameters => $parameters) : (), %more } }], tool_choice => 'required') }
my $babble = join ', ', map { qq("name$_": $_) } 1 .. 9;
my $call = sub { return qq(<tool_call>\n{"name": "f", "arguments": {$_[0]}}\n</tool_call>) };
my $script = Script->new(model => "tool_format = hermes\n", answers => [$call->(qq("a": 1, $babble)), $call->($babble), $call->(''),
    '{"b": 2, "a": 1, "x": 3}', '{"a": 11111111111111111111111111111111111111111111', $call->('"a": 1'), '{"b": 2, "a": "no"}']);

# ---- tools ----------------------------------------------------------------------------
my %a = (type => 'object', properties => { a => { type => 'integer' } });
for my $case ([{%a}, 0, '{"a": 1}'], [{ %a, required => ['a'] }, 0, '{"a": 1}'], [{}, 1, '{}'], [undef, 1, '{}'], [{ type => 'object', properties => {} }, 1, '{}'],
    [{ type => 'object' }, 2, '{}'], [{ type => 'object', properties => { a => {%a} } }, 5, undef]) {
    my ($parameters, $k, $arguments) = @$case;
    for my $strict ($false, $true) {
        my $message = Script::message($script->chat($k, { @ask, tool($parameters, strict => $strict), parallel_tool_calls => $false }));
        my $made    = $message->{tool_calls}[0]{arguments} // '';
        my $value   = eval { decode_json($made) };
        my @other   = grep { $_ ne 'a' } keys %{ $value // { x => 1 } };
        ok !@other, 'no names that the parameters do not say' or diag explain $message;
        is $message->{finish_reason}, 'tool_calls', '  and an end';
    }
}
my $open = Script::message($script->chat(1, { @ask, tool({ %a, additionalProperties => { type => 'integer' } }), parallel_tool_calls => $false }));
is_deeply decode_json($open->{tool_calls}[0]{arguments}), decode_json("{$babble}"), 'names where the parameters allow them';

# ---- names that come late -------------------------------------------------------------
my $late = '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}';
my $text = Script::message($script->chat(3, { @ask, guided_json => $late }));
is_deeply [@$text{qw(content finish_reason)}], ['{"b": 2, "a": 1, "x": 3}', 'stop'], 'a name that was passed over comes late';
$text = Script::message($script->chat(6, { @ask, guided_json => $late }));
like $text->{content}, qr/\A\{"b": 2, "a": -?\d/, '  with its own value';

# ---- numbers --------------------------------------------------------------------------
for my $schema ('{"properties": {"a": {"type": "integer"}}, "required": ["a"]}', '{"properties": {"a": {"type": "number"}}, "required": ["a"]}',
    '{"properties": {"a": {"type": "number", "minimum": 1}}, "required": ["a"]}', '{"properties": {"a": {}}, "required": ["a"]}') {
    $text = Script::message($script->chat(4, { @ask, guided_json => $schema }));
    my ($digits) = $text->{content} =~ /\A\{"a": (1+)/;
    is length $digits, 20, 'digits have an end';
}
is $script->server->stop, 0, 'the server ends well';
done_testing;
