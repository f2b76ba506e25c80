#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Two processes of a [cluster] that reach the front end but not each other: prompts that one
# computed are computed again by the other, which gets no blocks of them, until blocks arrive
# again. No answer differs or fails.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Cluster;
use Golden;
use Spaces;
use Streams;
use Test::More;
use Time::HiRes qw(time);

my $missing = Cluster::missing() // Spaces::missing();
plan skip_all => $missing if defined $missing;

my $spaces = Spaces->new(3);
my $folder = File::Temp->newdir;
LlmServer::write_file("$folder/keys", "admin-of-the-test\n");
chmod 0600, "$folder/keys";
my $config = "[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nrank_timeout = ${LlmServer::TIMEOUT}s\nroles = prefill, prefill, decode\n"
    . "[cache]\ndevice_memory = 512KiB\n[cache.paged]\nprefix_sharing = off\n[plugins]\nscheduler = distserve\n";

sub start {
    my ($i, $cluster, $said) = @_;
    my $server = LlmServer->serve('listen = ' . $spaces->address($i) . ":8080\nadmin_keys = $folder/keys\n$config" . "[cluster]\n$cluster = " . $spaces->address(0) . ":7000\n", $said, $spaces->within($i));
    $server->{http} = HTTP::Tiny->new(timeout => $LlmServer::TIMEOUT, keep_alive => 0, default_headers => { Authorization => 'Bearer admin-of-the-test' });
    $server->{address} = $spaces->address(0) . ':8080';
    return $server;
}

my $front = start(0, 'listen', qr/(other processes can join)/);
my ($prefill, $decode) = (start(1, 'join', qr/it is instance (1)/), start(2, 'join', qr/it is instance (2)/));
Cluster::becomes($front, 'up up up');
my $streams = Streams->new($front, clients => 6, tokens => 24, prompts => [map { $_->{prompt_ids} } @Golden::ANSWERS]);
$streams->learn;
is $streams->{answers}[$_], join(' ', @{ $Golden::ANSWERS[$_]{greedy_ids} }[0 .. 23]), "\"$Golden::ANSWERS[$_]{prompt}\"" for 0 .. $#Golden::ANSWERS;

# Runs the clients until the process logs that.
sub until_log {
    my ($server, $pattern, $name) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    $streams->run(sub { $server->log =~ $pattern || time > $deadline });
    like $server->log, $pattern, $name;
    return;
}

# Runs the clients for this many answers.
sub answered {
    my ($n) = @_;
    my ($until, $deadline) = ($streams->{done} + $n, time + $LlmServer::TIMEOUT);
    $streams->run(sub { $streams->{done} >= $until || time > $deadline });
    cmp_ok $streams->{done}, '>=', $until, "  $n answers";
    return;
}

$spaces->split(1, 1, 2);
until_log($decode, qr/from instance 1 to 2: blocks do not arrive/, 'blocks that do not arrive are given up');
answered(12);
is Cluster::states($front), 'up up up', '  nobody is lost';
$spaces->split(0, 1, 2);
until_log($decode, qr/from instance 1 to 2: blocks arrive again/, 'they arrive again');
answered(12);
$streams->finish;
is_deeply $streams->{wrong}, [], 'no answer differs, fails or stops';
is $_->stop, 0, '  it ends well' for $decode, $prefill, $front;
done_testing;
