#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Constraints are intersected, and the draw is from the remaining tokens: min_tokens, allowed_token_ids,
# bad_words, logit_bias of -100, stop tokens and grammars, with a model that replays a script.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use LlmServer;
use Script;
use Test::More;

my $script = Script->new(words => ['yes'], answers => ['yes', 'no', 'abababab', '{"a": 1}', 'xyz']);
my ($yes, $no, $ab, $object, $xyz) = 0 .. 4;
my ($end) = @{ $script->{id} }{'<|im_end|>'};

# The token of a letter, or of a word.
sub id { my ($text) = @_; return $script->{word}{$text} // $script->{byte}[ord $text] }
sub ids_of { return [map { id($_) } split //, $_[0]] }

sub said {
    my ($k, $body, $stream) = @_;
    my $answer = $script->complete($k, { prompt => 'Say it: ', max_tokens => 12, %$body });
    return "$answer->{status}: " . ($answer->{json}{error}{message} // $answer->{content}) if !$answer->{success};
    my $choice = $answer->{json}{choices}[0];
    return "$choice->{finish_reason}: $choice->{text}";
}

my %choice = (guided_choice => ['yes', 'no']);
is said($yes, {%choice}), 'stop: yes', 'a choice';

# ---- beside a grammar ---------------------------------------------------------------------
for my $case (
    [$yes,    {%choice},                                                'a choice',             'stop: yes'],
    [$ab,     { guided_regex => '(ab){1,3}' },                          'a regex',              'stop: ababab'],
    [$ab,     { guided_grammar => 'root ::= "ab" | "abab"' },           'a grammar',            'stop: abab'],
    [$object, { response_format => { type => 'json_schema', json_schema => { name => 'a', schema => { type => 'object',
                properties => { a => { type => 'integer', maximum => 9 } }, required => ['a'], additionalProperties => JSON::PP::false } } } },
                                                                        'a schema',             'stop: {"a": 1}'],
) {
    my ($k, $form, $name, $said) = @$case;
    is said($k, { %$form, min_tokens => 12 }), $said, "$name ends where it is whole, whatever min_tokens says";
    is said($k, { %$form, min_tokens => 12, stop_token_ids => ids_of('yesnoab') }), $said,
      '  though its letters are stop tokens, too';
    is said($k, { %$form, min_tokens => 12, ignore_eos => JSON::PP::true }), $said, '  and with ignore_eos';
}
is said($yes, { %choice, allowed_token_ids => ids_of('yesn') }), 'stop: yes', 'allowed_token_ids beside a choice: the texts of both';
is said($no, { %choice, allowed_token_ids => ids_of('yesn') }), 'length: n', '  and where the answer went the other way it ends';
is said($yes, { %choice, allowed_token_ids => ids_of('no') }), 'stop: no', '  the other choice, where only that is left';
is said($yes, { %choice, allowed_token_ids => [id('yes')] }), 'stop: yes', '  as one token';
like said($yes, { %choice, allowed_token_ids => ids_of('y') }), qr/^400: no text that 'guided_choice' asks for consists of the tokens/, '  and where none is left a 400';
like said($yes, { %choice, allowed_token_ids => ids_of('x') }), qr/^400: no text/, '  from the first token';
like said($yes, { guided_regex => '[0-9]{4}', allowed_token_ids => ids_of('ab') }), qr/^400: no text that 'guided_regex'/, '  of a regex';
is said($yes, { %choice, bad_words => ['y', 'yes'] }), 'stop: no', 'bad_words beside a choice';
is said($yes, { %choice, bad_words => ['ye'], logit_bias => { id('yes') => -100 } }), 'length: y', '  of several tokens: the answer ends before the last one';
like said($yes, { %choice, bad_words => ['y', 'n'], logit_bias => { id('yes') => -100 } }), qr/^400: no text/, '  of each beginning: a 400';
is said($yes, { %choice, logit_bias => { id('y') => -100, id('yes') => -100 } }), 'stop: no', 'a bias of -100 bans its token';
like said($yes, { %choice, logit_bias => { id('y') => -100, id('yes') => -100, id('o') => -100 } }), qr/^400: no text/, '  and where nothing is left a 400';
is said($yes, { %choice, logit_bias => [['y', JSON::PP::false], ['yes', -100], ['o', 0]] }), 'stop: no', '  false as well';

# ---- without one --------------------------------------------------------------------------
is said($xyz, { allowed_token_ids => ids_of('xy') }), 'length: xyxxxxxxxxxx', 'only what is allowed is drawn';
is said($xyz, { allowed_token_ids => ids_of('x'), bad_words => ['xxx'] }), 'stop: xx', 'where bad_words leave nothing the answer ends';
is said($xyz, { allowed_token_ids => [id('x'), $end], bad_words => ['xx'], min_tokens => 5 }), 'stop: x', '  where min_tokens forbids the end, too';
like said($xyz, { allowed_token_ids => ids_of('x'), bad_words => ['x'] }), qr/^400: allowed_token_ids, bad_words and logit_bias/, 'nothing from the start: a 400';
like said($xyz, { allowed_token_ids => ids_of('x'), logit_bias => { id('x') => -100 } }), qr/^400: allowed_token_ids, bad_words/, '  by a bias';
like said($xyz, { allowed_token_ids => [$end], min_tokens => 1 }), qr/^400: .* min_tokens forbids/, '  by min_tokens';
like said($xyz, { allowed_token_ids => ids_of('x'), stop_token_ids => ids_of('x'), min_tokens => 1 }), qr/^400: .* min_tokens forbids/, '  and stop tokens';
is said($xyz, { allowed_token_ids => [$end] }), 'stop: ', 'an end alone is an answer';
is said($xyz, { logit_bias => { $end => -100 }, max_tokens => 5, skip_special_tokens => JSON::PP::false }), 'length: xyz' . '<|im_start|>' x 2, 'a banned end does not come';

# ---- what may follow a backslash ------------------------------------------------------------
my $letters = Script->new(answers => ['{"a": "caf\\u00e9 \\ud83d\\ude00"}']);
for my $string ({ pattern => '^.*$' }, { pattern => '^[^<>]*$' }, { not => { const => 'tea' } }, { not => { pattern => '^x' } },
    { allOf => [{ pattern => 'c' }, { pattern => '^[^x]*$' }] }, { minLength => 2, maxLength => 40 }, {}) {
    my $schema = { type => 'object', properties => { a => { type => 'string', %$string } }, required => ['a'] };
    my $answer = $letters->complete(0, { prompt => 'Say it: ', max_tokens => 60, response_format => { type => 'json_schema',
        json_schema => { name => 'a', strict => JSON::PP::true, schema => { %$schema, additionalProperties => JSON::PP::false } } } });
    is $answer->{json}{choices}[0]{text}, '{"a": "caf\u00e9 \ud83d\ude00"}', 'letters by their digits beside ' . JSON::PP->new->canonical->encode($string);
}
is $letters->server->stop, 0, 'the server ends well';

# ---- in streams ---------------------------------------------------------------------------
my @events = LlmServer::events($script->complete($no, { prompt => 'Say it: ', max_tokens => 12, %choice, stream => JSON::PP::true,
    allowed_token_ids => ids_of('yesn') }));
is join('', map { $_->{choices}[0]{text} // '' } grep { ref } @events), 'n', 'a stream has what came';
is((grep { ref && @{ $_->{choices} } } @events)[-1]{choices}[0]{finish_reason}, 'length', '  and its end');
is $script->server->stop, 0, 'the server ends well';
done_testing;
