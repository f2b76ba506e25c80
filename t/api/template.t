#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Chat templates of a model folder and of [model] chat_template: which one is used, and the
# handling of an unusable one.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Golden;
use Test::More;

my $chat = [{ role => 'user', content => 'Once' }];

# A folder with the files of a trained model, and a template.
sub model_with {
    my ($template) = @_;
    my $folder = File::Temp->newdir;
    symlink $_, "$folder/" . s{.*/}{}r for glob "$Golden::MODEL/*";
    unlink "$folder/chat_template.jinja";
    LlmServer::write_file("$folder/chat_template.jinja", $template);
    return $folder;
}

sub config { my ($folder, $more) = @_; return "[model]\npath = $folder\n" . ($more // '') . "[engine]\nthreads = 1\npin = false\n" }

# The prompt that a template makes of the messages.
sub rendered {
    my ($server, $messages, %more) = @_;
    my $tokens = $server->post('/tokenize', { messages => $messages, %more })->{json}{tokens};
    return $server->post('/detokenize', { tokens => $tokens })->{json}{prompt};
}

sub checked {
    my ($ini) = @_;
    my $folder = File::Temp->newdir;
    LlmServer::write_file("$folder/llmserve.ini", $ini);
    my $said = join '', map { LlmServer::read_file($_) }
        map { system(LlmServer::built('llmserve') . " -c $folder/llmserve.ini --check-config >$folder/out 2>$folder/err"); ("$folder/out", "$folder/err") } 1;
    return ($? >> 8, $said);
}

# ---- one that cannot be parsed --------------------------------------------------------
{
    my $folder = model_with("a\n{% nope %}");
    my $server = LlmServer->serve(config($folder));
    is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 2 })->{status}, 200, 'completions need no template';
    my $answer = $server->post('/v1/chat/completions', { messages => $chat, max_tokens => 2 });
    is $answer->{status}, 501, 'a chat is refused';
    like $answer->{json}{error}{message}, qr{chat_template\.jinja: chat template: line 2, column 4: the statement "nope"},
        'with the file, the place and the construct';
    is $answer->{json}{error}{code}, 'chat_template_not_supported', 'and a code';
    is $answer->{headers}{'x-should-retry'}, 'false', 'clients need not try again';
    like $server->log, qr/the statement "nope" is not supported here: chat requests will be refused/, 'the log says so at the start';
    my ($status, $said) = checked(config($folder));
    is $status, 0, '--check-config takes it';
    like $said, qr/^warning: .*line 2, column 4: the statement "nope".*will be refused$/m, 'and warns';
}

# ---- one with something unknown in a branch -------------------------------------------
{
    my $folder = model_with("{% if messages | length > 1 %}{{ 'x' | nofilter }}{% endif %}{{ messages[0].content }}");
    my $server = LlmServer->serve(config($folder));
    is $server->post('/v1/chat/completions', { messages => $chat, max_tokens => 2 })->{status}, 200, 'what does not reach it works';
    my $answer = $server->post('/v1/chat/completions', { messages => [@$chat, @$chat], max_tokens => 2 });
    is $answer->{status}, 501, 'what does is refused';
    like $answer->{json}{error}{message}, qr/line 1, column \d+: the filter "nofilter" is not supported/, 'with the construct';
    like $server->log, qr/the filter "nofilter" is not supported: chat requests that reach this/, 'the log says so at the start';
    my ($status, $said) = checked(config($folder));
    like $said, qr/^warning: .*"nofilter".*that reach this will be refused$/m, 'as does --check-config';
}

# ---- [model] chat_template ------------------------------------------------------------
{
    my $folder = model_with('{% nope %}');
    LlmServer::write_file("$folder/mine.jinja", <<'JINJA');
{%- macro call(c) -%}{{ c.function.name }}({{ c.function.arguments | dictsort | map('join', '=') | join(', ') }}){%- endmacro -%}
{%- for m in messages -%}
{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}{{ call(c) }}{{ c.function.arguments }}{% endfor %};
{%- endfor -%}
JINJA
    my $ini = config($folder, "chat_template = $folder/mine.jinja\n");
    my $server = LlmServer->serve($ini);
    is rendered($server, $chat), 'user: Once;', 'the file is used in place of the model\'s';
    my @messages = (@$chat, { role => 'assistant', content => undef, tool_calls => [
        { id => 'call1', type => 'function', function => { name => 'look', arguments => '{"b": 1.5, "a": "it\'s"}' } }] },
        { role => 'tool', tool_call_id => 'call1', content => 'found' });
    is rendered($server, \@messages), 'user: Once;assistant: look(a=it\'s, b=1.5){\'b\': 1.5, \'a\': "it\'s"};tool: found;',
        'calls of tools and what came of them';
    my ($status, $said) = checked($ini);
    unlike $said, qr/warning/, 'nothing to warn of';
    LlmServer::write_file("$folder/mine.jinja", <<'JINJA');
{%- for m in messages -%}
<{{ reasoning_effort }}>{% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|start|>{% endif %}{{ m.content }}
{%- for c in m.tool_calls or [] %}{{ '[' + c.function.arguments + ']' }}{% endfor %};
{%- endfor -%}
JINJA
    $server = LlmServer->serve($ini);
    $messages[1]{reasoning} = 'Hm.';
    is rendered($server, \@messages, reasoning_effort => 'low'),
        '<low>Once;<low><|channel|>analysis<|message|>Hm.<|end|><|start|>[{"b": 1.5, "a": "it\'s"}];<low>found;',
        'a template that joins arguments to text gets text; one of gpt-oss its "thinking"; reasoning_effort is a variable';
    ($status, $said) = checked(config($folder, "tool_format = hermse\n"));
    is $status, 2, 'a format that is none is an error';
    like $said, qr/\[model\] tool_format.*"hermse": auto, or one of harmony.*hermes/, 'that lists those that there are';
    ($status, $said) = checked(config($folder, "chat_template = $folder/none.jinja\n"));
    is $status, 2, 'a file that is not there is an error';
    like $said, qr{\[model\] chat_template.*/none\.jinja: cannot open}, 'that names the key and the file';
}

done_testing;
