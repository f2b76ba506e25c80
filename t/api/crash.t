#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# A plugin that crashes ends the process: by the crash's own signal, and with the
# plugin's and the callback's name in the log.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Test::More;

my $stories = LlmServer::source('t/data/models/stories260K');
my $plugin  = LlmServer::built('t/fault/.libs/scheduler_crashing.so');
plan skip_all => 'a sanitizer has the last word' if LlmServer::sanitized();

my %signal = (null_pointer => ['SIGSEGV', 11], abort => ['SIGABRT', 6], recursion => ['SIGSEGV', 11],
    smashed_stack => ['SIGABRT', 6], exit => ['exit() was called', 1],
    quick_exit => ['exit() was called', 1], _exit => ['_exit() was called', 1], _Exit => ['_Exit() was called', 1]);
for my $how (sort keys %signal) {
    my ($name, $number) = @{ $signal{$how} };
    my $server = LlmServer->serve("[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n"
        . "[plugins]\nscheduler = $plugin\n[scheduler.crashing]\nhow = $how\n");
    my $socket = $server->connect;
    syswrite $socket, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":3}');
    my $status = $how =~ /exit/i ? $number : "killed by signal $number";
    is $server->wait_for_end, $status, "$how: the status is the crash's";
    like $server->log, qr/^llmserve: \Q$name\E while plan of the scheduler crashing 1\.0 \(\Q$plugin\E\) was running$/m, '  the log names it';
    next if $how eq 'smashed_stack';    # nothing to walk
    like $server->log, qr/^  scheduler crashing\+0x[0-9a-f]+$/m, '  and has a backtrace';
}
done_testing;
