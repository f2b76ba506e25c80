#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Tools with chat templates that do not support them: a message describes the tools, calls in the answer are
# recognised, and a conversation with calls and results is shown to the model.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my @user  = ({ role => 'user', content => 'Go on.' });
my @ask   = (max_tokens => 200);
my @tools = (tools => [map { { type => 'function', function => { name => $_, description => "Tells the $_", parameters => { type => 'object',
    properties => { place => { type => 'string' } }, required => ['place'] } } } } qw(weather news)]);
my @calls = ({ role => 'user', content => 'How is it?' },
    { role => 'assistant', content => 'Let me look.', tool_calls => [map { { id => "call_$_", type => 'function', function => { name => $_, arguments => '{"place": "here"}' } } } qw(weather news)] },
    { role => 'tool', tool_call_id => 'call_weather', content => 'Rain' }, { role => 'tool', tool_call_id => 'call_news', content => 'None' }, { role => 'user', content => 'So?' });
my $answer = qq(<tool_call>\n{"name": "news", "arguments": {"place": "here"}}\n</tool_call>);
my $call   = { tool_calls => [{ name => 'news', arguments => '{"place": "here"}' }], finish_reason => 'tool_calls' };

# The prompt that messages become.
sub prompt {
    my ($script, %body) = @_;
    my $tokens = $script->server->post('/tokenize', \%body)->{json}{tokens} or return;
    return $script->server->post('/detokenize', { tokens => $tokens })->{json}{prompt};
}

sub said {
    my ($script, $k, %body) = @_;
    my $message  = Script::message($script->chat($k, {@ask, %body}));
    my $streamed = Script::whole($script->streamed($k, {@ask, %body}));
    for ($message, $streamed) {
        delete $_->{usage};
        delete $_->{content} if ($_->{content} // '') eq '';
    }
    is_deeply $streamed, $message, '  streamed: the same';
    return $message;
}

# ---- ChatML ---------------------------------------------------------------------------
my $script = Script->new(first => 1100, answers => [$answer, 'It is fine.', $answer =~ s/news/other/r]);
is_deeply said($script, 0, messages => \@user, @tools, %$_), $call, 'a call' for {}, { tool_choice => 'required' }, { tool_choice => { type => 'function', function => { name => 'news' } } };
is_deeply said($script, 1, messages => \@user, @tools), { content => 'It is fine.', finish_reason => 'stop' }, 'no call';
my $prompt = prompt($script, messages => \@user, @tools);
like $prompt, qr/\A<\|im_start\|>system\n.*"name":\s*"weather".*Tells the news.*<tool_call>.*<\|im_end\|>\n<\|im_start\|>user\nGo on\./s, 'a system message describes the tools and a call';
like prompt($script, messages => [{ role => 'system', content => 'Be brief.' }, @user], @tools), qr/system\nBe brief\.\n\n.*Tells the news/s, '  after what the system says';
is prompt($script, messages => \@user), "<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n", 'without tools nothing is added';
$prompt = prompt($script, messages => \@calls, @tools);
like $prompt, qr{assistant\nLet me look\.\n<tool_call>\n\{"name": "weather", "arguments": \{"place": "here"\}\}\n</tool_call>\n<tool_call>\n\{"name": "news".*</tool_call><\|im_end\|>}s, 'calls that were made are shown';
like $prompt, qr{user\n<tool_response>\nRain\n</tool_response>\n<tool_response>\nNone\n</tool_response>\nSo\?<\|im_end\|>}, '  and their results';
unlike prompt($script, messages => \@user, @tools, chat_template_kwargs => {}), qr/<\|im_start\|>tool/, '  ';
my $none = $script->server->post('/v1/chat/completions', { messages => \@user, @tools, tool_choice => 'none', max_tokens => 1 })->{json};
my $bare = $script->server->post('/v1/chat/completions', { messages => \@user, max_tokens => 1 })->{json};
is $none->{usage}{prompt_tokens}, $bare->{usage}{prompt_tokens}, 'tool_choice none: no description';
my @flat = (tools => [map { { type => 'function', %{ $_->{function} } } } @{ $tools[1] }]);
is $script->respond(0, { input => 'x', @flat })->{json}{output}[0]{name}, 'news', 'a response';
like $script->server->log, qr/no part for tools.*hermes/, 'the log says so';
is $script->server->stop, 0, 'the server ends well';

# ---- a template without a system's message, which wants turns --------------------------
my $turns = q({% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}<t>{{ m.role }}: {{ m.content | trim }}
{% endfor %});
$script = Script->new(template => $turns, first => 1100, answers => [$answer]);
is_deeply said($script, 0, messages => \@user, @tools), $call, 'no system, turns: a call';
like prompt($script, messages => \@user, @tools), qr/\A<t>user: You can call.*Go on\.\n\z/s, '  the description is before what the user says';
like prompt($script, messages => \@calls, @tools), qr/\A<t>user: You can call.*<t>assistant: Let me look.*<t>user: <tool_response>.*So\?\n\z/s, '  calls and results are turns';
is $script->server->stop, 0, 'the server ends well';

# ---- another format, and templates that show tools --------------------------------------
$script = Script->new(first => 1100, model => "tool_format = llama3_json\n", answers => ['{"name": "news", "parameters": {"place": "here"}}']);
is_deeply said($script, 0, messages => \@user, @tools), $call, 'the format that [model] tool_format names';
like prompt($script, messages => \@user, @tools), qr/\{"name": "NAME", "parameters": \{"ARGUMENT": VALUE\}\}/, '  is the one that is described';
is $script->server->stop, 0, 'the server ends well';
$script = Script->new(template => '{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}', answers => ['x']);
like prompt($script, messages => \@user, @tools), qr/\A\[\{.*\}\]Go on\.\z/s, 'a template that shows tools does so alone';
unlike $script->server->log, qr/no part for tools/, '  and the log says nothing';
is $script->server->stop, 0, 'the server ends well';
done_testing;
