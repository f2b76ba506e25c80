#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Ollama's API: /api/chat and /api/generate whole and in lines, with options, thoughts, calls and formats; /api/embed;
# /api/tags, /api/show, /api/ps, /api/version.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use LlmServer;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $template = q({%- if tools %}{{ tools | tojson }}{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }} {{ m.name }}
{{ m.reasoning_content }}{% for c in m.tool_calls %}<tool_call>{{ c.function.arguments.city }}</tool_call>{% endfor %}{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
{% if enable_thinking %}<think>{% endif %});
my $script = Script->new(template => $template, special => ['<think>', '</think>'],
    model => "pooling = last\n",
    answers => ['Hello there.', "Hm.</think>Yes.", qq(I look.<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>), '{"a": "x"}']);
my $server = $script->server;
my @tools  = (tools => [{ type => 'function', function => { name => 'weather', description => 'd', parameters => { type => 'object', properties => { city => { type => 'string' } } } } }]);

# The messages that make the model give answer $k; what else the template shows is in %more.
sub messages { my ($k, %more) = @_; my ($body) = $script->body($k, { messages => [{ role => 'user', content => 'Hi' }], %more }); return $body->{messages} }
sub ask { my ($path, %body) = @_; $body{options} = { temperature => 0, %{ $body{options} // {} } }; return $server->post("/api/$path", \%body) }
sub lines_of { my ($answer) = @_; return map { decode_json($_) } split /\n/, $answer->{content} }
sub get { return decode_json($server->get($_[0])->{content}) }

# The lines of a stream put together, as a client does it.
sub together {
    my (@lines) = @_;
    my $last = pop @lines;
    my %whole = map { $_ => '' } qw(content thinking response);
    for my $line (@lines, $last) {
        my $part = $line->{message} // $line;
        $whole{$_} .= $part->{$_} // '' for qw(content thinking response);
        push @{ $whole{tool_calls} }, @{ $part->{tool_calls} // [] };
    }
    is_deeply [$last->{done}, scalar grep { $_->{done} } @lines], [$true, 0], 'the last line is the only one that is done';
    return shown(\%whole, $last);
}

# Returns the parts that whole and streamed answers have in common; ids of calls are random.
sub shown {
    my ($whole, $last) = @_;
    my $part = $whole->{message} // $whole;
    return [(map { $part->{$_} // '' } qw(content thinking response)), [map { $_->{function} } @{ $part->{tool_calls} // [] }],
        @$last{qw(done_reason eval_count prompt_eval_count model)}];
}

# ---- chats ----------------------------------------------------------------------------
my $whole = ask('chat', messages => messages(0), stream => $false)->{json};
is_deeply [@{ $whole->{message} }{qw(role content)}, @$whole{qw(done done_reason eval_count prompt_eval_count load_duration)}],
    ['assistant', 'Hello there.', $true, 'stop', 13, $script->start(0), 0], 'a whole answer';
like $whole->{created_at}, qr/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, 'with a time';
ok $whole->{total_duration} >= $whole->{prompt_eval_duration} && $whole->{prompt_eval_duration} > 0 && $whole->{eval_duration} > 0, 'and durations';

my $stream = ask('chat', messages => messages(0));
is $stream->{headers}{'content-type'}, 'application/x-ndjson', 'a stream without being asked';
for my $case (['text', 0], ['cut', 0, options => { num_predict => 5 }], ['stopped', 0, options => { stop => ['there'] }], ['endless', 0, options => { num_predict => -2 }],
    ['thoughts', 1, think => $true], ['thoughts unseen', 1, think => $false], ['calls', 2, @tools], ['a cut call', 2, @tools, options => { num_predict => 58 }],
    ['JSON', 3, format => 'json'], ['a form', 3, format => { type => 'object', properties => { a => { type => 'string' } }, required => ['a'] }]) {
    my ($name, $k, %more) = @$case;
    my @shown = ((map { $_ => $more{$_} } grep { exists $more{$_} } 'tools'), $k == 1 ? (enable_thinking => $more{think}) : ());
    my @messages = (messages => messages($k, @shown));
    my $answer = ask('chat', @messages, %more, stream => $false)->{json};
    is_deeply together(lines_of(ask('chat', @messages, %more))), shown($answer, $answer), "$name: what was streamed is the whole";
    is $answer->{message}{content}, { 'text' => 'Hello there.', cut => 'Hello', stopped => 'Hello ', endless => 'Hello there.', thoughts => 'Yes.',
        'thoughts unseen' => 'Hm.</think>Yes.', calls => 'I look.', 'a cut call' => 'I look.', JSON => '{"a": "x"}', 'a form' => '{"a": "x"}' }->{$name}, "$name: the content"
        if $name ne 'thoughts unseen';
    is_deeply [$answer->{done_reason}], [$name =~ /cut/ ? 'length' : 'stop'], "$name: the end";
    is $answer->{message}{thinking}, $name eq 'thoughts' ? 'Hm.' : undef, "$name: thinking";
    is_deeply [map { $_->{function}{arguments} } @{ $answer->{message}{tool_calls} // [] }], [$name eq 'calls' ? { city => 'Rome' } : ()], "$name: calls";
}
my @turn = ({ role => 'user', content => 'a' }, { role => 'assistant', content => '', thinking => 'b', tool_calls => [{ function => { name => 'weather', arguments => { city => 'Rome' } } }] },
    { role => 'tool', tool_name => 'weather', content => 'c' });
my $count = length "<|im_start|>user \na<|im_end|>\n<|im_start|>assistant \nb<tool_call>Rome</tool_call><|im_end|>\n<|im_start|>tool weather\nc<|im_end|>\n<|im_start|>assistant\n";
$count -= 4 * 11 + 3 * 9;    # marks are one token each
is ask('chat', messages => \@turn, stream => $false, options => { num_predict => 1 })->{json}{prompt_eval_count}, $count, 'thoughts, calls and results reach the template';
my $scored = ask('chat', messages => messages(0), stream => $false, logprobs => $true, top_logprobs => 2)->{json}{logprobs};
is_deeply [$scored->[0]{token}, scalar @{ $scored->[0]{top_logprobs} }], ['H', 2], 'logprobs';

# ---- prompts --------------------------------------------------------------------------
my $text = messages(0)->[0]{content};
my $said = ask('generate', prompt => $text, stream => $false)->{json};
is_deeply [@$said{qw(response done done_reason)}], ['Hello there.', $true, 'stop'], 'generate';
is_deeply together(lines_of(ask('generate', prompt => $text))), shown($said, $said), 'its lines';
my @raw = (prompt => 'x' x $script->start(0), raw => $true);
$said = ask('generate', @raw, stream => $false)->{json};
is_deeply [@$said{qw(response prompt_eval_count)}], ['Hello there.', $script->start(0)], 'a raw prompt';
is_deeply together(lines_of(ask('generate', @raw))), shown($said, $said), 'its lines';
is ask('generate', prompt => 'x', system => 'yy', stream => $false, options => { num_predict => 1 })->{json}{prompt_eval_count}
    - ask('generate', prompt => 'x', stream => $false, options => { num_predict => 1 })->{json}{prompt_eval_count}, 1 + length("system \nyy") + 1 + 1, 'a system prompt';
is_deeply [map { ask(@$_, stream => $false)->{json}{done_reason} } ['generate'], ['chat', messages => []], ['generate', keep_alive => 0]], [qw(load load unload)],
    'a request without a prompt loads the model';

# ---- refused, ignored -----------------------------------------------------------------
for my $case ([generate => template => 'x'], [generate => suffix => 'x'], [generate => context => [1]], [generate => images => ['AAAA']], [generate => system => 'x', raw => $true],
    [generate => think => 3], [generate => format => 'yaml'], [generate => options => [1]], [generate => options => { tfs_z => 0.5 }], [generate => options => { num_predict => -7 }]) {
    my ($path, $name, $value, @more) = @$case;
    my $refused = $server->post("/api/$path", { prompt => 'x', $name => $value, @more });
    my $word = ref $value eq 'HASH' ? (exists $value->{tfs_z} ? 'tfs_z' : 'max_tokens') : $name;
    is $refused->{status}, 400, "$name is refused";
    like $refused->{json}{error}, qr/\A'$word'/, '  by name, in a text';
}
like ask('chat', messages => [{ role => 'user', content => 'x', images => ['AAAA'] }])->{json}{error}, qr/\A'images'/, 'images in a message, too';
is join(' ', sort split /, /, ask('generate', prompt => 'x', stream => $false, keep_alive => '5m', options => { num_ctx => 10, num_gpu => 64, num_predict => 1 })->{headers}{'x-llmserve-ignored'}),
    'keep_alive options.num_ctx options.num_gpu', 'what has no effect is listed';

is ask('chat', messages => messages(0), stream => $false, n => 2)->{headers}{'x-llmserve-ignored'}, 'n', 'as are parameters of other dialects';
is ask('generate', prompt => ['x', 'y'], raw => $true)->{status}, 400, 'a raw prompt is one text';

# ---- vectors --------------------------------------------------------------------------
my $vectors = $server->post('/api/embed', { model => 'm:latest', input => ['a', 'b'] })->{json};
my $ours = $server->post('/v1/embeddings', { input => ['a', 'b'] })->{json};
is_deeply $vectors->{embeddings}, [map { $_->{embedding} } @{ $ours->{data} }], 'embed';
is $vectors->{prompt_eval_count}, 2, 'counts tokens';
is_deeply $server->post('/api/embeddings', { prompt => 'a' })->{json}, { embedding => $ours->{data}[0]{embedding} }, 'embeddings';
is $server->post('/api/embed', { input => 'x' x 9000 })->{status}, 200, 'a long text is cut';
like $server->post('/api/embed', { input => 'x' x 9000, truncate => $false })->{json}{error}, qr/maximum context/, 'but not where it must not be';

# ---- the model ------------------------------------------------------------------------
my $name = get('/v1/models')->{data}[0]{id};
is_deeply [map { get("/api/$_")->{models}[0]{name} } qw(tags ps)], [$name, $name], 'tags, ps';
my $info = $server->post('/api/show', { model => "$name:latest" })->{json};
is_deeply [@$info{qw(template capabilities)}, $info->{model_info}{ $info->{model_info}{'general.architecture'} . '.context_length' }],
    [$template, [qw(completion embedding tools thinking)], get('/v1/models')->{data}[0]{max_model_len}], 'show';
like $server->post('/api/show', {})->{json}{error}, qr/'model' is missing/, 'show needs a name';
is_deeply get('/api/version'), get('/version'), 'version';
is $server->stop, 0, 'the server ends well';
done_testing;
