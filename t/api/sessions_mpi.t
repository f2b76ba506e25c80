#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Sessions whose requests run in another process: its policies see them, keep what a call of a tool left, and forget
# them when process 0 does; two instances in two processes get back the sessions whose beginnings they have.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use LlmServer;
use Mpi;
use Script;
use Test::More;

my $missing = Mpi::missing();
plan skip_all => $missing if defined $missing;

my $script = Script->new(model => "tool_format = hermes\n", answers => ['<tool_call>{"name": "find", "arguments": {}}</tool_call>', 'Found it.']);
my @tools  = (tools => [{ type => 'function', function => { name => 'find' } }]);
my @ask    = (messages => [{ role => 'user', content => 'Find it. ' }], max_tokens => 60, temperature => 0);
my $server;

sub start {
    my ($engine, $rest) = @_;
    my $config = "[model]\npath = @{[$script->folder]}\ntool_format = hermes\n[engine]\nthreads = 1\npin = false\n"
        . "rank_timeout = ${LlmServer::TIMEOUT}s\n" . $engine . "[cache]\nsession_memory = 16KiB\n" . $rest;
    $script->{server} = $server = LlmServer->serve($config, undef, Mpi::run(2));
    return;
}
sub sessions { return @{ decode_json($server->get('/admin/sessions')->{content})->{sessions} } }
sub named { my ($name) = @_; return grep { $_->{name} eq $name } sessions() }
sub leased { my ($n) = @_; return $server->metric_becomes('llmserve_sessions_leased', $n) }
sub call { my ($name, %more) = @_; return $script->chat(0, { @ask, @tools, prompt_cache_key => $name, %more }) }

# ---- every answer ends in process 1
start("roles = prefill, decode\n", "[plugins]\nscheduler = distserve\n[scheduler.distserve]\naccept_frac = 1\n");
call('agent');
my ($agent) = named('agent');
is_deeply [@$agent{qw(requests ended_by instance)}], [0, 'tool_call', 1], 'a call of a tool ends in another process';
cmp_ok $agent->{tokens}, '>=', 600, '  which has its tokens';
ok leased(1), '  and keeps them, since it is a call';
$script->chat(1, { @ask, @tools, prompt_cache_key => 'agent' });
is((named('agent'))[0]{ended_by}, 'stopped', 'an answer without a call');
ok leased(0), '  ends what the one before had kept';
call('agent');
isnt((named('agent'))[0]{returns_in_seconds}, undef, 'another call: it returns when the tool did');
ok leased(1), '  and is kept again';
my ($last) = named('agent');
is $last->{id}, $agent->{id}, '  all in one session';

# More sessions than the memory for keys is for: process 0 forgets the oldest one, and so does process 1.
call("other-$_") for 1 .. 31;
is scalar(named('agent')), 0, 'a session that process 0 forgets';
my $kept = () = sessions();
ok leased($kept), "  is kept no longer in the other process: $kept are";
Mpi::ends($server, Mpi::pids($server));

# ---- both take arrivals
start("instances = 2\n", '');
my @names = ('a' .. 'd');
my %first = map { $_ => [{ role => 'user', content => "$_ asks: " x 8 }] } @names;
sub turn { my ($name) = @_; return $script->chat(1, { @ask, messages => $first{$name}, prompt_cache_key => $name }, { 'x-session-returns' => 60 }) }
turn($_) for @names;
my %at = map { $_ => (named($_))[0]{instance} } @names;
is_deeply [sort values %at], [0, 0, 1, 1], 'four sessions on two instances';
turn($_) for qw(c b b a d);
is_deeply { map { $_ => (named($_))[0]{instance} } @names }, \%at, '  return to the instance that has their beginning';
ok leased(4), '  and all of them are kept, wherever they are';
Mpi::ends($server, Mpi::pids($server));
done_testing;
