#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /v1/conversations: items that a client adds and responses add, in their order; removed
# ones; their tenant; a restart. t/api/openai_client.py uses them, too.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use JSON::PP;
use LlmServer;
use Test::More;

if (my ($why) = Batches::missing()) { plan skip_all => $why }
my ($true, $false) = (JSON::PP::true, JSON::PP::false);
my $state  = File::Temp->newdir;
my $server = LlmServer->fake(state => $state);

sub post { my ($path, $body, @headers) = @_; return $server->post("/v1/conversations$path", $body, @headers) }
sub get { my ($path, @headers) = @_; my $answer = $server->request('GET', "/v1/conversations$path", undef, @headers); return ($answer->{status}, decode_json($answer->{content})) }
sub ask { my ($input, %more) = @_; return $server->post('/v1/responses', { input => $input, max_output_tokens => 3, %more }) }
sub text_of { my ($item) = @_; return $item->{content}[0]{text} }
sub items { my ($id, $query) = @_; my ($status, $list) = get("/$id/items?order=asc&limit=100" . ($query // '')); return @{ $list->{data} } }

# ---- the conversation -------------------------------------------------------------------------

my $made = post('', { metadata => { topic => 'x' }, items => [{ role => 'system', content => 'Be kind' }, { type => 'message', role => 'user', content => 'Hi' }] })->{json};
like $made->{id}, qr/\Aconv_[0-9a-f]{32}\z/, 'a conversation has an id';
is_deeply [@$made{qw(object metadata)}], ['conversation', { topic => 'x' }], '  and its metadata';
my $id = $made->{id};
is_deeply [get("/$id")], [200, $made], '  and is found';
is_deeply post("/$id", { metadata => { topic => 'y', more => 'z' } })->{json}, { %$made, metadata => { topic => 'y', more => 'z' } }, '  and changed';
my $empty = post('', '')->{json}{id};
is_deeply [items($empty)], [], 'one without a body is empty';
is_deeply [map { text_of($_) } items($id)], ['Be kind', 'Hi'], 'items that it begins with';
my $added = post("/$id/items", { items => [{ role => 'assistant', content => 'Yes?' }] })->{json};
is_deeply [$added->{object}, map { @$_{qw(type role status)} } @{ $added->{data} }], [qw(list message assistant completed)], 'an added item';
is_deeply [map { text_of($_) } items($id)], ['Be kind', 'Hi', 'Yes?'], '  comes after them';

# ---- responses ----------------------------------------------------------------------------------

my $response = ask('Tell me', conversation => $id)->{json};
is_deeply $response->{conversation}, { id => $id }, 'a response of the conversation';
my @all = items($id);
is_deeply [map { text_of($_) } @all], ['Be kind', 'Hi', 'Yes?', 'Tell me', $response->{output}[0]{content}[0]{text}], '  adds its input and output';
my $long = ask('Next', conversation => { id => $id }, max_output_tokens => 60)->{json};
like $long->{output}[0]{content}[0]{text}, qr/\A ?system: Be kind\nuser: Hi\nassistant: Yes\?\nuser: Tell me\nassistant: /, 'the next one sees all of them';
my $streamed = ask('Streamed', conversation => $id, stream => $true);
like $streamed->{content}, qr/"conversation":\{"id":"$id"\}/, 'a streamed one';
is text_of((items($id))[-2]), 'Streamed', '  adds its items';
my $dark = ask('Behind', conversation => $id, background => $true, max_output_tokens => 100)->{json};
is ask('Too early', conversation => $id)->{status}, 409, 'while one runs in the background, no other one can continue';
my $end = time + $LlmServer::TIMEOUT;
while (time < $end) { last if $server->get("/v1/responses/$dark->{id}")->{content} !~ /"status":"(queued|in_progress)"/ }
is ask('Then', conversation => $id)->{status}, 200, '  then it can';
is text_of((items($id))[-4]), 'Behind', '  and its items are there';
ok !exists ask('Alone', conversation => undef)->{json}{conversation}, 'null is none';

# ---- items ----------------------------------------------------------------------------------------

my @now = items($id);
is_deeply [get("/$id/items/$now[1]{id}")], [200, $now[1]], 'an item by its id';
my ($status, $page) = get("/$id/items?limit=2");
is_deeply [map { $_->{id} } @{ $page->{data} }], [map { $_->{id} } @now[-1, -2]], 'pages begin with the newest item';
is_deeply [map { $_->{id} } items($id, "&after=$now[2]{id}")], [map { $_->{id} } @now[3 .. $#now]], '  or go on after one';
my $removed = $server->request('DELETE', "/v1/conversations/$id/items/$now[1]{id}");
is_deeply [$removed->{status}, decode_json($removed->{content})->{id}], [200, $id], 'an item is removed';
is_deeply [map { $_->{id} } items($id)], [map { $_->{id} } @now[0, 2 .. $#now]], '  alone';
unlike ask('Last', conversation => $id, max_output_tokens => 60)->{json}{output}[0]{content}[0]{text}, qr/user: Hi/, '  and not seen any more';
is $server->request('DELETE', "/v1/conversations/$id/items/$now[1]{id}")->{status}, 404, '  once';

# ---- what is wrong ----------------------------------------------------------------------------------

for my $case (
    [404, qr/there is no conversation 'conv_x'/, GET => '/conv_x'],
    [404, qr/there is no conversation 'conv_x'/, GET => '/conv_x/items'],
    [404, qr/there is no conversation 'conv_x'/, DELETE => '/conv_x'],
    [404, qr/there is no conversation 'conv_x'/, POST => '/conv_x', {}],
    [404, qr/there is no conversation 'conv_x'/, POST => '/conv_x/items', { items => [{ role => 'user', content => 'a' }] }],
    [404, qr/has no item 'msg_x'/, GET => "/$id/items/msg_x"],
    [404, qr/no such path/, GET => "/$id/others"],
    [404, qr/no such path/, DELETE => "/$id/items"],
    [404, qr/no such path/, GET => "/$id/items/a/b"],
    [400, qr/'limit' must be 1 to 100/, GET => "/$id/items?limit=0"],
    [400, qr/'items' must be an array of 1 to 20/, POST => "/$id/items", { items => [] }],
    [400, qr/'items' must be an array of 1 to 20/, POST => '', { items => [({ role => 'user', content => 'a' }) x 21] }],
    [400, qr/an item of type ..x/, POST => '', { items => [{ type => 'x' }] }],
    [400, qr/'metadata' must be/, POST => '', { metadata => { a => 5 } }],
    [400, qr/JSON/, POST => '', '{'],
  ) {
    my ($wanted, $message, $method, $path, $body) = @$case;
    my $answer = $method eq 'POST' ? post($path, $body) : $server->request($method, "/v1/conversations$path");
    is $answer->{status}, $wanted, "$wanted: $method $path";
    like $answer->{content}, $message, '  with the reason';
}
for my $case ([404, conversation => 'conv_x'], [400, conversation => 5], [400, conversation => $id, store => $false], [400, conversation => $id, previous_response_id => $response->{id}]) {
    my ($wanted, %more) = @$case;
    my $answer = ask('a', %more);
    is_deeply [$answer->{status}, $answer->{json}{error}{param}], [$wanted, 'conversation'], "$wanted: a response with " . join ' ', map { $_ // 'undef' } %more;
}

# ---- a restart, tenants, the end ----------------------------------------------------------------------

@all = items($id);
is $server->stop, 0, 'the server ends well';
my $keys = "$state/keys";
LlmServer::write_file($keys, "key-ann ann\nkey-bob bob\n");
chmod 0600, $keys;
$server = LlmServer->fake(state => $state);
is_deeply [items($id)], \@all, 'a restart keeps a conversation';
is_deeply decode_json($server->request('DELETE', "/v1/conversations/$id")->{content}), { id => $id, object => 'conversation.deleted', deleted => $true }, 'it is deleted';
is +(get("/$id"))[0], 404, '  and gone';
is $server->get("/v1/responses/$response->{id}")->{status}, 200, '  its responses stay';
is $server->stop, 0, 'the server ends well';
$server = LlmServer->serve(Batches::ini($state, '', "api_keys = $keys\n"));
my @ann = ({ authorization => 'Bearer key-ann' });
my @bob = ({ authorization => 'Bearer key-bob' });
my $anns = post('', { items => [{ role => 'user', content => 'secret' }] }, @ann)->{json}{id};
is +(get("/$anns/items", @ann))[0], 200, 'a tenant has its conversation';
is_deeply [(get("/$anns", @bob))[0], (get("/$anns/items", @bob))[0], post("/$anns", {}, @bob)->{status},
    $server->post('/v1/responses', { input => 'a', max_output_tokens => 1, conversation => $anns }, @bob)->{status}], [(404) x 4], '  another tenant has not';
is $server->stop, 0, 'the server ends well';
done_testing;
