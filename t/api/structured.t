#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Structured output of the demo model, in the dialects of OpenAI, vLLM and llama.cpp:
# answers match the requested constraint, streamed or not, and unsupported constraints are
# refused by name.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use JSON::PP;
use Test::More;

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $server = LlmServer->serve("[model]\npath = " . LlmServer::source('share/demo-model') . "\n[engine]\nthreads = 1\npin = false\n");
my $json = JSON::PP->new->allow_nonref;

my $person = {
    type => 'object', additionalProperties => $false, required => ['name', 'age'],
    properties => {
        name => { type => 'string', minLength => 1, maxLength => 8 },
        age  => { type => 'integer', minimum => 0, maximum => 120 },
    },
};

sub choice { my ($path, %body) = @_; my $answer = $server->post($path, { max_tokens => 200, %body }); return $answer->{json}{choices}[0] // $answer->{content} }

sub complete {
    my (%body) = @_;
    my $choice = choice('/v1/completions', prompt => 'Once upon a time', %body);
    is $choice->{finish_reason}, 'stop', '  ends by itself' or diag explain $choice;
    return $choice->{text};
}

sub is_person {
    my ($text, $name) = @_;
    my $value = eval { $json->decode($text) };
    ok ref $value eq 'HASH' && keys %$value == 2 && $value->{age} =~ /\A(?:\d\d?|1[01]\d|120)\z/ && length $value->{name} >= 1
      && length $value->{name} <= 8, $name or diag $text;
    return;
}

# ---- each dialect ---------------------------------------------------------------------

# Properties come in the schema's order: Perl's has none, so that the text is the schema.
my $schema = '{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":8},'
  . '"age":{"type":"integer","minimum":0,"maximum":120}},"required":["name","age"],"additionalProperties":false}';
my %asks = (
    "OpenAI's json_schema"    => { response_format => { type => 'json_schema', json_schema => { name => 'person', strict => $true, schema => $person } } },
    "llama.cpp's json_object" => { response_format => { type => 'json_object', schema => $person } },
    "llama.cpp's json_schema" => { json_schema => $person },
    "vLLM's guided_json"      => { guided_json => $person },
    'and its text'            => { guided_json => $schema },
    "vLLM's structured_outputs" => { structured_outputs => { json => $person } },
);
for my $ask (sort keys %asks) {
    is_person(complete(%{ $asks{$ask} }, seed => $_, temperature => 1), "$ask, seed $_") for 1 .. 3;
}
for my $ask ({ guided_regex => '[a-c]{3}-\d{1,3}\.' }, { structured_outputs => { regex => '[a-c]{3}-\d{1,3}\.' } }) {
    like complete(%$ask, seed => 3), qr/\A[a-c]{3}-\d{1,3}\.\z/, 'a regular expression';
}
for my $ask ({ guided_choice => ['yes', 'no', 'may "be"'] }, { structured_outputs => { choice => ['yes', 'no', 'may "be"'] } }) {
    like complete(%$ask, seed => 3), qr/\A(?:yes|no|may "be")\z/, 'a choice';
}
my $grammar = qq{root ::= "<" item ("," item){1,3} ">"\nitem ::= [0-9]{1,3} | "(" item ")"\n};
for my $ask ({ grammar => $grammar }, { guided_grammar => $grammar }, { structured_outputs => { grammar => $grammar } }) {
    like complete(%$ask, seed => 3), qr/\A<[0-9()]+(?:,[0-9()]+){1,3}>\z/, 'a grammar';
}
for my $seed (1 .. 3) {
    my $choice = choice('/v1/completions', prompt => 'x', response_format => { type => 'json_object' }, seed => $seed, max_tokens => 60);
    if ($choice->{finish_reason} eq 'stop') { is ref $json->decode($choice->{text}), 'HASH', "json_object, seed $seed" }
    else                                    { like $choice->{text}, qr/\A\{/, "json_object, seed $seed, which is cut short" }
}

# ---- chat, streams, several choices, many at once ----------------------------------------

my $chat = choice('/v1/chat/completions', messages => [{ role => 'user', content => 'Who?' }], %{ $asks{"OpenAI's json_schema"} });
is_person($chat->{message}{content}, 'chat');
is $chat->{finish_reason}, 'stop', '  stops';
my @events = LlmServer::events($server->post('/v1/chat/completions', {
    messages => [{ role => 'user', content => 'Who?' }], stream => $true, max_tokens => 200, guided_json => $person }));
is_person(join('', map { ref && @{ $_->{choices} } ? $_->{choices}[0]{delta}{content} // '' : () } @events), 'a streamed chat');
my $several = $server->post('/v1/completions', { prompt => ['a', 'b'], n => 2, max_tokens => 200, guided_json => $person })->{json}{choices};
is_person($_->{text}, 'one of several') for @$several;
my $response = $server->post('/v1/responses', { input => 'Once upon a time', max_output_tokens => 200,
    text => { format => { type => 'json_schema', name => 'person', strict => $true, schema => $person } } })->{json};
is $response->{status}, 'completed', 'a response ends by itself' or diag explain $response;
is_person($response->{output}[-1]{content}[0]{text}, '  and is a person');
is $response->{text}{format}{name}, 'person', '  as it says';

# ---- jump-ahead -------------------------------------------------------------------------

# Names that are forced take no steps of their own, and the answer is the same.
my %delivery = (guided_json => '{"type":"object","additionalProperties":false,"properties":{"customer_identification_number":{"type":"integer",'
  . '"minimum":0,"maximum":999},"delivery_address_confirmed":{"type":"boolean"},"preferred_method_of_payment":{"enum":["credit_card","bank_transfer"]}},'
  . '"required":["customer_identification_number","delivery_address_confirmed","preferred_method_of_payment"]}', temperature => 0, max_tokens => 300);

sub deliveries {
    my ($from) = @_;
    my @answers = map { $from->post('/v1/completions', { prompt => $_, return_token_ids => $true, %delivery })->{json} } 'Once upon a time', 'The cat', 'x';
    is scalar @{ $_->{choices}[0]{token_ids} }, $_->{usage}{completion_tokens}, 'usage counts the tokens' for @answers;
    return ([map { [$_->{choices}[0]{text}, $_->{choices}[0]{token_ids}] } @answers], $from->get('/metrics')->{content} =~ /^llmserve_forced_tokens_total (\d+)/m);
}
my $slow = LlmServer->serve("[model]\npath = " . LlmServer::source('share/demo-model') . "\n[engine]\nthreads = 1\npin = false\n[plugins]\njump_ahead = false\n");
my ($jumped, $forced) = deliveries($server);
my ($drawn, $none) = deliveries($slow);
is_deeply $jumped, $drawn, 'the same texts of the same tokens';
cmp_ok $forced, '>', 60, 'with jumps';
is $none, 0, '  and without';
is_deeply choice('/v1/completions', prompt => 'x', logprobs => 1, return_token_ids => $true, %delivery)->{token_ids}, $jumped->[2][1], 'also with logprobs';
@events = LlmServer::events($server->post('/v1/completions', { prompt => 'x', stream => $true, stop => ['_con', 'method_of'], include_stop_str_in_output => $true, %delivery }));
like join('', map { ref && @{ $_->{choices} } ? $_->{choices}[0]{text} : () } @events), qr/"delivery_address_con\z/, 'a stop string within a jump';
is $slow->stop, 0, 'the slow one ends well';

# ---- refusals -------------------------------------------------------------------------

sub refused {
    my ($message, $param, %body) = @_;
    my $answer = $server->post('/v1/completions', { prompt => 'x', %body });
    is $answer->{status}, 400, "400: $message";
    like $answer->{json}{error}{message}, qr/$message/, '  says why';
    is $answer->{json}{error}{param}, $param, '  and of what';
    return;
}

my $not = { type => 'object', properties => { a => { not => { multipleOf => 2 } } }, additionalProperties => $false };
refused(q{the schema at #/properties/a/not: 'multipleOf' is not supported inside 'not'}, 'guided_json', guided_json => $not);
is choice('/v1/completions', prompt => 'x', response_format => { type => 'json_schema', json_schema => { name => 'n', schema => $not } })->{finish_reason} =~ /\A(?:stop|length)\z/,
    1, 'what is not strict leaves it out';
refused(q{'grammar' stands beside 'guided_regex'}, 'grammar', guided_regex => 'a', grammar => 'root ::= "a"');
refused(q{'structured_outputs.json_object' stands beside 'response_format'}, 'structured_outputs.json_object',
    response_format => { type => 'json_object' }, structured_outputs => { json_object => $true });
refused(q{at byte 3: look-around}, 'guided_regex', guided_regex => 'a(?=b)');
refused(q{the grammar's beginning is too ambiguous}, 'guided_regex', guided_regex => join '|', map { "a{$_}" } 1 .. 500);
refused(q{line 1: a " without}, 'grammar', grammar => 'root ::= "a');
refused(q{line 2: flags of regular expressions}, 'guided_grammar', guided_grammar => "start: A\nA: /a/i");
refused(q{must be a JSON Schema}, 'guided_json', guided_json => 'no JSON');
refused(q{must be an array of strings}, 'guided_choice', guided_choice => [1]);
refused(q{must be a string}, 'guided_regex', guided_regex => 1);
refused(q{no value is valid}, 'guided_json', guided_json => $false);
refused(q{there is neither 'format' nor}, 'structured_outputs.structural_tag', structured_outputs => { structural_tag => '{}' });
refused(q{must be a structural tag}, 'structured_outputs.structural_tag', structured_outputs => { structural_tag => '[' });
refused(q{is no part of 'structured_outputs'}, 'structured_outputs.yaml', structured_outputs => { yaml => 'x' });
refused(q{the format "token" is not supported}, 'response_format', response_format => { type => 'structural_tag', format => { type => 'token', token => 1 } });
refused(q{"json_object", "json_schema" or}, 'response_format', response_format => { type => 'xml' });
refused(q{is missing}, 'response_format.json_schema.schema', response_format => { type => 'json_schema', json_schema => { name => 'x' } });
refused(q{'response_format.json_schema' is missing}, 'response_format.json_schema', response_format => { type => 'json_schema' });
refused(q{more than 64 schemas hold together}, 'guided_json', guided_json => { allOf => [map { { minLength => $_ } } 1 .. 70] });

# ---- parameters that want nothing -----------------------------------------------------

for my $nothing ({ grammar => '' }, { json_schema => {} }, { guided_choice => [] }, { response_format => { type => 'text' } }, { structured_outputs => { json_object => $false } }) {
    is choice('/v1/completions', prompt => 'x', max_tokens => 2, ignore_eos => $true, %$nothing)->{finish_reason}, 'length', 'free: ' . (keys %$nothing)[0];
}

# ---- Lark's grammars, structural tags --------------------------------------------------

like complete(structured_outputs => { grammar => qq{// Lark's\nstart: "<" N ("," N)~1..3 ">"\nN: /[0-9]{1,3}/\n} }, seed => 3), qr/\A<\d{1,3}(?:,\d{1,3}){1,3}>\z/,
    "a grammar of Lark's";
my $tagged = { type => 'structural_tag', format => { type => 'sequence', elements => [
    { type => 'tag', begin => '<think>', content => { type => 'any_text' }, end => ['.', '</think>'] },
    { type => 'tag', begin => '<answer>', content => { type => 'json_schema', json_schema => $person }, end => '</answer>' }] } };
for my $ask ({ response_format => $tagged }, { structured_outputs => { structural_tag => $json->encode($tagged) } }) {
    my ($answer) = complete(%$ask, seed => 4) =~ m{\A<think>[^.]*(?:\.|</think>)<answer>(.*)</answer>\z}s;
    is_person($answer // '""', 'a structural tag');
}

# ---- judges from elsewhere --------------------------------------------------------------

# A script asks for $count answers to each of $sources sources, and prints TAP.
sub judged {
    my ($script, $count, $sources, @packages) = @_;
SKIP: {
        my $venv = LlmServer::built("t/$packages[0]-venv");
        my $why = LlmServer::make_venv($venv, @packages);
        skip "@packages: $why", 1 if defined $why;
        my $path = LlmServer::source("t/api/$script");
        open my $out, '-|', "timeout 600 '$venv/bin/python' '$path' http://$server->{address} $count 2>&1" or die $!;
        my @lines = <$out>;
        close $out;
        is $?, 0, "@packages: all answers are valid" or diag @lines;
        is scalar(grep { /^ok/ } @lines), $sources, "  by $sources sources" or diag @lines;
    }
}

judged('grammar_client.py', 20, 6, 'llguidance', 'lark');
judged('structured_client.py', 180, 18, 'jsonschema');

is $server->stop, 0, 'it ends well';
done_testing;
