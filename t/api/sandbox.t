#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [server] sandbox: what a plugin of a running server can access with it and without; the
# server itself serves, reloads and writes its files as usual.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IO::Socket::INET;
use IO::Socket::UNIX;
use JSON::PP;
use LlmServer;
use Test::More;

plan skip_all => 'a sanitizer has files and system calls of its own' if LlmServer::sanitized();
plan skip_all => 'valgrind has neither Landlock nor seccomp' if LlmServer::under();

my $demo    = LlmServer::source('share/demo-model');
my $prying  = LlmServer::built('t/fault/.libs/scheduler_prying.so');
my $outside = File::Temp->newdir;
my $state   = File::Temp->newdir;
my $other   = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1') or die $!;
my $unix    = IO::Socket::UNIX->new(Listen => 64, Local => "$outside/socket") or die $!;
LlmServer::write_file("$outside/secret", 'x');
my $has_state = -e LlmServer::built('core/batch/store.lo') ? "state = $state/new\n" : '';

sub ini {
    my ($sandbox, $scheduler) = @_;
    return "sandbox = $sandbox\ndecisions = $state/decisions\n$has_state" . "[model]\npath = $demo\n[engine]\ndevice = cpu\nthreads = 1\npin = false\n"
      . "[plugins]\nscheduler = $scheduler\n[scheduler.prying]\nread = $outside/secret\nwrite = $outside/made\nsocket = $outside/socket\nport = " . $other->sockport . "\n";
}

# A reload to the plugin that pries needs it where plugins are.
my $plugins = File::Temp->newdir;
system('cp', $prying, "$plugins/scheduler_prying.so") == 0 or die;
$ENV{LLS_PLUGIN_PATH} = "$plugins:$ENV{LLS_PLUGIN_PATH}";

sub found { my ($server) = @_; my ($line) = $server->log =~ /prying: (read .*)/; return $line }

sub serve {
    my ($sandbox) = @_;
    my $server = LlmServer->serve(ini($sandbox, 'fcfs'));
    my $status = decode_json($server->get('/admin/status')->{content});
    is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 4 })->{status}, 200, "$sandbox: it serves";
    $server->configure(ini($sandbox, 'prying'));
    is $server->post('/admin/reload', '')->{status}, 200, '  and reloads to a plugin' or diag $server->log;
    my $found = found($server);
    $server->configure(ini($sandbox, 'sarathi'));
    is $server->post('/admin/reload', '')->{status}, 200, '  and to another';
    is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 4 })->{status}, 200, '  and serves';
    return ($server, $status->{sandbox}, $found);
}

my ($server, $status, $found) = serve('off');
is_deeply $status, { files => 'off: [server] sandbox is off', calls => 'off: [server] sandbox is off' }, '  the status says that there is none';
like $found, qr/^read 0, write 0, .*shm 0, program 0, .*memory 0, .*connect 0, fast_open 0, udp 0, .*unix 0, listen 0, call 0, signal 0, /,
    '  a plugin reaches everything';
is $server->stop, 0, '  and ends';
unlink "$outside/made", "$state/decisions";

($server, $status, $found) = serve('auto');
my ($abi)    = $status->{files} =~ /\ALandlock (\d+), \d+ places are written\z/;
my $filtered = $status->{calls} =~ /\Aseccomp, \d+ system calls are left\z/;
ok defined $abi || $status->{files} =~ /\Aoff: this kernel has no Landlock/, '  the status says what it gave up of files' or diag $status->{files};
ok $filtered || $status->{calls} =~ /\Aoff: .*seccomp/, '  and of system calls' or diag $status->{calls};
like $server->log, qr/info +sandbox: files: \Q$status->{files}\E\n/, '  so does the log';
like $server->log, qr/info +sandbox: system calls: \Q$status->{calls}\E\n/, '  of both';

# The error of each attempt that the plugin must have found, by the layers that the kernel has:
# either may be the first to refuse.
sub expect {
    my ($on) = @_;
    my %want = (read => $on ? qr/EACCES/ : qr/0/);
    @want{qw(write core_pattern shm program)} = (qr/EACCES|EROFS/) x 4 if defined $abi;
    @want{qw(connect fast_open udp mptcp unix listen)} = (qr/ENOSYS|EPERM/) x 6 if $filtered;
    @want{qw(execveat call unshare io_uring ptrace vm_write keyctl bpf userfaultfd mount)} = (qr/ENOSYS/) x 10 if $filtered;
    $want{program}   = qr/EPERM|EACCES/ if $filtered;
    $want{namespace} = qr/EPERM/ if $filtered;
    @want{qw(linker memory)} = (qr/EPERM|EACCES/) x 2 if $filtered && $on;
    $want{signal} = qr/EPERM/ if ($abi // 0) >= 6;
    return \%want;
}

sub is_found {
    my ($line, $want, $name) = @_;
    my %found = split /,? /, $line;
    my @wrong = grep { $found{$_} !~ /\A(?:$want->{$_})\z/ } sort keys %$want;
    is "@wrong", '', $name or diag $line;
}
is_found($found, expect(0), '  a plugin reads what it wants, and no more');
ok !-e "$outside/made", '  it made no file' if defined $abi;
my ($seccomp) = LlmServer::read_file("/proc/$server->{pid}/status") =~ /^Seccomp:\s+(\d)/m;
is $seccomp, 2, '  every thread has the filter' if $filtered;
is scalar(grep { !/^Seccomp:\s+2/m } map { LlmServer::read_file($_) } glob "/proc/$server->{pid}/task/*/status"), 0, '    indeed' if $filtered;
is_deeply [grep { /io_uring/ } map { readlink // () } glob "/proc/$server->{pid}/fd/*"], [], '  the event loop waits without io_uring, which is refused';
ok -d "$state/new", '  a folder for the state was made' if $has_state;
is $server->stop, 0, '  and ends';
ok -s "$state/decisions", '  decisions were written';

if (!defined $abi || !$filtered) {
    ok !eval { LlmServer->serve(ini('on', 'fcfs')); 1 }, 'on: no start where the kernel or the build lacks it';
    like $@, qr/\[server\] sandbox: /, '  which is said';
    done_testing;
    exit;
}
($server, $status, $found) = serve('on');
like $status->{files}, qr/\ALandlock $abi, \d+ places are read, \d+ written\z/, '  the status says that';
is_found($found, expect(1), '  a plugin reads nothing else either, and runs no program by any way');
is $server->post('/admin/whatif', { policies => ['fcfs'] })->{status}, 409, '  no other program is run for /admin/whatif';
$server->configure(ini('on', $prying));
my $refused = $server->post('/admin/reload', '');
is $refused->{status}, 409, '  nor does a reload';
like $refused->{json}{error}{message}, qr/cannot open: Permission denied \([^)]*\[server\] sandbox/, '  whose sentence says why' or diag $refused->{content};
is $server->stop, 0, '  and ends';
done_testing;
