# SPDX-License-Identifier: Apache-2.0
# This module has what bench/peer/peer and bench/peer/servers share: commands with a log, the build of
# llama.cpp, and how servers start and stop.
package Servers;
use strict;
use warnings;
use Exporter qw(import);
use FindBin;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep time);
our @EXPORT = qw(run output median build_llama free_port start stop);

my $folder = '.';    # where logs go
my %running;         # pids of servers; none outlives the command that started it
$SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);
END { local $?; stop($_) for keys %running }

sub log_in { ($folder) = @_; return }

sub run {
    my ($what, @command) = @_;
    print STDERR "$what\n";
    system("(" . join(' ', map { "'$_'" } @command) . ") >'$folder/log' 2>&1") == 0
        or die "bench/peer: $what failed; the last lines of $folder/log:\n" . qx(tail -n 20 '$folder/log');
    return;
}

sub output {
    my (@command) = @_;
    my $text = qx(@{[join ' ', map { "'$_'" } @command]} 2>'$folder/log');
    die "bench/peer: $command[0] failed; the last lines of $folder/log:\n" . qx(tail -n 20 '$folder/log') if $? != 0;
    return $text;
}

sub median { my @sorted = sort { $a <=> $b } @_; return @sorted ? $sorted[@sorted / 2] : undef }

# Builds those of llama.cpp's programs which are missing, natively, from the source package of llama-cpp-python.
sub build_llama {
    my ($work, $threads, @programs) = @_;
    @programs = grep { !-x "$work/llama.cpp/bin/$_" } @programs or return;
    run('fetching llama-cpp-python', qw(pip download --no-deps --no-binary llama-cpp-python -d), $work, 'llama-cpp-python')
        if !glob "$work/llama_cpp_python-*.tar.gz";
    my ($package) = glob "$work/llama_cpp_python-*.tar.gz";
    run('unpacking', 'tar', '-xzf', $package, '-C', $work);
    my ($source) = glob "$work/llama_cpp_python-*/vendor/llama.cpp";
    run('configuring llama.cpp', 'cmake', '-S', $source, '-B', "$work/llama.cpp", '-DCMAKE_BUILD_TYPE=Release',
        '-DGGML_NATIVE=ON', "-DCMAKE_CXX_FLAGS=-include $FindBin::Bin/gcc12_tiles.h", '-DLLAMA_CURL=OFF', '-DLLAMA_OPENSSL=OFF', '-DLLAMA_BUILD_UI=OFF', '-DLLAMA_BUILD_TESTS=OFF');
    run('building llama.cpp', 'cmake', '--build', "$work/llama.cpp", '-j', $threads, '--target', @programs);
    return;
}

sub free_port { my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "bench/peer: $!\n"; return $s->sockport }

# Starts a server which shall answer at $port, and waits for its first token. Returns its pid and the seconds until then.
sub start {
    my ($who, $port, @command) = @_;
    my $begun = time;
    my $pid = fork // die "bench/peer: fork: $!\n";
    if ($pid == 0) {
        setpgrp;
        open STDOUT, '>', "$folder/$who.log";
        open STDERR, '>&', \*STDOUT;
        exec(@command) or POSIX::_exit(127); # without this command's END
    }
    $running{$pid} = 1;
    until (answered($port)) {
        my $late = time - $begun > 600;
        stop($pid) if $late;
        die "bench/peer: $who gave no token; the last lines of $folder/$who.log:\n" . qx(tail -n 5 '$folder/$who.log')
            if $late || waitpid($pid, 1) != 0;
        sleep 0.02;
    }
    return wantarray ? ($pid, time - $begun) : $pid;
}

sub answered {
    my ($port) = @_;
    my $model = get($port, 'GET /v1/models HTTP/1.1', '') =~ /"id"\s*:\s*"([^"]+)"/ ? $1 : return 0;
    my $body = encode_json({ prompt => [map { 300 + $_ } 1 .. 8], max_tokens => 1, model => $model });
    return get($port, 'POST /v1/completions HTTP/1.1', $body) =~ m{^HTTP/1.1 200 };
}

sub get {
    my ($port, $line, $body) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or return '';
    print $s "$line\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
    local $/;
    return <$s> // '';
}

# Servers may have children: the whole group is asked to end.
sub stop {
    my ($pid) = @_;
    delete $running{$pid};
    kill 'TERM', -$pid;
    waitpid $pid, 0;
    return;
}

1;
