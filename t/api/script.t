#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The model that replays a script (Script.pm), in the real server: the text, its end, its stops and its usage
# are exactly the script's, whole, streamed and among other requests.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Script;
use Test::More;

my @answers = ("Gr\x{fc}\x{df}e, \x{4e16}\x{754c} \x{1f600}!\n\tEnd.", '<think>Hm.</think>Yes.', 'One. Two. Three.',
    ['{"', 'a', '":', ' 1}'], '', 'before<|im_end|>never said');
my $script = Script->new(special => ['<think>', '</think>'], words => ['{"', '":', ' 1}'], answers => \@answers,
    model => "reasoning_format = none\n");
my @said   = ($answers[0], 'Hm.Yes.', $answers[2], '{"a": 1}', '', 'before');
my @tokens = (length(Script::utf8($answers[0])), 9, 16, 4, 0, 6);
my @ask    = (messages => [{ role => 'user', content => 'Go on.' }]);

for my $k (0 .. $#answers) {
    my $message = Script::message($script->chat($k, {@ask}));
    is $message->{content}, $said[$k], "script $k: its text";
    is $message->{finish_reason}, 'stop', '  and its end';
    my $usage = $message->{usage};
    is_deeply [@$usage{qw(prompt_tokens completion_tokens)}], [$script->start($k), $tokens[$k] + 1], '  usage';
    my $whole = Script::whole($script->streamed($k, {@ask}));
    is_deeply [$whole->{content} // '', @$whole{qw(finish_reason usage)}], [@$message{qw(content finish_reason usage)}], '  streamed: the same';
    is $script->complete($k, { prompt => 'p', max_tokens => 200 })->{json}{choices}[0]{text}, $said[$k], '  a completion';
    my $response = $script->respond($k, { input => 'p' })->{json};
    is $response->{output}[-1]{content}[0]{text} // '', $said[$k], '  a response';
}
is Script::message($script->chat(1, { @ask, skip_special_tokens => JSON::PP::false }))->{content}, '<think>Hm.</think>Yes.', 'special tokens are tokens of their own';

# ---- stops and limits -----------------------------------------------------------------
my $stopped = Script::message($script->chat(2, { @ask, stop => ' Th' }));
is_deeply [@$stopped{qw(content finish_reason)}], ['One. Two.', 'stop'], 'a stop string';
is $stopped->{usage}{completion_tokens}, 12, '  the token that completes it is the last';
my $cut = Script::message($script->chat(2, { @ask, max_tokens => 7 }));
is_deeply [@$cut{qw(content finish_reason)}], ['One. Tw', 'length'], 'max_tokens';
my $more = Script::message($script->chat(2, { @ask, min_tokens => 18, max_tokens => 18 }));
is $more->{content}, 'One. Two. Three.', 'where the end is forbidden: the lowest id that is not, which is a special token';
is $more->{usage}{completion_tokens}, 18, '  and so long';
my $three = $script->chat(2, { @ask, n => 3 })->{json};
is_deeply [map { $_->{message}{content} } @{ $three->{choices} }], [($said[2]) x 3], 'several choices';

# ---- of others at once ----------------------------------------------------------------
my @order  = (map { ($_ * 5) % 6 } 0 .. 11);
my @bodies = map { ($script->body($_, { prompt => 'p', temperature => 0, max_tokens => 200 }, '/v1/completions'))[0] } @order;
is_deeply [map { $_->{choices}[0]{text} } $script->server->at_once(@bodies)], [@said[@order]], 'twelve requests at once, each its script';

my $refused = $script->chat(0, { @ask, temperature => -1 });
is_deeply [$refused->{status}, $refused->{json}{error}{param}], [400, 'temperature'], 'a request that is refused';
is $script->server->stop, 0, 'the server ends well';

# ---- gpt-oss' channels, and two end tokens --------------------------------------------
$script = Script->new(end => ['<|return|>', '<|call|>'], special => [qw(<|start|> <|channel|> <|message|> <|end|> <|constrain|>)],
    template => '{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}',
    model => "tool_format = harmony\n", answers => [
        '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.',
        '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"a": 1}<|call|>never said']);
my $message = Script::message($script->chat(0, {@ask}));
is_deeply [@$message{qw(content reasoning finish_reason)}], ['Yes.', 'Hm.', 'stop'], 'channels';
my @tools = (tools => [{ type => 'function', function => { name => 'now' } }]);
is_deeply Script::message($script->chat(1, { @ask, @tools }))->{tool_calls}, [{ name => 'now', arguments => '{"a": 1}' }], 'a call ends with the other end token';
is $script->server->stop, 0, 'the server ends well';

# ---- noise ----------------------------------------------------------------------------
$script = Script->new(answers => ['x' x 60], sharp => 4);
my %seen = map { Script::message($script->chat(0, { @ask, temperature => 1, seed => $_, max_tokens => 60 }))->{content} => 1 } 1, 2;
is keys %seen, 2, 'a small sharp is noise at a temperature';
is Script::message($script->chat(0, {@ask}))->{content}, 'x' x 60, '  and none at 0';
is $script->server->stop, 0, 'the server ends well';
done_testing;
