#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Tools in a chat: calls in the model's text become tool_calls, whole and streamed, and its
# reasoning before them becomes reasoning_content. The fake loop's answer repeats its prompt,
# which with the variable "only" is the content of the last message, after a space of the
# tokeniser.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
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
is_deeply [@$choice{qw(finish_reason message)}], ['stop', { role => 'assistant', content => ' Just text.', refusal => undef, reasoning => undef }], 'no call';

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

# ---- required calls, by a model that knows of none ------------------------------------
my $demo  = LlmServer::source('share/demo-model');
my @asked = (messages => [{ role => 'user', content => 'Which animals do you know?' }], max_tokens => 400, temperature => 1, seed => 7); # by chance one in a hundred makes calls until it is cut off
my @strict = (tools => [
        { type => 'function', function => { name => 'find', strict => $true, parameters => { type => 'object',
            properties => { kind => { enum => ['cat', 'dog'] }, many => { type => 'boolean' } }, required => ['kind', 'many'], additionalProperties => $false } } },
        { type => 'function', function => { name => 'count', parameters => { type => 'object',
            properties => { upto => { enum => [1, 2, 3] } }, required => ['upto'], additionalProperties => $false } } }]);
my %good = (
    find  => sub { keys %{ $_[0] } == 2 && $_[0]{kind} =~ /\A(?:cat|dog)\z/ && JSON::PP::is_bool($_[0]{many}) },
    count => sub { keys %{ $_[0] } == 1 && $_[0]{upto} =~ /\A[123]\z/ });

# True if these are calls as their schemas want them, of those names.
sub good_calls {
    my ($calls, $names) = @_;
    my @bad = grep { $_->{function}{name} !~ /\A(?:$names)\z/ || !$good{ $_->{function}{name} }->(decode_json($_->{function}{arguments})) } @$calls;
    diag explain \@bad if @bad;
    return @$calls && !@bad;
}
my %calls; # of how many calls before the one that was cut off, how many answers
for my $format (qw(auto hermes llama3_json mistral_v11 functionary_v3.2 deepseek_v3.1 qwen3_coder)) {
    $server = LlmServer->serve("[model]\npath = $demo\ntool_format = $format\n[engine]\nthreads = 1\npin = false\n");
    my $ask = sub { return $server->post('/v1/chat/completions', { @asked, @strict, @_ }) };
    my $answer = $ask->(tool_choice => 'required', n => 4, parallel_tool_calls => $false)->{json};
    is_deeply [map { [$_->{finish_reason}, $_->{message}{content}, scalar @{ $_->{message}{tool_calls} // [] }] } @{ $answer->{choices} }],
        [(['tool_calls', undef, 1]) x 4], "$format: required: a call and nothing else" or diag explain $answer;
    ok good_calls([map { @{ $_->{message}{tool_calls} } } @{ $answer->{choices} }], 'find|count'), '  as the schemas want it';
    $answer = $ask->(tool_choice => { type => 'function', function => { name => 'count' } })->{json}{choices}[0];
    ok good_calls($answer->{message}{tool_calls}, 'count'), '  named: that one';
    my ($streamed, $reason) = assembled(LlmServer::events($ask->(tool_choice => { type => 'function', function => { name => 'find' } }, stream => $true)));
    is $reason, 'tool_calls', '  streamed';
    ok good_calls($streamed->{tool_calls}, 'find'), '  the same';
    # No end before the last token: a call is cut off, often the second one.
    for my $n (map { 10 * $_ } 2 .. 9) {
        my @cut = (tool_choice => 'required', max_tokens => $n, min_tokens => $n);
        my $whole = $ask->(@cut)->{json}{choices}[0];
        ($streamed, $reason) = assembled(LlmServer::events($ask->(@cut, stream => $true)));
        my @made = @{ $whole->{message}{tool_calls} // [] };
        my $last = @made ? pop @made : undef;
        $calls{ @made . '' }++;
        ok $whole->{finish_reason} eq 'length' && !length($whole->{message}{content} // '') && (!@made || good_calls(\@made, 'find|count')), "  cut off after $n tokens: no text, and whole calls before the last"
            or diag explain $whole;
        is_deeply [$reason, $streamed->{content} // '', map { $_->{function} } @{ $streamed->{tool_calls} // [] }], ['length', '', map { $_->{function} } @made, $last // ()], '    streamed: the same';
    }
    is $server->stop, 0, '  the server ends well';
}
ok $calls{1}, 'some of these were in the second call' or diag explain \%calls;
$server = LlmServer->serve("[model]\npath = $demo\ntool_format = hermes\n[engine]\nthreads = 1\npin = false\n");
my %both = (@asked, @strict, tool_choice => 'required', parallel_tool_calls => $false, response_format => { type => 'json_object' });
ok good_calls($server->post('/v1/chat/completions', \%both)->{json}{choices}[0]{message}{tool_calls}, 'find|count'), 'required calls beside a response_format';
# A call that the model may make is held to its schema from its mark on; without one it is any text.
my $free = $server->post('/v1/chat/completions', { @asked, @strict, max_tokens => 20 })->{json}{choices}[0];
ok length $free->{message}{content} && !$free->{message}{tool_calls}, 'strict functions under auto: a text' or diag explain $free;
my $unkept = [{ type => 'function', function => { name => 'f', strict => $true, parameters => { type => 'object', propertyNames => { not => { const => 'a' } } } } }];
is_deeply [@{ $server->post('/v1/chat/completions', { @asked, tools => $unkept })->{json}{error} }{qw(code param)}], ['invalid_grammar', 'tools'],
    '  one that is not kept is refused';
is $server->stop, 0, 'the server ends well';
my $template = File::Temp->new;
print {$template} '{{ messages[0].content }}<think>';
$template->flush;
$server = LlmServer->serve("[model]\npath = $demo\nchat_template = $template\ntool_format = hermes\nreasoning_format = think\n[engine]\nthreads = 1\npin = false\n");
my $format = { type => 'json_schema', json_schema => { name => 'x', strict => $true, schema => { enum => ['yes', 'no'] } } };
$message = $server->post('/v1/chat/completions', { @asked, max_tokens => 9, response_format => $format })->{json}{choices}[0]{message};
ok $message->{content} eq '' && length $message->{reasoning}, 'a response_format leaves a thought that the prompt has opened free';
my $hard = [{ type => 'function', function => { name => 'f', strict => $true, parameters => { type => 'object', properties => { a => { uniqueItems => $true } } } } }];
like $server->post('/v1/chat/completions', { @asked, tools => $hard, tool_choice => 'required' })->{json}{error}{message}, qr/'uniqueItems'/,
    'a strict function with a keyword that is not kept is refused by its name';
is $server->stop, 0, 'the server ends well';
done_testing;
