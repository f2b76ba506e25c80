#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Scheduler pipe: a child that ends, is silent or writes nonsense is named in the log, and the simulation goes on
# without it. t/tools/languages.t compares the plans of a policy in Python with those of the same one in C.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use Test::More;

plan skip_all => 'python3 is not installed' if system('command -v python3 >/dev/null 2>&1') != 0;
my $dir = tempdir(CLEANUP => 1);
$ENV{LLS_PLUGIN_PATH} //= abs_path(LlmServer::built('.libs'));
$ENV{LLS_PROFILE_PATH} = abs_path(LlmServer::source('etc/profiles'));
$ENV{PYTHONPATH}       = abs_path(LlmServer::source('python'));
my $sim     = abs_path(LlmServer::built('llmserve-sim'));

# Long prompts among short ones, in a cache that some must leave again.
my $trace = "$dir/trace.csv";
LlmServer::write_file($trace, "arrival_s,prompt_tokens,output_tokens\n" .
    join '', map { $_ / 20 . ',' . ($_ % 8 ? 40 + $_ * 37 % 120 : 900) . ',' . (5 + $_ * 53 % 60) . "\n" } 0 .. 59);

sub simulate {
    my ($scheduler, @options) = @_;
    my $quoted = join ' ', map {"'$_'"} '--model', 'opt-13b', '--profile', 'a100-40g', '--set', 'cache.device_memory=2GiB',
        '--trace', $trace, '--set', "plugins.scheduler=$scheduler", @options;
    my $out = qx('$sim' $quoted 2>'$dir/log');
    return ($?, $out, LlmServer::read_file("$dir/log"));
}
sub pipe_to { my ($command, @options) = @_; return simulate('pipe', '--set', "scheduler.pipe.command=$command", @options) }

# ---- children that do not ---------------------------------------------------------------
# Those that are silent have 300 ms; on a slow machine the others' shell may take longer than that to start.
my $silent = qr/sleep|yes/;
my %wrong = (
    'exit 3'                            => qr/has ended; it ended with status 3/,
    'kill -9 $$'                        => qr/has ended; it was ended by signal 9/,
    '/nowhere/policy'                   => qr/has ended; it ended with status 127/,
    'read line; sleep 600'              => qr/has answered nothing for 0\.3 s; it was killed/,
    'read line; echo hello; cat'        => qr/wrote "hello", which is not JSON/,
    'read line; echo "{}"; cat'         => qr/called \{\}: it is no call of this scheduler/,
    'read line; echo "[\"run\"]"; cat'  => qr/called \["run"\]: argument 1 is not the id of a request that is alive/,
    'read line; echo "[\"mark\"]"; cat' => qr/called \{"plan":|wrote "\d+"|called \d+: it is no call/,
    'exec yes "[\"left\"]"'             => qr/(?:reads|has answered) nothing for 0\.3 s|has made \d+ calls for one plan|has ended/,
    'cat /dev/zero'                     => qr/wrote a line of more than 1 MiB|reads nothing/,
);
for my $command (sort keys %wrong) {
    my $quoted = $command =~ s/'/'\\''/gr;
    my ($status, $out, $log) = pipe_to($quoted, '--set', 'scheduler.pipe.timeout=' . ($command =~ $silent ? '300ms' : '1h'));
    is $status, 0, "$command: the simulation ends";
    like $log, qr/error +scheduler pipe: command ".*" .*$wrong{$command}/, '  and says why' or diag $log;
    is scalar(() = $log =~ /scheduler pipe: command/g), 1, '  once';
}
my ($status, undef, $log) = simulate('pipe');
isnt $status, 0, 'without a command it does not start';
like $log, qr/\bcommand\b/, '  and says so' or diag $log;
done_testing;
