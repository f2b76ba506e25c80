#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve-ctl with a real server: its output and its exit status.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use LlmServer;
use Terminal qw(has_terminal on_terminal);
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K');
my $ini     = "[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n";
my $server  = LlmServer->serve($ini);
my $ctl     = LlmServer::built('llmserve-ctl');
my $file    = "$server->{folder}/llmserve.ini";

sub ctl { my $out = qx('$ctl' @_ 2>&1); return ($? >> 8) . " $out" }
sub here { return ctl("-a $server->{address} -c $file", @_) }

like here('status'), qr{\A0 llmserve    0\.1\.0, ok, serving stories260K since \d{4}-.*^config      \Q$file\E\ngeneration  1, 0 reloads, 0 refused\nscheduler   fcfs 1\.0\n.*^requests    0 running, 0 waiting, 0 preempted\ncache       (\d+) of \1 units free, on the host 0 of 0$}ms, 'status';
like here('plugins'), qr{\A0 scheduler fcfs 1\.0: .*\n  /.*/scheduler_fcfs\.so\n  .*max_seqs = 256\n.*^predictor none 1\.0: }ms, 'plugins';
is here('diff'), "0 no differences\n", 'nothing to tell apart';

$server->configure("log_level = debug\n$ini\[cache]\nblock_tokens = 8\n[plugins]\nscheduler = sarathi\n[scheduler.sarathi]\nchunk = 64\n");
my $diff = here('diff');
like $diff, qr/\A1 /, 'the file says something else';
like $diff, qr/^(?:1 )?\[server\] log_level: 'info' runs, the file says 'debug'$/m, '  what a reload changes';
like $diff, qr/^\[cache\] block_tokens: '16' runs, the file says '8': needs a restart$/m, '  and what it can not';
like $diff, qr/^\[plugins\] scheduler: 'fcfs' runs, the file says 'sarathi'$/m, '  another policy';
like $diff, qr/^\[scheduler\.sarathi\] chunk: '\(nothing\)' runs, the file says '64'$/m, '  with its parameters';
like here('reload'), qr/\A1 llmserve-ctl: refused: .*block_tokens: '8' instead of '16' needs a restart\n\z/, 'a reload that is refused says why';

$server->configure("$ini\[plugins]\nscheduler = sarathi\n");
like here('reload'), qr/\A0 generation 2: scheduler: fcfs 1\.0 replaced by sarathi 1\.0\n\z/, 'reload';
is here('diff'), "0 no differences\n", 'no difference any more';
like here('status'), qr/^generation  2, 1 reload, 1 refused$/m, 'a reload is one';
like here('status'), qr/^last reload \d{4}-\S+ \S+ worked: scheduler: fcfs 1\.0 replaced by sarathi 1\.0$/m, 'which status tells';

like here('queues'), qr/\A0 instance 0, mixed: scheduler sarathi\n +id state .*\n  the scheduler's own words:\n  order: .*\n  chunk 512\n/, 'queues';

my $watch = open(my $out, '-|', "exec '$ctl' -a $server->{address} watch") or die $!;
my $lines = join '', map { scalar <$out> // '' } 1 .. 3;    # a line a second
kill 'TERM', $watch;
close $out;
like $lines, qr{\Astate     gen  running waiting preempted  units free    steps/s\nok          2        0       0         0 +\d+          -\nok          2        0       0         0 +\d+        0\.0\n}, 'watch';

# ---- JSON, and a page --------------------------------------------------------------------

sub json { my ($out) = here('--json', @_) =~ /\A0 (.*)\z/s; return JSON::PP->new->utf8->decode($out // 'null') }
is json('status')->{plugins}{scheduler}{name}, 'sarathi', 'status as JSON';
is json('queues')->{instances}[0]{scheduler}, 'scheduler sarathi', '  and queues';
is_deeply json('diff'), [], '  and differences, of which there are none';
is json('reload')->{generation}, 3, '  and a reload';
$server->configure("log_level = debug\n$ini\[plugins]\nscheduler = sarathi\n");
my ($differs) = here('-j diff') =~ /\A1 (.*)\z/s;
is_deeply(JSON::PP->new->decode($differs // 'null'), [{ section => 'server', key => 'log_level', running => 'info', file => 'debug', needs_restart => JSON::PP::false }], '  and a difference');
$watch = open($out, '-|', "exec '$ctl' -j -a $server->{address} watch") or die $!;
my $object = JSON::PP->new->utf8->decode(scalar <$out> // 'null');
kill 'TERM', $watch;
close $out;
is $object->{generation}, 3, '  and watch, an object a line';
like here('-j top'), qr/\A2 .*watch --json/, '  but not top';

my $client = fork // die "fork: $!";
if ($client == 0) { # answers while top reads
    $server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 200, ignore_eos => JSON::PP::true }) while 1;
}
my $page = here('top');
kill 'KILL', $client;
waitpid $client, 0;
like $page, qr{\A0 llmserve 0\.1\.0  ok  stories260K  sarathi \+ paged \+ none \+ none$}m, 'top: its title';
like $page, qr{^tokens/s   \d+ of prompts  [1-9]\d* of answers\nsteps      [1-9]\S*/s  of \S+ ms  with \S+ tokens\nfirst token  p50 \S+}m, '  rates of the past second';
like $page, qr{^cache      \[#?-+\] \d+ %}m, '  and the cache';
unlike $page, qr/\e/, '  without control sequences where there is no terminal';
SKIP: {
    skip 'no script, which makes a terminal', 3 if !has_terminal();
    my $top = "'$ctl' -a $server->{address} top"; # until its first page is whole
    like on_terminal("env -u NO_COLOR $top", qr/\e\[J/), qr/\e\[1mllmserve/, '  bold on a terminal';
    my $plain = on_terminal("env NO_COLOR=1 $top", qr/\e\[J/);
    like $plain, qr/\e\[Hllmserve 0\.1\.0/, '  with NO_COLOR a page, too';
    unlike $plain, qr/\e\[[\d;]*m/, '  but not bold';
}
like ctl("-a 127.0.0.1:1 -c /nowhere top"), qr/\A3 llmserve-ctl: no llmserve at 127\.0\.0\.1:1/, '  and no server';

like ctl("-a $server->{address} -c /nowhere diff"), qr{\A2 .*/nowhere}, 'a file that is not there';
like here('nonsense'), qr/\A2 llmserve-ctl: no command 'nonsense'/, 'no such command';
like ctl(''), qr/\A2 Usage: /, 'no command';
like ctl('--help'), qr/\A0 Usage: .*drain/s, 'help';
like ctl('-c /nowhere --version'), qr/\A0 llmserve-ctl 0\.1\.0$/, 'version';
# ---- keys -----------------------------------------------------------------------------
my $folder = $server->{folder};
LlmServer::write_file("$folder/admins", "# ops\nsk-root ops\n");
LlmServer::write_file("$folder/users",  "sk-ann ann\n");
LlmServer::write_file("$folder/empty",  "");
my $plugins = "[plugins]\nscheduler = sarathi\n";
$server->configure("api_keys = users\n$ini$plugins");
like here('reload'), qr/\A0 generation 4/, 'keys are wanted';
like here('status'), qr/\A0 llmserve/, '  one of which the file of the server names';
like ctl("-a $server->{address} -c /nowhere status"), qr/\A1 llmserve-ctl: refused: this server wants an API key/, '  without the file there is none';
$server->configure("admin_keys = admins\napi_keys = users\n$ini$plugins");
like ctl("-a $server->{address} -c /nowhere -k $folder/users reload"), qr/\A0 generation 5/, '  or it is named';
like here('status'), qr/\A0 llmserve/, 'an admin\'s comes before';
like here("-k $folder/users", 'status'), qr/\A1 llmserve-ctl: refused: this API key is no admin's: \/admin\/status wants one of \[server\] admin_keys\n\z/, 'a user\'s is refused';
like here("-k $folder/empty", 'status'), qr/\A2 llmserve-ctl: \S+empty: there is no key in it/, 'a file without';
{
    local $ENV{LLMSERVE_ADMIN_KEY} = 'sk-root';
    like ctl("-a $server->{address} -c /nowhere status"), qr/\A0 llmserve/, 'one of the environment';
}

is here('drain'), "0 draining\n", 'drain';
is $server->wait_for_end, 3, 'ends the server, with the status of a drain over HTTP';
like $server->log, qr{ warning +server: /admin/drain, asked for by .+: finishing what runs, at most 30 s, then exit status 3$}m, '  and the log says who asked';
like here('status'), qr/\A3 llmserve-ctl: no llmserve at \Q$server->{address}\E: Connection refused\n\z/, 'and then nobody answers';
done_testing;
