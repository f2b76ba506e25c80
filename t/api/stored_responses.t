#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Stored responses: their owners, lifetime and space; a response that the client was told is
# stored survives a kill. t/api/openai_client.py uses them as clients do.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;
use Time::HiRes qw(sleep time);

if (my ($why) = Batches::missing()) { plan skip_all => $why }
my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $state  = File::Temp->newdir;
my $server = LlmServer->fake(state => $state);

sub ask { my ($input, %more) = @_; return $server->post('/v1/responses', { input => $input, max_output_tokens => 4, %more }) }
sub stored { return $server->get("/v1/responses/$_[0]")->{status} }

# ---- what is asked for wrongly -----------------------------------------------------------

my $first = ask('Once')->{json};
is $first->{store}, $true, 'a response is stored';
is stored($first->{id}), 200, '  and found';
my $none = "Response with id '";
for my $case (
    [404, qr/${none}resp_none' not found/, GET    => '/v1/responses/resp_none'],
    [404, qr/${none}resp_none' not found/, GET    => '/v1/responses/resp_none/input_items'],
    [404, qr/${none}resp_none' not found/, DELETE => '/v1/responses/resp_none'],
    [404, qr/$none/,             GET    => "/v1/responses/$first->{id}/else"],
    [404, qr/$none/,             GET    => '/v1/responses/' . 'x' x 500],
    [400, qr/whose events are kept/, GET => "/v1/responses/$first->{id}?stream=true"],
    [400, qr/'limit' must be 1 to 100/, GET => "/v1/responses/$first->{id}/input_items?limit=101"],
  ) {
    my ($status, $message, $method, $path) = @$case;
    my $answer = $server->request($method, $path);
    is $answer->{status}, $status, "$status: $method " . substr $path, 0, 60;
    like $answer->{content}, $message, '  with the reason';
}
for my $case ([400, 5], [404, 'resp_none'], [404, 'x' x 500]) {
    my $answer = ask('a', previous_response_id => $case->[1]);
    is_deeply [$answer->{status}, $answer->{json}{error}{param}], [$case->[0], 'previous_response_id'], "previous_response_id: " . substr $case->[1], 0, 20;
}
is $server->get("/v1/responses/$first->{id}?stream=false")->{status}, 200, 'stream=false asks for nothing';
is ask('a', previous_response_id => undef)->{json}{previous_response_id}, undef, '  null is none';
is ask([{ role => 'user', content => 'x' x 100, type => 'message' }], store => $false)->{json}{store}, $false, 'store: false';
my $long = ask('long ' x 400, previous_response_id => $first->{id});
is_deeply [$long->{status}, $long->{json}{error}{code}], [400, 'context_length_exceeded'], 'a conversation that grows too long says so';

# ---- calls, and what the input was -----------------------------------------------------------

my $call = ask([{ role => 'user', content => 'e' }, { role => 'assistant', content => 'f' },
    { type => 'function_call', call_id => 'c1', name => 'weather', arguments => '{"city": "Rome"}' },
    { type => 'function_call_output', call_id => 'c1', output => 'sun' }])->{json};
my @items = @{ Batches::get($server, "/v1/responses/$call->{id}/input_items?order=asc")->{data} };
is_deeply [map { $_->{type} } @items], [qw(message message function_call function_call_output)], 'items of all kinds are shown';
is_deeply [map { $_->{id} =~ /\A([a-z]+)_[0-9a-f]{32}\z/ } @items], [qw(msg msg fc fco)], '  with an id of their kind';
is_deeply [map { $_->{content}[0]{type} } @items[0, 1]], [qw(input_text output_text)], '  and parts';
my $page = Batches::get($server, "/v1/responses/$call->{id}/input_items?order=asc&limit=2&after=$items[1]{id}");
is_deeply [map { $_->{id} } @{ $page->{data} }], [map { $_->{id} } @items[2, 3]], '  in pages';
is $page->{has_more}, $false, '  to the end';
my $batch = Batches::upload($server, encode_json({ custom_id => 'c', method => 'POST', url => '/v1/responses',
    body => { input => 'a', previous_response_id => $first->{id} } }) . "\n");
my ($line) = Batches::results($server, Batches::wait_for($server, Batches::create($server, $batch->{id}, endpoint => '/v1/responses')->{id})->{error_file_id});
like $line->{response}{body}{error}{message}, qr/lines of batches stand alone/, 'lines of batches have no past';

# ---- items of earlier answers ----------------------------------------------------------------

my $said = ask('Tell me', max_output_tokens => 12)->{json}{output}[0];
my $next = [{ role => 'user', content => 'Tell me' }, { type => 'item_reference', id => $said->{id} }, { role => 'user', content => 'More' }];
my $referring = ask($next, max_output_tokens => 40)->{json};
(my $prompt = $referring->{output}[0]{content}[0]{text}) =~ s/\A //;
like $prompt, qr/\Auser: Tell me\nassistant: \Q$said->{content}[0]{text}\E/, 'an item_reference is the item';
is_deeply [map { $_->{id} } grep { $_->{role} eq 'assistant' } @{ Batches::get($server, "/v1/responses/$referring->{id}/input_items")->{data} }], [$said->{id}], '  and is stored as the item';
(my $missing = $said->{id}) =~ s/00\z/01/;
for my $id ($missing, 'msg_' . 'f' x 34, 'msg_x', 'x') {
    my $answer = ask([{ type => 'item_reference', id => $id }]);
    is_deeply [$answer->{status}, @{ $answer->{json}{error} }{qw(param message)}], [404, 'input', "there is no item '$id' in a stored response"], "no item: $id";
}

# ---- kills ------------------------------------------------------------------------------------

my @told;
for my $turn (1 .. 3) {
    my $end = time + 0.1 + rand 0.2;
    while (time < $end) {
        my $stream = @told % 2;
        my $answer = ask("turn $turn", $stream ? (stream => $true) : ());
        my ($id) = $answer->{content} =~ /"id":"(resp_[0-9a-f]+)"/;
        push @told, $id if $answer->{status} == 200 && (!$stream || $answer->{content} =~ /^event: response.incomplete/m);
    }
    $server->signal('KILL');
    is $server->wait_for_end, 'killed by signal 9', 'it is killed';
    $server = LlmServer->fake(state => $state);
}
cmp_ok scalar @told, '>', 5, 'clients were told of some responses';
is_deeply [grep { stored($_) != 200 } @told], [], '  all of which are there after the kills';

# ---- a client that goes, and a server that ends -----------------------------------------------------

$server->metric_becomes('llmserve_generations_live', 0);
my $socket = $server->connect;
my $body = encode_json({ input => 'gone', max_output_tokens => 200, previous_response_id => $first->{id} });
syswrite $socket, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: @{[length $body]}\r\n\r\n$body";
close $socket;
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left of a client that went away';
is $server->stop, 0, 'the server ends well';

# ---- a disk that is full --------------------------------------------------------------------------

$server = LlmServer->serve(Batches::ini($state));
SKIP: {
    skip 'prlimit is not installed (util-linux)', 5 if system('command -v prlimit >/dev/null 2>&1') != 0;
    system("prlimit --pid $server->{pid} --fsize=4096:unlimited") == 0 or die 'prlimit';
    my $answer = ask('full');
    is_deeply [$answer->{status}, $answer->{json}{store}], [200, $false], 'what cannot be stored is answered, and says so';
    is stored($answer->{json}{id}), 404, '  and is not there';
    $answer = ask('full', stream => $true);
    like $answer->{content}, qr/^event: response.incomplete\ndata: .*"store":false/m, '  streamed, too';
    system("prlimit --pid $server->{pid} --fsize=unlimited:unlimited") == 0 or die 'prlimit';
    is ask('room')->{json}{store}, $true, '  and with room again it is stored';
    is stored($first->{id}), 200, '  and what was there is there';
}

is $server->stop, 0, 'the server ends well';

# ---- tenants, room --------------------------------------------------------------------------

my $keys = "$state/keys";
LlmServer::write_file($keys, "key-ann ann\nkey-bob bob\nkey-ann-2 ann\n");
chmod 0600, $keys;
$server = LlmServer->serve(Batches::ini($state, '', "api_keys = $keys\nstored_responses = 64KiB\n"));
sub as { my ($key) = @_; return { authorization => "Bearer $key" } }
my $anns = $server->post('/v1/responses', { input => 'I am Ann', max_output_tokens => 4 }, as('key-ann'))->{json};
for my $path ("/v1/responses/$anns->{id}", "/v1/responses/$anns->{id}/input_items") {
    is $server->request('GET', $path, undef, as('key-ann-2'))->{status}, 200, 'a tenant has its responses';
    is $server->request('GET', $path, undef, as('key-bob'))->{status}, 404, '  another does not';
}
is $server->request('DELETE', "/v1/responses/$anns->{id}", undef, as('key-bob'))->{status}, 404, '  nor may it delete them';
is $server->post('/v1/responses', { input => 'a', previous_response_id => $anns->{id}, max_output_tokens => 4 }, as('key-bob'))->{status}, 404, '  nor go on from them';
is_deeply [map { $server->post('/v1/responses', { input => [{ type => 'item_reference', id => $anns->{output}[0]{id} }, { role => 'user', content => 'x' }], max_output_tokens => 4 }, as($_))->{status} } qw(key-ann key-bob)], [200, 404], '  nor refer to their items';
is $server->post('/v1/responses', { input => 'a', previous_response_id => $anns->{id}, max_output_tokens => 4 }, as('key-ann'))->{status}, 200, '  its own may';
is $server->request('GET', "/v1/responses/$first->{id}", undef, as('key-ann'))->{status}, 404, 'those of a server without keys are nobody\'s';
my @filled = map { $server->post('/v1/responses', { input => "$_ " . 'x' x 300, max_output_tokens => 2 }, as('key-ann'))->{json}{id} } 1 .. 80;
is $server->request('GET', "/v1/responses/$anns->{id}", undef, as('key-ann'))->{status}, 404, 'the oldest make room';
is $server->request('GET', "/v1/responses/$filled[-1]", undef, as('key-ann'))->{status}, 200, '  for the newest';
is $server->stop, 0, 'the server ends well';
done_testing;
