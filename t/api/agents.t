#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /v1/responses as agents use it: custom tools, allowed tools, log probabilities of the message. With a model
# whose answers the test chooses.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Script;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $chatml = q({%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{%- if tools %}{{ tools }} <tool_call> </tool_call>{% endif %}<|im_start|>assistant
);
sub call { my ($name, $arguments) = @_; return qq(<tool_call>\n{"name": "$name", "arguments": $arguments}\n</tool_call>) }
my $script = Script->new(template => "{# </think> #}$chatml", special => ['<think>', '</think>', '<tool_call>', '</tool_call>'], model => "tool_format = hermes\n",
    first => 1200, answers => ['Yes.', "<think>Hm.</think>\n\nYes, " . call('news', '{"place": "here"}'), call('patch', '{"input": "abab"}'), call('patch', '{"input": "xyz"}'),
        ["<think>Hm.", '<', '/think>', "\n\nYes."]]);    # the second mark is text to the tokeniser
my $news  = { type => 'function', name => 'news', parameters => { type => 'object', properties => { place => { type => 'string' } }, required => ['place'] } };
my $rain  = { %$news, name => 'rain' };
my $patch = { type => 'custom', name => 'patch', format => { type => 'grammar', syntax => 'regex', definition => '(ab)+' } };
my @ask   = (input => 'Go on.', max_output_tokens => 200);

# The whole answer and the events of its stream; the last event has the same output, but for its ids.
sub said {
    my ($k, %body) = @_;
    my $whole  = $script->respond($k, {@ask, %body})->{json};
    my @events = map { /^data: (.*)/m ? decode_json($1) : () } split /\n\n/, $script->respond($k, { @ask, %body, stream => $true })->{content};
    my $last   = $events[-1]{response}{output};
    for my $item (@{ $whole->{output} // [] }, @{ $last // [] }) { delete @$item{qw(id call_id)} }
    is_deeply $last, $whole->{output}, '  streamed: the same';
    return ($whole->{output}, @events);
}

# ---- log probabilities -----------------------------------------------------------------
my @probable = (include => ['message.output_text.logprobs'], top_logprobs => 2);
my ($output, @events) = said(0, @probable);
my @tokens = @{ $output->[0]{content}[0]{logprobs} };
is join('', map { $_->{token} } @tokens), 'Yes.', 'a message has the log probabilities of its tokens';
is scalar(grep { @{ $_->{top_logprobs} } == 2 && $_->{logprob} <= 0 && $_->{top_logprobs}[0]{token} eq $_->{token} } @tokens), 4, '  with alternatives';
is join('', map { my $e = $_; map { $_->{token} } @{ $e->{logprobs} } } grep { $_->{type} eq 'response.output_text.delta' } @events), 'Yes.', '  streamed with their text';
is_deeply [map { $_->{logprobs} } grep { $_->{type} eq 'response.output_text.done' } @events], [\@tokens], '  and together at its end';
($output) = said(1, @probable, tools => [$news]);
is_deeply [map { $_->{type} } @$output], [qw(reasoning message function_call)], 'an answer of several items';
is join('', map { $_->{token} } @{ $output->[1]{content}[0]{logprobs} }), $output->[1]{content}[0]{text}, '  none but the message has them';
($output, @events) = said(4, @probable);
is join('', map { $_->{token} } @{ $output->[1]{content}[0]{logprobs} }), 'Yes.', '  nor has the mark before it';
is_deeply [map { [$_->{delta}, join '', map { $_->{token} } @{ $_->{logprobs} }] } grep { $_->{type} eq 'response.output_text.delta' } @events], [map { [$_, $_] } split //, 'Yes.'],
    '  and each delta has its own';
($output) = said(0);
is_deeply $output->[0]{content}[0]{logprobs}, [], 'none without include';

# ---- tools -----------------------------------------------------------------------------
($output) = said(2, tools => [$patch]);
is_deeply $output, [{ type => 'custom_tool_call', status => 'completed', name => 'patch', input => 'abab' }], 'a custom tool with a regular expression';
($output) = said(3, tools => [$patch]);
like $output->[0]{input}, qr/\A(?:ab)+\z/, '  holds the call to it';
($output) = said(2, tools => [$patch], max_output_tokens => 47);
is_deeply [@{ $output->[0] }{qw(status input)}], ['incomplete', 'aba'], '  one that is cut has its text so far';
for my $allowed ($news, $rain, $patch) {
    my $choice = { type => 'allowed_tools', mode => 'required', tools => [{ type => $allowed->{type}, name => $allowed->{name} }] };
    ($output) = said(1, tools => [$news, $rain, $patch], tool_choice => $choice);
    is_deeply [map { $_->{name} } grep { $_->{type} =~ /call/ } @$output], [$allowed->{name}], "allowed_tools, required: $allowed->{name}";
}
is $script->server->stop, 0, 'the server ends well';
done_testing;
