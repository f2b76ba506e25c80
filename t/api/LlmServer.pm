# SPDX-License-Identifier: Apache-2.0
# A server under test: started on a free port, accessed by HTTP::Tiny or over a plain
# socket, and stopped; its exit status is checked by the test that used it.
package LlmServer;

use strict;
use warnings;
use File::Temp;
use HTTP::Tiny;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Test::More ();
use Time::HiRes ();

my $BEGAN    = time;
our $TIMEOUT = $ENV{LLS_TIMEOUT} // 60;    # seconds until a read that must not hang fails

# A program that servers are run under, such as valgrind with its options.
sub under { return split ' ', $ENV{LLS_UNDER} // '' }

sub source { my ($path) = @_; return ($ENV{LLS_SRCDIR} // '.') . "/$path" }
sub built  { my ($path) = @_; return ($ENV{LLS_BUILDDIR} // '.') . "/$path" }

# True if llmserve was built with a sanitizer, which handles crashes itself.
sub sanitized {
    return grep { -e && qx(nm -D '$_' 2>&1) =~ /__(asan|tsan)_/ } built('llmserve'), built('.libs/llmserve');
}

# The rounds 1 to n of a test that looks for the same at moments of their own: with sanitizers, under which a
# server takes many times as long to start, to serve and to end, every third.
sub rounds {
    my ($n) = @_;
    return sanitized() ? grep { $_ % 3 == 0 } 1 .. $n : 1 .. $n;
}

$ENV{PYTHONDONTWRITEBYTECODE} = 1; # clients import each other; the source tree stays as it is

# Makes a virtual environment of Python with these packages, once, for check-clients with their newest versions each
# time; why there is none.
sub make_venv {
    my ($venv, @packages) = @_;
    return if !$ENV{LLS_CLIENTS} && -e "$venv/ready" && read_file("$venv/ready") eq "@packages";
    return 'python3 is not installed' if system('command -v python3 >/dev/null 2>&1') != 0;
    return 'python3 has no venv (Debian: python3-venv)' if system("python3 -m venv '$venv' >/dev/null 2>&1") != 0;
    # one quick try: where no package index is reached, this is no reason to wait; who asks for clients wants to
    my ($limit, $tries) = $ENV{LLS_CLIENTS} ? (1800, '--timeout 60 --retries 2') : (300, '--timeout 10 --retries 0');
    my $pip = "'$venv/bin/python' -m pip --disable-pip-version-check $tries install -q -U --no-compile @packages";
    my $status = system("timeout $limit $pip >'$venv/pip.log' 2>&1") >> 8;
    return "pip took more than $limit s" if $status == 124;
    return 'no package index is reached' if $status != 0;
    write_file("$venv/ready", "@packages");
    return;
}

# LlmServer->fake(period => 5, ...): see t/api/fake_server.c for the names.
sub fake {
    my ($class, %options) = @_;
    my @settings = map { "$_=$options{$_}" } sort keys %options;
    return $class->start(built('t/api/fake_server'),
        source('t/data/models/stories260K'), @settings);
}

# Starts a program that prints "host:port" as its first line.
sub start {
    my ($class, @command) = @_;
    my $log = $ENV{LLS_TEST_LOG} // '/dev/null';
    my $pid = open(my $out, '-|') // die "fork: $!";
    if ($pid == 0) {
        open(STDERR, '>>', $log);
        exec(under(), @command) or die "exec $command[0]: $!";
    }
    my $address = <$out>;
    die "$command[0] did not start\n" unless defined $address;
    chomp $address;
    # Perl waits for the program where the pipe is closed: not here.
    return $class->new(pid => $pid, address => $address, out => $out);
}

# LlmServer->serve('[model] ...'): llmserve itself with this configuration, on a free port;
# ready, or where a pattern is given as soon as the log has it, with the address as $1;
# perhaps started by a launcher such as mpirun.
sub serve {
    my ($class, $ini, $said, @launcher) = @_;
    $said //= qr{listening on http://([\w.:\[\]]+)};
    my $folder = File::Temp->newdir;
    write_file("$folder/llmserve.ini", whole($ini));
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open(STDERR, '>', "$folder/log");
        exec(@launcher, under(), built('llmserve'), '-c', "$folder/llmserve.ini") or die "exec: $!";
    }
    my $self = $class->new(pid => $pid, folder => $folder);
    my $deadline = Time::HiRes::time() + 4 * $TIMEOUT;
    until (($self->{address}) = $self->log =~ $said) {
        die "llmserve did not start:\n" . $self->log
            if waitpid($pid, POSIX::WNOHANG()) != 0 || Time::HiRes::time() > $deadline;
        Time::HiRes::sleep(0.02);
    }
    return $self;
}

sub new {
    my ($class, %self) = @_;
    $self{http} = HTTP::Tiny->new(timeout => 4 * $TIMEOUT, keep_alive => 0);
    return bless \%self, $class;
}

# Puts another configuration in place, at once, as an editor does.
sub configure {
    my ($self, $ini) = @_;
    write_file("$self->{folder}/new", whole($ini));
    rename "$self->{folder}/new", "$self->{folder}/llmserve.ini" or die "$self->{folder}: $!";
    return;
}

# A configuration that begins within [server]; on a free port of ours if it does not say.
# [cluster] has a `listen`, too.
sub whole { my ($ini) = @_; return "[server]\n" . ($ini =~ /\A(?:(?!\[).*\n)*listen = / ? '' : "listen = 127.0.0.1:0\n") . $ini }

sub write_file {
    my ($path, $text) = @_;
    open(my $file, '>', $path) or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
    return;
}

sub read_file {
    my ($path) = @_;
    open(my $file, '<', $path) or return '';
    local $/;
    return scalar(<$file>) // '';
}

# The log of llmserve so far.
sub log { my ($self) = @_; return read_file("$self->{folder}/log") }

sub signal { my ($self, $name) = @_; kill $name, $self->{pid}; return }

# It doesn't end: it is told to once more, which mpirun passes on, and killed then.
sub give_up {
    my ($self) = @_;
    Test::More::diag("it does not end\n" . $self->log) if !$self->{given_up};
    $self->signal($self->{given_up}++ ? 'KILL' : 'TERM');
    alarm 10;
    return;
}

# Waits for the end; the exit status, or a text that names the signal.
sub wait_for_end {
    my ($self) = @_;
    return $self->{status} if defined $self->{status};
    local $SIG{ALRM} = sub { $self->give_up };
    alarm 4 * $TIMEOUT;
    waitpid $self->{pid}, 0;
    alarm 0;
    $self->{status} = ($? & 127) ? 'killed by signal ' . ($? & 127) : $? >> 8;
    Test::More::diag("it ended by abort()\n" . $self->log) if ($? & 127) == 6;
    delete $self->{out};
    return $self->{status};
}

sub stop {
    my ($self) = @_;
    $self->signal('TERM');
    return $self->wait_for_end;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $!);
    $self->stop unless defined $self->{status};
    return;
}

# ---- whole requests -------------------------------------------------------------------

sub request {
    my ($self, $method, $path, $body, $headers) = @_;
    my %options = (headers => { %{ $headers // {} } });
    if (defined $body) {
        $options{content} = ref $body ? JSON::PP->new->utf8->encode($body) : $body;
        $options{headers}{'content-type'} //= 'application/json';
    }
    return $self->{http}->request($method, "http://$self->{address}$path", \%options);
}

sub get { my ($self, $path, $headers) = @_; return $self->request('GET', $path, undef, $headers) }

sub post {
    my ($self, $path, $body, $headers) = @_;
    my $answer = $self->request('POST', $path, $body, $headers);
    $answer->{json} = eval { JSON::PP->new->utf8->decode($answer->{content}) };
    return $answer;
}

# The data of each event of a stream, decoded but for [DONE].
sub events {
    my ($answer) = @_;
    my @events = split /\n\n/, $answer->{content};
    return map { s/\Adata: // ? ($_ eq '[DONE]' ? $_ : JSON::PP->new->utf8->decode($_)) : die "not an event: $_" }
        @events;
}

# A test: the second is of this test's time, however long that is; clocks differ by a tick.
sub is_recent {
    my ($time, $name) = @_;
    my $recent = $time >= $BEGAN - 1 && $time <= time + 2; # whole seconds, of a clock that may lag by some ms
    return Test::More::ok($recent, $name) || Test::More::diag("$time is not from $BEGAN to " . time);
}

# One sample of /metrics by its name and labels, as written there.
sub metric {
    my ($self, $name) = @_;
    my $page = $self->get('/metrics')->{content};
    return $page =~ /^\Q$name\E (\S+)$/m ? $1 : undef;
}

# Asks until the metric has the value, for something that happens soon but not now.
sub metric_becomes {
    my ($self, $name, $value) = @_;
    my $deadline = Time::HiRes::time() + $TIMEOUT;
    my $seen;
    while (Time::HiRes::time() < $deadline) {
        $seen = $self->metric($name);
        return 1 if defined $seen && $seen == $value;
        Time::HiRes::sleep(0.01);
    }
    Test::More::diag("$name is " . ($seen // 'missing') . ", not $value");
    return 0;
}

# Looks until the log has such a line.
sub log_becomes {
    my ($self, $pattern) = @_;
    my $deadline = Time::HiRes::time() + $TIMEOUT;
    until ($self->log =~ $pattern) {
        return 0 if Time::HiRes::time() > $deadline;
        Time::HiRes::sleep(0.01);
    }
    return 1;
}

# ---- bare sockets ---------------------------------------------------------------------

sub connect {
    my ($self, %options) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => $self->{address}, Proto => 'tcp', %options)
        or die "connect: $@";
    $socket->autoflush(1);
    return $socket;
}

# Reads until the text matches, the other side closes, or time runs out; what came.
sub read_until {
    my ($socket, $pattern) = @_;
    my $text = '';
    my $select = IO::Select->new($socket);
    while (!defined $pattern || $text !~ $pattern) {
        return $text . '<timeout>' unless $select->can_read($TIMEOUT);
        my $n = sysread($socket, $text, 65536, length $text);
        last if !defined $n || $n == 0;
    }
    return $text;
}

sub read_all { return read_until($_[0], undef) }

# Sends the text on a fresh connection and reads until the server closes.
sub exchange {
    my ($self, $text) = @_;
    my $socket = $self->connect;
    syswrite($socket, $text);
    return read_all($socket);
}

# Completions that are all asked for before any is answered, each on its own connection;
# what came, in the order of the bodies.
sub at_once {
    my ($self, @bodies) = @_;
    my $select = IO::Select->new;
    my (%which, @got);
    for my $i (0 .. $#bodies) {
        my $socket = $self->connect;
        syswrite $socket, raw_post('/v1/completions', JSON::PP->new->utf8->encode($bodies[$i]), 'Connection: close');
        $which{$socket} = $i;
        $got[$i] = '';
        $select->add($socket);
    }
    while ($select->count) {
        my @ready = $select->can_read($TIMEOUT) or die "no answer in $TIMEOUT s\n";
        for my $socket (@ready) {
            my $i = $which{$socket};
            next if sysread $socket, $got[$i], 65536, length $got[$i];
            $select->remove($socket);
            close $socket;
        }
    }
    return map { JSON::PP->new->utf8->decode((split /\r\n\r\n/, $_, 2)[1]) } @got;
}

sub raw_post {
    my ($path, $body, @headers) = @_;
    return join("\r\n", "POST $path HTTP/1.1", 'Host: x', 'Content-Length: ' . length($body), @headers, '', $body);
}

1;
