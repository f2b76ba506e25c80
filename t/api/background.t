#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Responses in the background: polled, streamed again from any event, cancelled, deleted; of
# their tenant alone; after a kill they have failed. t/api/openai_client.py uses them, too.
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
my $server = LlmServer->fake(state => $state, period => 3);

sub ask {
    my ($tokens, %more) = @_;
    return $server->post('/v1/responses', { input => 'Tell me', max_output_tokens => $tokens, background => $true, %more });
}
sub json { return decode_json($_[0]{content}) }
sub look { return json($server->get("/v1/responses/$_[0]")) }

sub wait_for {
    my ($id, $found) = @_;
    my $end = time + $LlmServer::TIMEOUT;
    do { sleep 0.01; $found = look($id) } while $found->{status} =~ /queued|in_progress/ && time < $end;
    return $found;
}
sub events { return map { decode_json($_) } $_[0]->{content} =~ /^data: (.*)\n/mg }    # those that came whole
sub code { my ($answer) = @_; return [$answer->{status}, json($answer)->{error}{message}] }

# ---- polling ------------------------------------------------------------------------------

my $first = ask(40)->{json};
is_deeply [@$first{qw(status background store output)}], ['queued', $true, $true, []], 'the client gets the response at once';
my $done = wait_for($first->{id});
is_deeply [@$done{qw(status id created_at)}], ['incomplete', @$first{qw(id created_at)}], '  and finds its end later';
is $done->{usage}{output_tokens}, 40, '  with its usage';
my $whole = $server->post('/v1/responses', { input => 'Tell me', max_output_tokens => 40 })->{json};
is $done->{output}[0]{content}[0]{text}, $whole->{output}[0]{content}[0]{text}, '  and the text of one that is waited for';
is $server->post('/v1/responses', { input => 'More', max_output_tokens => 2, previous_response_id => $first->{id} })->{status}, 200, '  which can be continued';
my $socket = $server->connect;
syswrite $socket, LlmServer::raw_post('/v1/responses', encode_json({ input => 'gone', max_output_tokens => 50, background => $true }));
my ($id) = LlmServer::read_until($socket, qr/"id":"(resp_\w+)"/) =~ /"id":"(resp_\w+)"/;
close $socket;
is wait_for($id)->{usage}{output_tokens}, 50, 'a response goes on after its client has left';

# ---- streams -------------------------------------------------------------------------------

my @all = events(ask(40, stream => $true));
$id = $all[0]{response}{id};
is_deeply [map { $_->{type} } @all[0 .. 2], $all[-1]], [map { "response.$_" } qw(created queued in_progress incomplete)], 'a stream';
is_deeply [map { $_->{sequence_number} } @all], [0 .. $#all], '  of numbered events';
my $text = join '', map { $_->{delta} } grep { $_->{type} eq 'response.output_text.delta' } @all;
is $text, look($id)->{output}[0]{content}[0]{text}, '  whose text is the stored one';
for my $after (-1, 0, 5, $#all - 1, $#all, 1000) {
    my $query = $after >= 0 ? "&starting_after=$after" : '';
    my $answer = $server->get("/v1/responses/$id?stream=true$query");
    is_deeply [events($answer)], [$after < $#all ? @all[$after + 1 .. $#all] : ()], "  taken up again after event $after";
}
$socket = $server->connect;
syswrite $socket, LlmServer::raw_post('/v1/responses', encode_json({ input => 'gone', max_output_tokens => 80, background => $true, stream => $true }));
($id) = LlmServer::read_until($socket, qr/output_text.delta/) =~ /"id":"(resp_\w+)"/;
my @late = events($server->get("/v1/responses/$id?stream=true"));
close $socket;
is_deeply [$late[-1]{type}, $late[-1]{response}{usage}{output_tokens}, map { $_->{sequence_number} } @late],
    ['response.incomplete', 80, 0 .. $#late], 'a second client reads the events of one that runs';
# A client that breaks off again and again while the answer is written, reading an event or more each time.
$socket = $server->connect;
syswrite $socket, LlmServer::raw_post('/v1/responses', encode_json({ input => 'gone', max_output_tokens => 120, background => $true, stream => $true }));
my @read = events({ content => LlmServer::read_until($socket, qr/output_text.delta.*\n\n/) });
$id = $read[0]{response}{id};
my $turns = 0;
for (; $turns < 400 && $read[-1]{type} ne 'response.incomplete'; $turns++) {
    close $socket;
    $socket = $server->connect;
    syswrite $socket, "GET /v1/responses/$id?stream=true&starting_after=$read[-1]{sequence_number} HTTP/1.1\r\nHost: x\r\n\r\n";
    push @read, events({ content => LlmServer::read_until($socket, qr/^data: .*\n\n/m) });
}
close $socket;
is_deeply [map { $_->{sequence_number} } @read], [0 .. $#read], 'a client that breaks off many times has each event once';
my $read = join '', map { $_->{delta} } grep { $_->{type} eq 'response.output_text.delta' } @read;
is_deeply [$read[-1]{type}, $read], ['response.incomplete', look($id)->{output}[0]{content}[0]{text}], '  to the end, and the whole text';
is $server->request('HEAD', "/v1/responses/$id?stream=true")->{status}, 200, '  HEAD has no events';
for my $case (
    [qr/was not asked for with 'stream'/, ask(300)->{json}{id} . '?stream=true'],
    [qr/whose events are kept/, "$whole->{id}?stream=true", 'resp_none?stream=true'],
    [qr/'starting_after' must be/, map { "$id?stream=true&starting_after=$_" } qw(x -1 1x 99999999999999999999)],
  ) {
    my ($message, @paths) = @$case;
    for my $path (@paths) {
        my $answer = code($server->get("/v1/responses/$path"));
        is $answer->[0], 400, '400: ' . substr $path, -30;
        like $answer->[1], $message, '  with the reason';
    }
}

# ---- cancelled, deleted ------------------------------------------------------------------------

sub cancel { return $server->post("/v1/responses/$_[0]/cancel", '') }
$id = ask(400)->{json}{id};
my $half = cancel($id);
is_deeply [$half->{status}, @{ $half->{json} }{qw(id status)}], [200, $id, 'cancelled'], 'a response is cancelled';
is_deeply [look($id), cancel($id)->{json}], [($half->{json}) x 2], '  once, and stays so';
ok $server->metric_becomes('llmserve_generations_live', 1), '  its work ends';    # that of ask(300)
is cancel($first->{id})->{json}{status}, 'incomplete', 'one that is over stays as it was';
is_deeply code(cancel($whole->{id})), [400, 'Cannot cancel a synchronous response: only responses with "background" can be cancelled, for others close the connection'], 'others: 400';
is cancel('resp_none')->{status}, 404, 'none: 404';
$id = ask(400)->{json}{id};
is_deeply code($server->post('/v1/responses', { input => 'x', previous_response_id => $id }))->[0], 409, 'one that runs cannot be continued';
is json($server->request('DELETE', "/v1/responses/$id"))->{deleted}, $true, 'one that runs is deleted';
is $server->get("/v1/responses/$id")->{status}, 404, '  and gone';
@all = ();
$socket = $server->connect;
syswrite $socket, LlmServer::raw_post('/v1/responses', encode_json({ input => 'x', max_output_tokens => 400, background => $true, stream => $true }), 'Connection: close');
my $begun = LlmServer::read_until($socket, qr/output_text.delta/);
($id) = $begun =~ /"id":"(resp_\w+)"/;
cancel($id);
@all = events({ content => $begun . LlmServer::read_all($socket) });
is_deeply [@{ $all[-1] }{qw(type)}, $all[-1]{response}{status}], ['response.incomplete', 'cancelled'], 'its stream ends with it';

# ---- refused ------------------------------------------------------------------------------------

is_deeply code(ask(4, store => $false)), [400, q(background can only be used when `store` is true: the client gets the response from the store)], 'one that is not stored';
is code(ask(4, background => 1))->[0], 400, 'a number';
is ask(4000)->{status}, 400, 'one that is too long is refused at once';

# ---- a kill ---------------------------------------------------------------------------------------

$id = ask(400)->{json}{id};
$server->signal('KILL');
is $server->wait_for_end, 'killed by signal 9', 'it is killed';
$server = LlmServer->fake(state => $state);
is_deeply [@{ look($id) }{qw(id status)}, look($id)->{error}{message}], [$id, 'failed', 'the server stopped before the response was complete'], '  a response has failed then';
is look($first->{id})->{status}, 'incomplete', '  one that was over has not';
is cancel($id)->{json}{status}, 'failed', '  and cannot be cancelled';
$id = ask(100)->{json}{id};
is $server->stop, 0, 'a server that ends well';
$server = LlmServer->fake(state => $state);
is look($id)->{usage}{output_tokens}, 100, '  ends its responses first';
is $server->stop, 0, 'it ends well';

# ---- tenants --------------------------------------------------------------------------------------

my $keys = "$state/keys";
LlmServer::write_file($keys, "key-ann ann\nkey-bob bob\n");
chmod 0600, $keys;
$server = LlmServer->serve(Batches::ini($state, "[tenant.ann]\nrequests_at_once = 1\n", "api_keys = $keys\n"));
sub as { my ($key) = @_; return { authorization => "Bearer $key" } }
my %body = (input => 'Tell me', max_output_tokens => 200, background => $true, ignore_eos => $true);
$id = $server->post('/v1/responses', \%body, as('key-ann'))->{json}{id};
is $server->request('GET', "/v1/responses/$id", undef, as('key-bob'))->{status}, 404, 'another tenant has no such response';
is $server->post("/v1/responses/$id/cancel", '', as('key-bob'))->{status}, 404, '  to cancel';
is $server->request('GET', "/v1/responses/$id?stream=true", undef, as('key-bob'))->{status}, 400, '  or to stream';
my $second = $server->post('/v1/responses', \%body, as('key-ann'));
my $ran = json($server->request('GET', "/v1/responses/$id", undef, as('key-ann')))->{status};
SKIP: {
    skip 'the response was over by then', 1 if $ran !~ /queued|in_progress/;
    is $second->{json}{error}{code}, 'too_many_requests_at_once', 'it counts among the requests of its tenant';
}
$server->post("/v1/responses/$id/cancel", '', as('key-ann'));
is $server->post('/v1/responses', { %body, max_output_tokens => 1 }, as('key-ann'))->{status}, 200, '  until it is over';
is $server->stop, 0, 'the server ends well';
done_testing;
