#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# etc/kubernetes/processes/start between two namespaces, as in the pods of a group: the worker accepts
# the leader by ssh, instances are processes in both, and after SIGTERM running requests are completed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../api";
use LlmServer;
use Golden;
use Machines;
use Mpi;
use File::Temp;
use Test::More;

my $missing = Mpi::missing() // Machines::missing();
$missing = 'there is no sshd' if !defined $missing && !-x '/usr/sbin/sshd';
$missing = 'this mpirun ends all processes when one dies' if !defined $missing && !Mpi::recovery();
plan skip_all => $missing if defined $missing;

my $start    = LlmServer::source('etc/kubernetes/processes/start');
my $machines = Machines->new(mbit => 0);
my $keys     = File::Temp->newdir;
system("ssh-keygen -q -t ed25519 -N '' -f $keys/id_ed25519 && cp $keys/id_ed25519.pub $keys/authorized_keys") == 0 or die;
my $made = mkdir '/run/sshd';    # sshd of root wants it

my @names = @{ $machines->{names} };
for my $name (@names) {
    mkdir $_ for '/etc/netns', "/etc/netns/$name";
    LlmServer::write_file("/etc/netns/$name/hosts", "127.0.0.1 localhost\n10.98.0.1 group-0 group-0.pods\n10.98.0.2 group-0-1 group-0-1.pods\n");
}

sub pod {
    my ($index) = @_;
    my $host = $index ? "group-0-$index" : 'group-0';
    return ('ip', 'netns', 'exec', $names[$index], 'unshare', '--uts', 'sh', '-c', "hostname $host; exec \"\$\@\"", 'x', 'env', "SSH_FOLDER=$keys",
        'LWS_LEADER_ADDRESS=group-0.pods', 'LWS_GROUP_SIZE=2', "LWS_WORKER_INDEX=$index", $start);
}

my $worker = fork // die;
if ($worker == 0) {
    open STDERR, '>', "$keys/log" or die;
    exec pod(1) or die;
}
Mpi::run(2);    # its environment
$ENV{MPIRUN_OPTIONS} = join ' ', '--mca btl tcp,vader,self --mca btl_tcp_if_include 10.98.0.0/24 --mca oob_tcp_if_include 10.98.0.0/24', map { "-x $_" } grep { /\ALLS_/ } keys %ENV;
my $server = LlmServer->serve('listen = ' . $machines->address . "\n[model]\npath = $Golden::MODEL\n[engine]\nthreads = 1\npin = false\nroles = prefill, decode\n"
    . "[cache]\ndevice_memory = 2MiB\n[plugins]\nscheduler = distserve\n", undef, pod(0));
like $server->log, qr/2 instances are processes \(mpi\)/, 'the leader starts a process in each pod';
my @ids = Golden::all_at_once($server, 2);
is_deeply $ids[$_], [($Golden::ANSWERS[$_]{greedy_ids}) x 2], "  \"$Golden::ANSWERS[$_]{prompt}\"" for 0 .. $#Golden::ANSWERS;
like LlmServer::read_file("$keys/log"), qr/Accepted publickey/, '  by ssh';
cmp_ok $server->metric('llmserve_taken_over_total'), '>', 0, '  which takes over what is prefilled here';

my $socket = $server->connect;
syswrite $socket, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":450,"ignore_eos":true,"stream":true}', 'Connection: close');
my $answer = LlmServer::read_until($socket, qr/"text"/);
$server->signal('TERM');
$answer .= LlmServer::read_all($socket);
like $answer, qr/\[DONE\]/, 'SIGTERM: what runs is finished';
unlike $answer, qr/"error"/, '  without an error';
is $server->wait_for_end, 0, '  and the leader ends well';
kill 'TERM', $worker;
waitpid $worker, 0;

END {
    local ($?, $@);
    kill 'TERM', $worker if $worker;
    unlink "/etc/netns/$_/hosts" and rmdir "/etc/netns/$_" for @names;
    rmdir '/etc/netns';
    rmdir '/run/sshd' if $made;
}
done_testing;
