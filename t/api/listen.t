#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Where a server listens: several addresses, IPv6, Unix sockets and their files, and sockets that a
# service manager passes on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Fcntl qw(F_SETFD);
use File::Temp;
use IO::Socket::INET;
use IO::Socket::UNIX;
use LlmServer;
use POSIX ();
use Socket qw(AF_INET6 SOCK_STREAM inet_pton pack_sockaddr_in6);
use Test::More;

my $folder = File::Temp->newdir;
my $model  = '[model]\npath = ' . LlmServer::source('share/demo-model') . '\n[engine]\nthreads = 1\npin = false\n';
$model =~ s/\\n/\n/g;

sub has_v6 {
    socket(my $try, AF_INET6, SOCK_STREAM, 0) or return 0;
    return bind $try, pack_sockaddr_in6(0, inet_pton(AF_INET6, '::1'));
}

# The status of a request through a Unix socket, or why there is none.
sub through {
    my ($path, $what) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => $path) or return "$!";
    syswrite $socket, "GET $what HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n";
    return LlmServer::read_all($socket) =~ m{\AHTTP/1.1 (\d+)} ? $1 : 'none';
}

sub is_here { my ($address) = @_; return LlmServer->new(address => $address, status => 0)->get('/v1/models')->{status} }

my ($one, $two) = map { "$folder/$_.sock" } qw(one two);
my $v6 = has_v6() ? "\nlisten = [::1]:0" : '';
my $server = do {
    umask 0022;
    LlmServer->serve("listen = 127.0.0.1:0, unix:$one\nlisten = 127.0.0.2:0\nlisten = unix:$two:0600$v6\n$model");
};
my ($said)    = $server->log =~ /listening on (.*)/;
my @addresses = split /, /, $said;
like $addresses[0], qr{\Ahttp://127\.0\.0\.1:[1-9]\d*\z}, 'the log names an address';
is $addresses[1], "unix:$one", '  a Unix socket';
is is_here(s{http://}{}r), 200, "  $_ answers" for grep { !/\Aunix:/ } @addresses;
is scalar @addresses, $v6 ? 5 : 4, '  and no other';
is through($_, '/v1/models'), 200, 'a Unix socket answers, for any name' for $one, $two;
is through($one, '/admin/status'), 403, '  not as the administrator\'s';
is sprintf('%o', (stat $one)[2] & 07777), '660', 'its file is of user and group';
is sprintf('%o', (stat $two)[2] & 07777), '600', '  or as it is told';
my $ctl = LlmServer::built('llmserve-ctl');
like qx('$ctl' -a '$_' status 2>&1), qr/admin_keys/, "llmserve-ctl takes $_" for $one, "unix:$one";
like qx('$ctl' -a '$_' status 2>&1), qr/scheduler/, "  and $_" for $addresses[0], $addresses[0] =~ s{http://}{}r;

# ---- reload, and a second server
$server->configure("listen = 127.0.0.1:0\n$model");
my $answer = $server->post('/admin/reload', '');
like $answer->{content}, qr/listen: '127\.0\.0\.1:0' instead of '127\.0\.0\.1:0, unix:.*' needs a restart/, 'a reload says that other addresses need a restart';
is through($one, '/v1/models'), 200, '  and keeps those that are there';
ok !eval { LlmServer->serve("listen = unix:$one\n$model") }, 'a second server does not take a socket in use';
like $@, qr/listen: \Q$one\E: another server listens there/, '  and says why';
ok !eval { LlmServer->serve("listen = $server->{address}\n$model") }, '  nor an address';
like $@, qr/listen: cannot listen on \Q$server->{address}\E: address already in use/, '  of which it says so, too';
LlmServer::write_file("$folder/file", '');
ok !eval { LlmServer->serve("listen = unix:$folder/file\n$model") }, 'a file is not replaced';
like $@, qr/file: there is a file, which is no socket/, '  and this is said';

# ---- the ends of socket files
$server->signal('KILL');
$server->wait_for_end;
ok -S $one, 'a server that was killed leaves its file';
$server = LlmServer->serve("listen = 127.0.0.1:0, unix:$one\n$model");
is through($one, '/v1/models'), 200, '  which the next replaces';
unlink $one;
my $other = IO::Socket::UNIX->new(Listen => 1, Local => $one) or die $!;
is $server->stop, 0, 'it ends well';
ok -S $one, '  and leaves a file that is another\'s by now';
close $other;
$server = LlmServer->serve("listen = 127.0.0.1:0, unix:$one\n$model");
$server->stop;
ok !-e $one, '  but removes its own';

# ---- a server on no port, whose last request is answered
$server = LlmServer->serve("listen = unix:$one\n$model", qr/listening on (unix:\S+)/);
my $late = IO::Socket::UNIX->new(Peer => $one) or die $!;
syswrite $late, "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
is $server->stop, 0, 'a server without a port ends well';
like LlmServer::read_all($late), qr{\AHTTP/1.1 (200|503) }, '  and answers who has asked';

# ---- sockets of a service manager
# Starts the server as systemd does: sockets from 3 on, and three variables about them.
sub activate {
    my ($names, $ini, @sockets) = @_;
    my @fds = map { fileno $_ } @sockets;
    my $script = 'use POSIX; my ($fds, $names, @program) = @ARGV; my @from = split /,/, $fds;
POSIX::dup2($from[$_], 100 + $_), POSIX::dup2(100 + $_, 3 + $_) for 0 .. $#from;
POSIX::close($_) for 3 + @from .. 255;
@ENV{qw(LISTEN_PID LISTEN_FDS LISTEN_FDNAMES)} = ($$, scalar @from, $names);
exec @program';
    fcntl $_, F_SETFD, 0 for @sockets;
    return LlmServer->serve($ini, qr/listening on (\S+)/, $^X, '-e', $script, join(',', @fds), $names);
}
{
    my $tcp  = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1') or die $!;
    unlink $two;
    my $unix = IO::Socket::UNIX->new(Listen => 8, Local => $two) or die $!;
    my $port = $tcp->sockport;
    my $ini  = "listen = 127.0.0.1:1\n$model";
    $server = activate('api:admin', $ini, $tcp, $unix);
    is $server->{address}, "http://127.0.0.1:$port", 'a socket of the service manager takes the place of listen';
    like $server->log, qr/service manager has opened the 2 sockets.*listen is not used/, '  which the log says';
    is is_here("127.0.0.1:$port"), 200, '  it answers';
    is through($two, '/admin/status'), 200, '  and one of the name admin is the administrator\'s';
    is $server->stop, 0, '  it ends';
    ok -S $two, '  without the file, which is not its own';
    my $waits = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die $!;
    syswrite $waits, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    $server = activate('api', $ini, $tcp);
    like LlmServer::read_all($waits), qr{\AHTTP/1.1 (200|503) }, 'who came between two servers is answered by the second';
    $server->stop;
    my $deaf = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1') or die $!;
    ok !eval { activate('api', $ini, $deaf) }, 'a socket that does not listen';
    like $@, qr/socket 3 \('api'\) of the service manager: expected a stream socket that listens/, '  is named';
}
done_testing;
