# SPDX-License-Identifier: Apache-2.0
# A hub of Hugging Face's kind on loopback, for tests of fetching models: the list of a repository's files, and
# the files by GET and HEAD, in ranges. Files that git itself would not store (*.safetensors, *.gguf) are behind a
# redirect to another host name, as on the real hub. It is told to misbehave by files in its folder, and keeps a
# line of each request. A process a connection; each connection is closed after its answer.
package Hub;

use strict;
use warnings;
use Digest::SHA qw(sha1_hex sha256_hex);
use Fcntl qw(O_WRONLY O_APPEND O_CREAT);
use File::Temp;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use LlmServer;
use POSIX ();

my $json = JSON::PP->new->utf8->canonical;

# Hub->new('owner/name' => { files => { NAME => BYTES }, token => 'needed', gated => 1 }, ...)
sub new {
    my ($class, %models) = @_;
    my $socket = IO::Socket::INET->new(Listen => 16, LocalAddr => '127.0.0.1', LocalPort => 0) or die "listen: $!";
    my $self = bless { folder => File::Temp->newdir, models => \%models, socket => $socket, port => $socket->sockport }, $class;
    for my $model (values %models) {
        my $files = $model->{files};
        $model->{commit} = sha1_hex(map { "$_ $files->{$_}" } sort keys %$files);
        for my $name (keys %$files) {
            my $bytes = $files->{$name};
            my $large = $name =~ /\.(?:safetensors|gguf)\z/;
            my $hash = $large ? sha256_hex($bytes) : sha1_hex('blob ' . length($bytes) . "\0$bytes");
            $model->{hash}{$name} = $hash;
            $self->{blobs}{$hash} = $bytes if $large;
        }
    }
    $self->{pid} = fork // die "fork: $!";
    $self->run if $self->{pid} == 0;
    return $self;
}

sub DESTROY {
    my ($self) = @_;
    local $?;
    return if !$self->{pid};
    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

sub url { my ($self) = @_; return "http://127.0.0.1:$self->{port}" }

# Tells it to misbehave the next $n times: cut (after so many bytes of a large file), stall (likewise), wrong (a byte of a
# large file), whole (no ranges), busy (429, to be asked again after so many seconds), down (503).
sub misbehave {
    my ($self, $how, $n, $value) = @_;
    LlmServer::write_file("$self->{folder}/$how.$_", $value // '') for 1 .. $n;
    return;
}

sub behave { my ($self) = @_; unlink glob "$self->{folder}/*.*"; return }

# The requests since the last call, each as "GET /path bytes=5- token host".
sub asked {
    my ($self) = @_;
    my $text = LlmServer::read_file("$self->{folder}/log");
    unlink "$self->{folder}/log";
    return split /\n/, $text;
}

# ---- the server --------------------------------------------------------------------------

sub run {
    my ($self) = @_;
    $SIG{CHLD} = 'IGNORE';
    $SIG{INT} = $SIG{TERM} = 'DEFAULT';
    while (1) {
        my $client = $self->{socket}->accept or next;
        my $pid = fork;
        if (defined $pid && $pid == 0) {
            $self->answer($client);
            close $client;
            POSIX::_exit(0);
        }
        close $client;
    }
}

# Uses up one misbehaviour; its value, or undef.
sub takes {
    my ($self, $how) = @_;
    for my $file (sort glob "$self->{folder}/$how.*") {
        my $value = LlmServer::read_file($file);
        return $value if unlink $file;
    }
    return;
}

sub reply {
    my ($client, $status, $headers, $body) = @_;
    print $client join("\r\n", "HTTP/1.1 $status X", 'connection: close', @$headers, '', ''), $body // '';
    $client->flush;
    return;
}

sub refuse {
    my ($client, $status, $code) = @_;
    return reply($client, $status, ["x-error-code: $code", 'content-length: 0']);
}

sub answer {
    my ($self, $client) = @_;
    my ($line, %header) = (scalar <$client> // '');
    while (defined(my $next = <$client>)) {
        last if $next =~ /\A\r?\n\z/;
        $header{ lc $1 } = $2 if $next =~ /\A([\w-]+):\s*(.*?)\r?\n\z/;
    }
    my ($method, $path) = $line =~ m{\A(\S+) (\S+)} or return;
    sysopen my $log, "$self->{folder}/log", O_WRONLY | O_APPEND | O_CREAT or die "log: $!";
    syswrite $log, join(' ', $method, $path, $header{range} // '-', $header{authorization} // '-', $header{host} // '-') . "\n";
    close $log;
    return reply($client, 503, ['content-length: 0']) if defined $self->takes('down');
    my $busy = $self->takes('busy');
    return reply($client, 429, ["retry-after: $busy", 'content-length: 0']) if defined $busy;
    return $self->send_blob($client, $method, $1, $header{range}) if $path =~ m{\A/cdn/(\w+)\z};
    return $self->send_tree($client, $1) if $path =~ m{\A/api/models/([^/]+/[^/]+)/tree/\w+(?:\?|\z)};
    my ($name, $file) = $path =~ m{\A/api/models/([^/]+/[^/]+)(?:/revision/main)?(?:\?|\z)} ? ($1) : $path =~ m{\A/([^/]+/[^/]+)/resolve/\w+/(.+)\z};
    my $model = $self->{models}{ $name // '' } or return refuse($client, 401, 'RepoNotFound');
    my $allowed = !$model->{token} || ($header{authorization} // '') eq "Bearer $model->{token}";
    return refuse($client, 401, 'RepoNotFound') if !$allowed;
    return $self->send_list($client, $model, $name) if !defined $file;
    return refuse($client, 403, 'GatedRepo') if $model->{gated};
    return $self->send_file($client, $method, $model, $file);
}

sub send_list {
    my ($self, $client, $model, $name) = @_;
    my @siblings;
    for my $file (sort keys %{ $model->{files} }) {
        my $hash = $model->{hash}{$file};
        my $size = length $model->{files}{$file};
        my $lfs = length $hash == 64;
        push @siblings, { rfilename => $file, size => $size, blobId => $lfs ? '0' x 40 : $hash,
            $lfs ? (lfs => { sha256 => $hash, size => $size, pointerSize => 134 }) : () };
    }
    my $body = $json->encode({ id => $name, modelId => $name, sha => $model->{commit}, siblings => \@siblings, tags => [], private => JSON::PP::false });
    return reply($client, 200, ['content-type: application/json', 'content-length: ' . length $body], $body);
}

# The same list, in the form that huggingface_hub asks for before it fetches.
sub send_tree {
    my ($self, $client, $name) = @_;
    my $model = $self->{models}{$name} or return refuse($client, 401, 'RepoNotFound');
    my @tree;
    for my $file (sort keys %{ $model->{files} }) {
        my $hash = $model->{hash}{$file};
        my $size = length $model->{files}{$file};
        push @tree, { type => 'file', path => $file, size => $size, oid => length $hash == 64 ? '0' x 40 : $hash,
            length $hash == 64 ? (lfs => { oid => $hash, size => $size, pointerSize => 134 }) : () };
    }
    my $body = $json->encode(\@tree);
    return reply($client, 200, ['content-type: application/json', 'content-length: ' . length $body], $body);
}

sub send_file {
    my ($self, $client, $method, $model, $file) = @_;
    $file =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    my $bytes = $model->{files}{$file};
    return refuse($client, 404, 'EntryNotFound') if !defined $bytes;
    my $hash = $model->{hash}{$file};
    my @headers = ("x-repo-commit: $model->{commit}", 'accept-ranges: bytes');
    return reply($client, 302, [@headers, "x-linked-etag: \"$hash\"", 'x-linked-size: ' . length $bytes,
        "location: http://localhost:$self->{port}/cdn/$hash", 'content-length: 0']) if length $hash == 64;
    return reply($client, 200, [@headers, "etag: \"$hash\"", 'content-length: ' . length $bytes], $method eq 'HEAD' ? '' : $bytes);
}

sub send_blob {
    my ($self, $client, $method, $hash, $range) = @_;
    my $bytes = $self->{blobs}{$hash} // return refuse($client, 404, 'EntryNotFound');
    my @headers = "etag: \"$hash\"";
    return reply($client, 200, [@headers, 'content-length: ' . length $bytes]) if $method eq 'HEAD';
    my ($from, $status) = (0, 200);
    if (defined $range && $range =~ /\Abytes=(\d+)-\z/ && !defined $self->takes('whole')) {
        ($from, $status) = ($1, 206);
        return reply($client, 416, ['content-length: 0']) if $from >= length $bytes;
        push @headers, "content-range: bytes $from-" . (length($bytes) - 1) . '/' . length $bytes;
    }
    substr($bytes, -1) ^= 'x' if defined $self->takes('wrong');
    my $cut = $self->takes('cut');
    my $stall = $self->takes('stall');
    my $body = substr $bytes, $from;
    push @headers, 'content-length: ' . length $body;
    reply($client, $status, \@headers, defined($cut // $stall) ? substr $body, 0, $cut // $stall : $body);
    IO::Select->new($client)->can_read($LlmServer::TIMEOUT) if defined $stall; # until the client leaves
    return;
}

1;
