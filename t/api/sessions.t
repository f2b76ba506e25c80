#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Sessions as clients name them: OpenAI's, Anthropic's and this server's ways, how they end, when they return, and
# that two tenants with one name have two.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use JSON::PP;
use LlmServer;
use Script;
use Test::More;

my $state  = File::Temp->newdir;
my $script = Script->new(model => "tool_format = hermes\n", answers => ['<tool_call>{"name": "find", "arguments": {}}</tool_call>', 'Found it.'],
    front => Batches::missing() ? '' : "state = $state\n");
my $server = $script->server;
my @tools  = (tools => [{ type => 'function', function => { name => 'find' } }]);
my @ask    = (messages => [{ role => 'user', content => 'Find it. ' }], max_tokens => 60, temperature => 0);

sub sessions { return @{ decode_json($server->get('/admin/sessions')->{content})->{sessions} } }
sub named { my ($name, $tenant) = @_; return grep { $_->{name} eq $name && $_->{tenant} eq ($tenant // '') } sessions() }
sub ask { my ($more, $headers) = @_; return $server->post('/v1/chat/completions', { @ask, max_tokens => 2, %$more }, $headers) }

# ---- OpenAI's chats ----------------------------------------------------------------------
is scalar(sessions()), 0, 'at first there is none';
ask({});
is scalar(sessions()), 0, 'a chat that names none has none';
$script->chat(0, { @ask, @tools, prompt_cache_key => 'agent' });
my ($agent) = named('agent');
is_deeply [@$agent{qw(requests ended_by instance)}], [0, 'tool_call', 0], 'a call of a tool';
cmp_ok $agent->{tokens}, '>=', 600, '  and its tokens';
# Its last blocks are counted in the step after its end.
for (my $deadline = time + $LlmServer::TIMEOUT; $agent->{there}{device} < $agent->{tokens} && time < $deadline;) {
    ($agent) = named('agent');
}
is_deeply $agent->{there}, { device => $agent->{tokens}, host => 0, disk => 0 }, '  which are on the device';
$script->chat(1, { @ask, @tools, prompt_cache_key => 'agent' });
is((named('agent'))[0]{ended_by}, 'stopped', 'its end');
is((named('agent'))[0]{returns_in_seconds}, undef, '  after which nobody knows when it returns');
$script->chat(0, { @ask, @tools, prompt_cache_key => 'agent' });
isnt((named('agent'))[0]{returns_in_seconds}, undef, '  another call: as long as the same tool took');
is((named('agent'))[0]{id}, $agent->{id}, '  all in one session');

ask({ prompt_cache_key => 'agent', user => 'bob' });
my ($bobs) = named('agent', 'bob');
isnt $bobs->{id}, $agent->{id}, 'the same name of another tenant is another session';
is scalar(named('agent')), 1, '  and the first one is as it was';

# ---- this server's headers ---------------------------------------------------------------
ask({ prompt_cache_key => 'other' }, { 'x-session-id' => 'mine', 'x-session-returns' => '30' });
is scalar(named('other')), 0, 'the header wins';
my ($mine) = named('mine');
cmp_ok $mine->{returns_in_seconds}, '<=', 30, '  it returns when the header says';
cmp_ok $mine->{returns_in_seconds} + $mine->{idle_seconds}, '>', 29, '  not earlier';
ask({ prompt_cache_key => "long \x{e9} " . 'x' x 300 });
is scalar(grep { $_->{name} =~ /\A[0-9a-f]{64}\z/ } sessions()), 1, 'a long name becomes its hash';
ask({ prompt_cache_retention => '24h' }, { 'x-session-id' => 'kept' });
cmp_ok((named('kept'))[0]{returns_in_seconds}, '>', 86000, 'how long to keep it');
ask({ prompt_cache_retention => 'in_memory' }, { 'x-session-id' => 'kept' });
is((named('kept'))[0]{returns_in_seconds}, undef, '  in memory: no time');
for ([{ prompt_cache_key => 5 }, {}, 'prompt_cache_key'], [{ prompt_cache_retention => 'long' }, {}, 'prompt_cache_retention'],
    [{}, { 'x-session-returns' => 'soon' }, 'x-session-returns'], [{}, { 'x-session-returns' => -1 }, 'x-session-returns']) {
    my ($more, $headers, $param) = @$_;
    my $answer = ask($more, $headers);
    is_deeply [$answer->{status}, $answer->{json}{error}{param}], [400, $param], "refused: $param";
}

# ---- Anthropic's -------------------------------------------------------------------------
my $message = $server->post('/v1/messages', { max_tokens => 2, metadata => { user_id => 'user_session_1' }, messages => [{ role => 'user', content => [
    { type => 'text', text => 'Hello', cache_control => { type => 'ephemeral', ttl => '1h' } }] }] });
is $message->{headers}{'x-llmserve-ignored'}, undef, 'a hint is not ignored';
my ($claude) = named('user_session_1', 'user_session_1');
cmp_ok $claude->{returns_in_seconds}, '>', 3500, '  it says how long to keep the prompt';

$server->post('/v1/messages', { max_tokens => 2, prompt_cache_key => 'mine', metadata => { user_id => 'user_2' }, messages => [{ role => 'user', content => 'a' },
    { role => 'assistant', content => [{ type => 'tool_use', id => '1', name => 'f', input => {} }] },
    { role => 'user', content => [{ type => 'tool_result', tool_use_id => '1', content => [{ type => 'text', text => 'b', cache_control => { type => 'ephemeral', ttl => '1h' } }] }] }] });
my ($own) = named('mine', 'user_2');
cmp_ok $own->{returns_in_seconds} // 0, '>', 3500, '  a key names the session before user_id does, and a result has a hint, too';

for (['5m', 'cache_control must be an object'], [[], 'cache_control must be an object'], [{}, 'cache_control.type must be "ephemeral"'],
    [{ type => 'forever' }, 'cache_control.type must be "ephemeral"'], [{ type => 'ephemeral', ttl => '2h' }, 'cache_control.ttl must be "5m" or "1h"'],
    [{ type => 'ephemeral', ttl => 3600 }, 'cache_control.ttl must be "5m" or "1h"']) {
    my ($hint, $why) = @$_;
    for my $where (['', cache_control => $hint], ['system.0.', system => [{ type => 'text', text => 'a', cache_control => $hint }]],
        ['messages.0.content.1.', messages => [{ role => 'user', content => [{ type => 'text', text => 'a' }, { type => 'text', text => 'b', cache_control => $hint }] }]]) {
        my ($place, %more) = @$where;
        my $answer = $server->post('/v1/messages', { max_tokens => 2, messages => [{ role => 'user', content => 'a' }], %more });
        is_deeply [$answer->{status}, @{ $answer->{json}{error} }{qw(type message)}], [400, 'invalid_request_error', "$place$why"], "refused: $place$why";
    }
}
is $server->post('/v1/messages', { max_tokens => 2, cache_control => undef, messages => [{ role => 'user', content => 'a' }] })->{status}, 200, '  null is no hint';

# ---- responses ---------------------------------------------------------------------------
SKIP: {
    skip Batches::missing(), 4 if Batches::missing();
    my $n = sessions();
    my $respond = sub { return $server->post('/v1/responses', { input => 'Hello', max_output_tokens => 16, @_ })->{json}{id} };
    my $first  = $respond->();
    my $second = $respond->(previous_response_id => $first);
    is scalar(sessions()), $n + 1, 'a response that continues another is of its session';
    $respond->(previous_response_id => $second, store => JSON::PP::false);
    is scalar(sessions()), $n + 1, '  also if it is not stored';
    my $conversation = $server->post('/v1/conversations', {})->{json}{id};
    $respond->(conversation => $conversation) for 1 .. 2;
    is scalar(named($conversation)), 1, 'a conversation is one';
    is scalar(sessions()), $n + 2, '  and no more';
}

# ---- figures -----------------------------------------------------------------------------
my $idle = sessions();
is $server->metric('llmserve_sessions{state="idle"}'), $idle, 'all are idle';
is $server->metric('llmserve_sessions{state="alive"}'), 0, '  and none is alive';
cmp_ok $server->metric('llmserve_prefix_tokens_total{tier="device"}'), '>', 0, 'prompts were found on the device';
cmp_ok $server->metric('llmserve_sessions_retained_total'), '>', 0, 'calls were kept';
is $server->stop, 0, 'the server ends well';
done_testing;
