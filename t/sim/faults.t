#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Plugins that crash, exit or make invalid plans in the simulator: it reports them in the
# server's words, and marks results that are no longer the scheduler's.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../api";
use LlmServer;
use Sim;
use Test::More;

my $fault = LlmServer::built("t/fault/.libs");
my @load  = ('--profile', profile('ten.ini'), '--trace', write_file('three.csv', "arrival_s,prompt_tokens,output_tokens\n0,40,30\n0.005,50,40\n0.025,60,20\n"));

sub ini {
  my ($name, $parameters) = @_;
  return write_file("$name.ini", "[model]\npath = $source/t/data/models/llama\nload_format = dummy\n[cache]\ndevice_memory = 1MiB\n[engine]\nmax_context = 512\n"
      . "[plugins]\nscheduler = $fault/scheduler_$name.so\n[scheduler.$name]\n$parameters\n");
}

SKIP: {
  skip 'a sanitizer has the last word', 1 if LlmServer::sanitized();
  my %said = (null_pointer => 'SIGSEGV', abort => 'SIGABRT', exit => 'exit\(\) was called', _exit => '_exit\(\) was called');
  for my $how (sort keys %said) {
    my (undef, undef, $err) = run('llmserve-sim', '-c', ini('crashing', "how = $how"), @load);
    isnt $?, 0, "$how: the simulator fails";
    like $err, qr/^llmserve: $said{$how} while plan of the scheduler crashing 1\.0 \(\Q$fault\E/m, '  and says who did it';
  }
}

my $bad = ini('garbage', 'how = zero');
my $good = write_file('fcfs.ini', read_file($bad) =~ s/scheduler = .*/scheduler = fcfs/r =~ s/\[scheduler\.garbage\]\n.*//sr);
my ($status, $out, $err) = run('llmserve-sim', '--policies', "$good,$bad", '--result-dir', "$folder/runs", @load);
is $status, 0, '--policies: a scheduler that plans garbage ends no comparison' or diag $err;
like $out, qr/garbage.*\n +! garbage was switched off for its plans: from then on the numbers are of the built-in order/, '  its row is marked' or diag $out;
is scalar(() = $out =~ /switched off/g), 1, '  and no other';
done_testing;
