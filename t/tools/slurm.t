#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# etc/slurm run as a program, without Slurm: two tasks of an array start, are in the list of endpoints
# while they serve, and leave it on SIGTERM, as Slurm sends it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Cwd qw(abs_path);
use Fcntl qw(:flock);
use File::Temp;
use Test::More;
use Time::HiRes ();

my $folder = File::Temp->newdir;
my $demo   = abs_path(LlmServer::source('share/demo-model'));
my $list   = "$folder/llmserve-77.endpoints";
my $host   = qx(hostname -f 2>/dev/null);
plan skip_all => 'curl, flock or a host name is missing'
    if $host eq '' || system('command -v curl >/dev/null && command -v flock >/dev/null') != 0;
LlmServer::write_file("$folder/llmserve.ini", "[model]\npath = $demo\n[engine]\nthreads = 1\npin = false\n");

sub task {
    my ($id) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    @ENV{qw(SLURM_SUBMIT_DIR SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID LLMSERVE)} =
        ("$folder", 77 + $id, 77, $id, abs_path(LlmServer::built('llmserve')));
    open STDERR, '>', "$folder/log$id";
    exec 'bash', abs_path(LlmServer::source('etc/slurm/llmserve.sbatch')), "$folder/llmserve.ini" or die "exec: $!";
}

sub becomes {
    my ($wanted, $what) = @_;
    my $deadline = time + 4 * $LlmServer::TIMEOUT;
    Time::HiRes::sleep(0.05) until $wanted->() || time > $deadline;
    return ok $wanted->(), $what;
}
sub listed { my @lines = sort split /\n/, LlmServer::read_file($list); return @lines }

my @tasks = map { task($_) } 1, 2;
becomes(sub { 2 == listed() }, 'both are in the list') or diag map { LlmServer::read_file("$folder/log$_") } 1, 2;
my @ports = map { /:(\d+)\z/ } listed();
is_deeply \@ports, [27701, 27702], 'each with its port';
for my $port (@ports) {
    is(LlmServer->new(address => "127.0.0.1:$port", status => 0)->get('/ready')->{status}, 200, "  $port serves");
}
kill 'TERM', $tasks[0];
waitpid $tasks[0], 0;
is $?, 0, 'one ends well';
is_deeply [map { /:(\d+)\z/ } listed()], [27702], '  and leaves the list';
# The server has ended before the script looks for it: the lock of the list keeps the script until then.
my ($server) = split ' ', LlmServer::read_file("/proc/$tasks[1]/task/$tasks[1]/children");
open my $lock, '>', "$list.lock" or die "$list.lock: $!";
flock $lock, LOCK_EX or die "flock: $!";
kill 'TERM', $tasks[1], $server;
becomes(sub { !kill(0, $server) }, 'the server of the other ends on a signal of its own');
close $lock;
waitpid $tasks[1], 0;
is $?, 0, '  which ends well too';
is_deeply [listed()], [], '  and leaves the list';

my $version = system('command -v sbatch >/dev/null 2>&1') == 0;
SKIP: {
    skip 'Slurm is not installed', 1 if !$version;
    is system("sbatch --test-only '" . LlmServer::source('etc/slurm/llmserve.sbatch') . "' x >/dev/null 2>&1"), 0, 'sbatch takes it';
}
done_testing;
