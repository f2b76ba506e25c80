#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Parameters of vLLM: logprob_token_ids, whose values are those of top_logprobs for the same tokens, and a request's
# own chat_template where [server] trust_chat_template lets it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

my $true  = JSON::PP::true;
my $model = "[model]\npath = " . LlmServer::source('t/data/models/stories260K') . "\n[engine]\nthreads = 1\npin = false\n[cache]\ndevice_memory = 8MiB\n";
my $server = LlmServer->serve("trust_chat_template = true\n$model");

sub ask { my ($path, %body) = @_; return $server->post($path, { temperature => 0, max_tokens => 3, %body }) }
sub chat { return ask('/v1/chat/completions', messages => [{ role => 'user', content => 'Once' }], @_) }
sub tokens { return $_[0]{json}{choices}[0]{logprobs}{content} }

# ---- logprob_token_ids ------------------------------------------------------------------
my %named    = (logprobs => $true, return_tokens_as_token_ids => $true);
my $likely   = tokens(chat(%named, top_logprobs => 20));
my %of       = map { $_->{token} => $_->{logprob} } @{ $likely->[0]{top_logprobs} };
my @ids      = map { /(\d+)/ ? 0 + $1 : () } (sort keys %of)[0 .. 2];
my $tokens   = tokens(chat(%named, top_logprobs => 1, logprob_token_ids => [@ids, $ids[0], 7]));
my %shown    = map { $_->{token} => $_->{logprob} } @{ $tokens->[0]{top_logprobs} };
my $sampled  = $tokens->[0]{token};
is_deeply [sort keys %shown], [sort keys %{ { map { $_ => 1 } $sampled, map { "token_id:$_" } @ids, 7 } }], 'the named tokens, each once, and the sampled one';
is_deeply [map { $shown{"token_id:$_"} } @ids], [map { $of{"token_id:$_"} } @ids], '  with the values that the likeliest have';
is_deeply [map { [@$_{qw(token logprob)}] } @$tokens], [map { [@$_{qw(token logprob)}] } @$likely], '  and the same answer';
my ($drawn) = $sampled =~ /(\d+)/;
is scalar @{ tokens(chat(%named, logprob_token_ids => [0 + $drawn]))->[0]{top_logprobs} }, 1, '  which is not repeated';
my $whole = ask('/v1/completions', prompt => 'Once', logprobs => 0, logprob_token_ids => [5, 6], return_tokens_as_token_ids => $true)->{json}{choices}[0]{logprobs};
is_deeply [sort keys %{ $whole->{top_logprobs}[0] }], [sort 'token_id:5', 'token_id:6', $whole->{tokens}[0]], 'completions';
my @streamed = map { map { @{ ($_->{logprobs} // {})->{content} // [] } } @{ $_->{choices} } } grep { ref } LlmServer::events(chat(%named, logprob_token_ids => [5], stream => $true));
is_deeply [map { scalar grep { $_->{token} eq 'token_id:5' } @{ $_->{top_logprobs} } } @streamed], [1, 1, 1], 'a stream';
for my $case ([{ logprob_token_ids => [5] }, qr/only for requests with 'logprobs'/], [{ logprobs => $true, logprob_token_ids => [0 .. 20] }, qr/at most 20/],
    [{ logprobs => $true, logprob_token_ids => [512] }, qr/512/], [{ logprobs => $true, logprob_token_ids => 'a' }, qr/array/],
    [{ logprobs => $true, logprob_token_ids => [5], post_sampling_probs => $true }, qr/post_sampling_probs/]) {
    my $error = chat(%{ $case->[0] });
    is_deeply [$error->{status}, $error->{json}{error}{param}], [400, 'logprob_token_ids'], 'refused';
    like $error->{json}{error}{message}, $case->[1], '  with the reason';
}

# ---- chat_template ----------------------------------------------------------------------
my $echo = '{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ mood }}{% endfor %}{% if add_generation_prompt %}!{% endif %}';
sub prompt {
    my $ids = $server->post('/tokenize', { messages => [{ role => 'user', content => 'Hi' }], @_ })->{json}{tokens};
    return $server->post('/detokenize', { tokens => $ids })->{json}{prompt};
}
like prompt(chat_template => $echo, chat_template_kwargs => { mood => 'glad' }), qr/<user>Higlad!\z/, 'a template of the request, with its variables';
unlike prompt(), qr/<user>/, '  of that request alone';
is chat(chat_template => $echo)->{status}, 200, 'in a chat';
is chat(chat_template => $echo)->{json}{usage}{prompt_tokens}, scalar @{ $server->post('/tokenize', { messages => [{ role => 'user', content => 'Once' }], chat_template => $echo })->{json}{tokens} }, '  it makes the prompt';
for my $wrong (7, '{% for %}', "{{ raise_exception('never') }}", 'x' x 300_000) {
    my $error = chat(chat_template => $wrong);
    is $error->{status}, 400, 'a wrong one is refused: ' . substr($error->{json}{error}{message}, 0, 70);
}
is chat(chat_template => '{% for i in range(99999) %}{% for j in range(99999) %}{{ i * j }}{% endfor %}{% endfor %}')->{status}, 400, 'an endless one ends';
is chat()->{status}, 200, 'the server lives on';
is $server->stop, 0, 'and ends well';

$server = LlmServer->serve($model);
is chat(chat_template => $echo)->{json}{error}{param}, 'chat_template', 'without trust_chat_template it is refused by name';
like chat(chat_template => $echo)->{json}{error}{message}, qr/trust_chat_template/, '  with the key that allows it';
is $server->stop, 0, 'the server ends well';
done_testing;
