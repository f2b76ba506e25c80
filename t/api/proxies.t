#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The examples in etc/proxy, each in front of a server: TLS, unbuffered streams, request
# ids, disconnecting clients, paths closed to the outside.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use IO::Socket::INET;
use Test::More;
use Time::HiRes ();

my $folder = File::Temp->newdir;

sub has { my ($program) = @_; local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/sbin"; return system("command -v $program >/dev/null 2>&1") == 0 }
sub free_port { return IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport }

sub write_file {
    my ($name, $text) = @_;
    open my $file, '>', "$folder/$name" or die $!;
    print $file $text;
    close $file;
    return "$folder/$name";
}

# The example with another address, the server's, and our certificate.
sub example {
    my ($name, $server, %changes) = @_;
    open my $file, '<', LlmServer::source("etc/proxy/$name") or die $!;
    my $text = do { local $/; <$file> };
    for my $from (sort keys %changes) {
        $text =~ s/\Q$from\E/$changes{$from}/g or die "$name: no '$from'";
    }
    $text =~ s/127\.0\.0\.1:8080/$server->{address}/ or die "$name: no address";
    return $text;
}

# Starts a proxy; undef and the reason if it does not answer.
sub start {
    my ($port, @command) = @_;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$folder/proxy.log";
        open STDERR, '>&', \*STDOUT;
        $ENV{PATH} .= ':/usr/sbin:/sbin';
        exec @command or die "exec: $!";
    }
    for (my $deadline = time + $LlmServer::TIMEOUT; time < $deadline;) {
        my $up = `curl -sk -o /dev/null -w '%{http_code}' https://127.0.0.1:$port/ready`;
        return $pid if $up eq '200';
        Time::HiRes::sleep(0.02);
    }
    open my $log, '<', "$folder/proxy.log";
    diag <$log>;
    kill 'TERM', $pid;
    return;
}

sub curl { my ($port, $path, @more) = @_; return scalar `curl -sk @more https://127.0.0.1:$port$path` }

# A bare connection through TLS, by openssl, with this sent; -quiet stays until the server ends it.
sub tls {
    my ($port, $text) = @_;
    LlmServer::write_file("$folder/request", $text);
    open my $out, '-|', "openssl s_client -quiet -connect 127.0.0.1:$port <$folder/request 2>/dev/null" or die $!;
    return $out;
}

sub check {
    my ($name, $server, $port, $pid) = @_;
    ok $pid, "$name runs" or return;
    my $body = q(-H 'content-type: application/json' -d '{"prompt":[1,403,407],"max_tokens":4,"stream":true}');
    for my $version ('--http1.1', '--http2') {
        my @data = curl($port, '/v1/completions', $version, '-N', $body) =~ /^data: (.*)$/mg;
        is scalar @data, 5, "$name: a stream, $version";
        is $data[-1], '[DONE]', '  to its end';
    }
    like curl($port, '/version', '-i', "-H 'x-request-id: mine-1'"), qr/^x-request-id: mine-1\r$/mi, "$name: the client's request id";
    like curl($port, '/version', '-i'), qr/^x-request-id: [0-9a-f-]{20,}\r$/mi, '  or one of its own';
    is curl($port, $_, '-o', '/dev/null', '-w', "'%{http_code}'"), 403, "$name: $_ is closed" for qw(/metrics /admin/status);

    # However it is spelt: what the proxy lets through must be nothing to the server either.
    for my $path (qw(/%61dmin/status /adm%69n/status /admin%2fstatus /metric%73 /%6detrics /%2fmetrics //metrics /./metrics /x/../metrics /metrics/
        /METRICS /metrics%00 //admin/status /./admin/status /x/../admin/status /v1/../admin/status /admin/../admin/status /admin;x/status)) {
        my @said = map { curl($port, "'$path'", '--path-as-is', '-i', $_) } '--http1.1', '--http2';
        is scalar(grep { /^HTTP\/\S+ 40[034] / && !/there is no daemon/ } @said), 2, "$name: so is $path" or diag @said;
    }
    my $absolute = LlmServer::read_all(tls($port, "GET http://x/metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    like $absolute, qr/\AHTTP\/1\.1 40[034] /, "$name: and with an authority";
    is curl($port, '/version', '-o', '/dev/null', '-w', "'%{http_code}'", '-H', "'host: llm.example.org'"), 200, "$name: under its own name";

    # Each token at once: the first has come while the answer goes on.
    my $curl = open my $out, '-|', qq(exec curl -skN https://127.0.0.1:$port/v1/completions -H 'x-request-id: pause-1' -H 'content-type: application/json' -d '{"prompt":[1,403],"max_tokens":400,"stream":true}') or die $!;
    my $first = <$out>;
    like $first, qr/\Adata: /, "$name: the first token comes";
    is $server->metric('llmserve_generations_live'), 1, '  before the last';
    kill 'TERM', $curl;
    close $out;
    ok $server->metric_becomes('llmserve_generations_live', 0), "$name: who leaves it leaves the server";
    kill 'TERM', $pid;
    waitpid $pid, 0;
    return;
}

for my $need (qw(curl openssl)) {
    plan skip_all => "$need is not installed" unless has($need);
}
system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout $folder/key.pem -out $folder/cert.pem >/dev/null 2>&1") == 0
    or plan skip_all => 'openssl makes no certificate';
system("cat $folder/cert.pem $folder/key.pem > $folder/both.pem");

SKIP: {
    skip 'nginx is not installed', 1 unless has('nginx');
    my $server = LlmServer->fake(silence => 100);
    my $port   = free_port();
    my $site   = example('nginx.conf', $server, 'listen 443' => "listen 127.0.0.1:$port", '/etc/ssl/llm' => "$folder");
    my $config = write_file('nginx.conf', "daemon off; worker_processes 1; pid $folder/nginx.pid; error_log stderr;\n"
            . "events { worker_connections 512; }\nhttp { access_log off; client_body_temp_path $folder/body;\n"
            . "proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/f; uwsgi_temp_path $folder/u; scgi_temp_path $folder/s;\n$site\n}\n");
    check('nginx', $server, $port, start($port, 'nginx', '-e', 'stderr', '-c', $config, '-p', "$folder"));
    is $server->stop, 0, 'the server ends well';
}
SKIP: {
    skip 'HAProxy is not installed', 1 unless has('haproxy');
    my $server = LlmServer->fake(silence => 100);
    my $port   = free_port();
    my $config = write_file('haproxy.cfg', example('haproxy.cfg', $server, 'bind :443' => "bind 127.0.0.1:$port", 'maxconn 20000' => 'maxconn 200', '/etc/ssl/llm' => "$folder"));
    check('HAProxy', $server, $port, start($port, 'haproxy', '-db', '-f', $config));
    is $server->stop, 0, 'the server ends well';
}
done_testing;
