#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Random requests in every dialect: what is streamed equals what is whole, an answer is an answer of its
# dialect or an error of it, and the server lives. Members and values are drawn from /openapi.json, sound
# ones and wild ones. LLS_DIALECT_REQUESTS is the number for each dialect: some in the suite, 1,000 in a run
# under a sanitizer:
#
#   LLS_DIALECT_REQUESTS=1000 make check TESTS=t/campaign/dialects.t
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Campaign;
use HTTP::Tiny;
use JSON::PP;
use LlmServer;
use Test::More;

Campaign::begin();
my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $n      = $ENV{LLS_DIALECT_REQUESTS} // 8;
my $server = LlmServer->fake(period => 1);
$server->{http} = HTTP::Tiny->new(timeout => 4 * $LlmServer::TIMEOUT, keep_alive => 1);
my $doc = decode_json($server->get('/openapi.json')->{content});

sub pick { return $_[int rand @_] }
sub words { return join ' ', map { pick(qw(one two three a cat dog ran far away and then), "\x{e9}t\x{e9}", '<s>', "\n") } 1 .. 1 + int rand 6 }
sub events { return map { decode_json($_) } grep { $_ ne '[DONE]' } $_[0] =~ /^data: ?(.*)$/mg }
sub lines { return map { decode_json($_) } split /\n/, $_[0] }
sub said { return join '', map { $_ // '' } @_ }

sub chat { return [{ role => 'system', content => words() }, map { { role => pick(qw(user user assistant)), content => words() } } 1 .. 1 + int rand 2] }
sub chat_user { return [@{ chat() }, { role => 'user', content => words() }] }

# Each dialect has a body, the text of a whole answer, and the text of a stream.
my %dialects = (
    '/v1/completions' => {
        body => sub { (prompt => words(), max_tokens => 1 + int rand 12) },
        whole => sub { said(map { $_->{text} } @{ $_[0]{choices} }) },
        streamed => sub { said(map { map { $_->{text} } @{ $_->{choices} } } events($_[0])) },
    },
    '/v1/chat/completions' => {
        body => sub { (messages => chat_user(), max_tokens => 1 + int rand 12) },
        whole => sub { my $m = $_[0]{choices}[0]{message}; said($m->{reasoning}, $m->{content}) },
        streamed => sub { my @d = map { $_->{choices}[0]{delta} // () } events($_[0]); said(map { ($_->{reasoning}, $_->{content}) } @d) },
    },
    '/v1/responses' => {
        body => sub { (input => pick(words(), [{ role => 'user', content => words() }]), max_output_tokens => 1 + int rand 12) },
        whole => sub { said(map { map { $_->{text} } @{ $_->{content} // [] } } @{ $_[0]{output} }) },
        streamed => sub { said(map { $_->{type} =~ /(?:text)\.delta\z/ ? $_->{delta} : () } events($_[0])) },
    },
    '/v1/messages' => {
        body => sub { (messages => [{ role => 'user', content => words() }], max_tokens => 1 + int rand 12) },
        whole => sub { said(map { $_->{thinking} // $_->{text} } @{ $_[0]{content} }) },
        streamed => sub { said(map { my $d = $_->{delta} // {}; $d->{thinking} // $d->{text} } events($_[0])) },
    },
    '/api/chat' => {
        body => sub { (messages => chat_user(), options => { num_predict => 1 + int rand 12, seed => 5 }, stream => $false) },
        whole => sub { said(@{ $_[0]{message} }{qw(thinking content)}) },
        streamed => sub { said(map { @{ $_->{message} }{qw(thinking content)} } lines($_[0])) },
    },
    '/api/generate' => {
        body => sub { (prompt => words(), options => { num_predict => 1 + int rand 12, seed => 5 }, stream => $false, pick(0, 1) ? (raw => $true) : ()) },
        whole => sub { said(@{ $_[0] }{qw(thinking response)}) },
        streamed => sub { said(map { @$_{qw(thinking response)} } lines($_[0])) },
    },
    '/completion' => {
        body => sub { (prompt => words(), n_predict => 1 + int rand 12) },
        whole => sub { $_[0]{content} },
        streamed => sub { said(map { $_->{content} } events($_[0])) },
    },
    '/generate' => {
        body => sub { (inputs => words(), parameters => { max_new_tokens => 1 + int rand 12 }) },
        whole => sub { $_[0]{generated_text} },
        streamed => sub { said(map { $_->{generated_text} } events($_[0])) },
        path => '/generate_stream',
    },
    '/inference/v1/generate' => {
        body => sub { (token_ids => [map { 300 + int rand 100 } 1 .. 1 + int rand 5], sampling_params => { max_tokens => 1 + int rand 12 }) },
        whole => sub { join ' ', @{ $_[0]{choices}[0]{token_ids} } },
        streamed => sub { join ' ', map { map { @{ $_->{token_ids} // [] } } @{ $_->{choices} } } events($_[0]) },
    },
);

# These members leave answers that can be compared.
my %mild = (temperature => [0, 0.5, 1], top_p => [0.1, 1], min_p => [0, 0.2], presence_penalty => [0, 1], frequency_penalty => [0, 1], stop => ['cat', ['and', 'far']],
    class => [qw(realtime best_effort)], priority => [-3, 7], ignore_eos => [$true, $false], metadata => [{}, { a => 'b' }], user => ['u']);
my @wild = (undef, $true, $false, 0, -1, 1, 1e9, 0.5, '', 'x', "\x{1F600}", [], {}, [[]], [1], ['x'], { a => [{}] }, { type => 'json_object' }, 'x' x 3000);

sub body_of {
    my ($dialect, $fields, $wild) = @_;
    my %body = $dialect->{body}->();
    my @names = grep { $mild{$_} } keys %$fields;
    for (1 .. int rand 3) { my $name = pick(@names, 'none'); $body{$name} = pick(@{ $mild{$name} }) if $mild{$name} }
    return %body if !$wild;
    for (1 .. 1 + int rand 3) {
        my $name = pick(keys %$fields);
        $body{$name} = pick(@wild) if $name !~ /\A(?:background|stream|n|n_cmpl|prompt_logprobs|response_fields|samplers)\z/;
    }
    return %body;
}

my $wide = JSON::PP->new->utf8->canonical;
for my $path (sort keys %dialects) {
    my $dialect = $dialects{$path};
    my $name    = $doc->{paths}{$path}{post}{requestBody}{content}{'application/json'}{schema}{'$ref'} =~ s{.*/}{}r;
    my $fields  = $doc->{components}{schemas}{$name}{properties};
    my (%status, @wrong);
    for my $turn (1 .. $n) {
        my %body = body_of($dialect, $fields, $turn % 2);
        $body{seed} = 11 if $fields->{seed};
        my $whole = $server->post($path, $wide->encode(\%body));
        $status{ $whole->{status} }++;
        push @wrong, "status $whole->{status}: " . $wide->encode(\%body) if $whole->{status} !~ /\A(?:200|400|404|413|429)\z/;
        my $json = eval { decode_json($whole->{content}) };
        push @wrong, 'no JSON: ' . $wide->encode(\%body) if !defined $json;
        next if $whole->{status} != 200 || !defined $json;
        my $stream = $server->post($dialect->{path} // $path, $wide->encode({ %body, $dialect->{path} ? () : (stream => $true) }));
        my ($a, $b) = map { eval { $_->() } // "none: $@" } sub { $dialect->{whole}->($json) }, sub { $dialect->{streamed}->($stream->{content}) };
        push @wrong, 'streamed otherwise: ' . $wide->encode(\%body) . "\n  whole: $a\n  streamed: $b" if $a ne $b;
    }
    is join("\n", @wrong[0 .. ($#wrong < 4 ? $#wrong : 4)]), '', "$path: " . join ', ', map { "$status{$_} of $_" } sort keys %status;
}
is $server->get('/health')->{status}, 200, 'the server lives';
is $server->stop, 0, '  and ends well';
done_testing;
