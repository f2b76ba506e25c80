#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# TLS, as curl and openssl's s_client see it: certificates and their reload, clients' certificates,
# versions and protocols, slow and broken handshakes, clients that read nothing.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use IO::Socket::INET;
use JSON::PP;
use LlmServer;
use Test::More;

plan skip_all => 'no openssl or no curl' if grep { system("command -v $_ >/dev/null") != 0 } qw(openssl curl);

my $folder = File::Temp->newdir;
my $model  = join "\n", '[model]', 'path = ' . LlmServer::source('share/demo-model'), '[engine]', 'threads = 1', 'pin = false', '';

sub openssl { my (@arguments) = @_; system("cd '$folder' && openssl @arguments >openssl.log 2>&1") == 0 or die LlmServer::read_file("$folder/openssl.log"); return }

# A key and a certificate that an authority of the test signs, under a name.
sub make_certificate {
    my ($name, $days) = @_;
    openssl('req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes', "-subj /CN=$name -keyout $name.key -out $name.csr");
    LlmServer::write_file("$folder/san", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    openssl("x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days $days -extfile san -out $name.pem");
    return;
}
openssl('req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=test -keyout ca.key -out ca.pem');
make_certificate('one', 30);
make_certificate('two', 5);
openssl('ec -in one.key -aes256 -passout pass:secret -out locked.key');

sub tls { my ($name, @more) = @_; return join "\n", '[tls]', "certificate = $folder/$name.pem", "key = $folder/$name.key", @more, '' }

sub check {
    my ($ini) = @_;
    LlmServer::write_file("$folder/check.ini", "[server]\n$ini$model");
    return scalar qx('@{[ LlmServer::built('llmserve') ]}' --check-config -c '$folder/check.ini' 2>&1);
}
my $listen = "listen = 127.0.0.1:0\n";
my $without = check($listen . tls('one')) =~ /check.ini:4: \[tls\] certificate: llmserve was built without OpenSSL: install libssl-dev/;
ok $without, 'a build without OpenSSL says so' and done_testing and exit if $without;

# ---- mistakes
sub mistake { my ($ini, $says, $name) = @_; return like check($ini), $says, $name }
mistake($listen . tls('three'), qr{:4: \[tls\] certificate: \S+/three.pem: cannot open: No such file}, 'a certificate that is not there');
mistake("$listen\[tls]\ncertificate = $folder/one.key\n", qr{:4: \[tls\] certificate: \S+: expected a certificate in PEM: no start line}, 'a file that is none');
mistake("$listen\[tls]\ncertificate = $folder/one.pem\n", qr{:4: \[tls\] certificate: .*expected the certificate's private key}, 'no key');
mistake("$listen\[tls]\ncertificate = $folder/one.pem\nkey = $folder/two.key\n", qr{:5: \[tls\] key: .*key is another certificate's}, 'another key');
mistake("$listen\[tls]\ncertificate = $folder/one.pem\nkey = $folder/locked.key\n", qr{:5: \[tls\] key: .*without a password}, 'a key with a password, which nobody is asked for');
mistake($listen . tls('one', "client_ca = $folder/one.key"), qr{:6: \[tls\] client_ca: .*expected certificates of authorities}, 'no authority');
mistake($listen . "[tls]\nkey = $folder/one.key\n", qr{:4: \[tls\] needs the key 'certificate'}, 'a key alone');
mistake("listen = https://127.0.0.1:0\n", qr{:2: \[server\] listen: https:// needs a certificate}, 'https:// without one');
mistake("listen = http://127.0.0.1:0, unix:/x\n" . tls('one'), qr{:4: \[tls\] certificate: no address of \[server\] listen would speak TLS}, 'one without https://');
like check($listen . tls('two')), qr{warning: .*\[tls\] certificate: it expires in [45] days}, 'a certificate that expires soon is a warning';

# ---- requests
my $ini = "listen = https://127.0.0.1:0, http://127.0.0.1:0, unix:$folder/api.sock\nlog_level = debug\nread_timeout = 1s\nwrite_timeout = 1s\n";
my $server = LlmServer->serve($ini . tls('one') . $model, qr{listening on https://([\d.:]+)});
my ($plain) = $server->log =~ m{listening on \S+, http://([\d.:]+)} or die $server->log;
my $open = LlmServer->new(address => $plain, status => 0);

# The exit status of curl and what it printed.
sub curl {
    my ($path, @options) = @_;
    my $said = qx(curl -sS --max-time $LlmServer::TIMEOUT --cacert '$folder/ca.pem' @options 'https://$server->{address}$path' 2>&1);
    return ($? >> 8, $said);
}
sub is_curled { my ($path, $options, $want, $name) = @_; my ($status, $said) = curl($path, "-o /dev/null -w '%{http_code} %{http_version}'", $options); return is "$status $said", "0 $want", $name }
sub completion { my (%more) = @_; return "-d '" . encode_json({ prompt => 'Once', max_tokens => 20, temperature => 0, %more }) . q(' -H 'content-type: application/json') }

is_curled('/v1/models', '', '200 1.1', 'curl trusts the certificate');
is_curled('/v1/models', '--http2 --tlsv1.3', '200 1.1', '  speaks HTTP/1.1 if it offers both');
is_curled('/v1/models', '--tls-max 1.2', '200 1.1', '  and TLS 1.2');
is_curled('/', '-I', '200 1.1', '  HEAD');
isnt((curl('/v1/models', '--tls-max 1.1'))[0], 0, '  but no TLS 1.1');
is $open->get('/v1/models')->{status}, 200, 'an address with http:// has no TLS';
is qx(curl -sS --unix-socket '$folder/api.sock' -o /dev/null -w '%{http_code}' http://localhost/v1/models), 200, '  nor has a Unix socket';
my $text = $open->post('/v1/completions', { prompt => 'Once', max_tokens => 20, temperature => 0 })->{json}{choices}[0]{text};
my (undef, $answer) = curl('/v1/completions', completion());
is decode_json($answer)->{choices}[0]{text}, $text, 'an answer is that of http://';
(undef, $answer) = curl('/v1/completions', '-N', completion(stream => JSON::PP::true));
is join('', map { ref $_ ? $_->{choices}[0]{text} // '' : '' } LlmServer::events({ content => $answer })), $text, '  streamed, too';
my ($status) = curl('/v1/completions', '--http1.0', completion(stream => JSON::PP::true));
is $status, 0, '  and a stream whose end is that of the connection ends well (close_notify)';
LlmServer::write_file("$folder/large", encode_json({ prompt => 'x' x 300_000 }));
is_curled('/tokenize', "-d \@$folder/large -H 'content-type: application/json' -H 'expect:'", '200 1.1', 'a body of many records');

# ---- the wrong protocol
like $server->exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), qr{\AHTTP/1.1 400 .*this address speaks TLS: ask for https://}s, 'http:// at a TLS address gets a sentence';
like $open->exchange("\x16\x03\x01\x02\x00\x01"), qr/this server speaks HTTP, not TLS/, '  TLS at http:// too';

sub s_client { my ($options, $input) = @_; return scalar qx(printf '@{[ $input // '' ]}' | timeout $LlmServer::TIMEOUT openssl s_client -connect $server->{address} -CAfile '$folder/ca.pem' $options 2>&1) }
like s_client('-alpn h2,http/1.1'), qr{ALPN protocol: http/1\.1}, 'of h2 and http/1.1 the latter is taken';
like s_client('-alpn h2'), qr/alert no application protocol/, '  h2 alone is refused by its alert';
like s_client('-verify_return_error'), qr/Verify return code: 0 \(ok\)/, 's_client trusts the certificate';
like s_client('-quiet -ign_eof', "GET /version HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"), qr{HTTP/1.1 200 OK.*"version"}s, '  and gets an answer after which the server closes';

# ---- slow and silent clients
my @slow = map { $server->connect } 1 .. 2;
syswrite $slow[0], "\x16\x03\x01";
is LlmServer::read_all($_), '', 'a handshake that does not go on is given up' for @slow;
# the pipe that nobody reads stops s_client, and so the server
my ($file) = $open->get('/console')->{content} =~ m{src="([^"]+\.js)"};
LlmServer::write_file("$folder/many", "GET /$file HTTP/1.1\r\nHost: localhost\r\n\r\n" x 4000);
my $pid = open my $unread, '-|', "exec openssl s_client -quiet -ign_eof -connect $server->{address} <'$folder/many' 2>/dev/null" or die $!;
ok $open->metric_becomes('llmserve_http_timeouts_total', 3), 'a client that reads nothing is given up';
cmp_ok $open->metric('llmserve_http_unread_bytes'), '<', 1 << 20, '  and little was kept for it';
kill 'TERM', $pid;
close $unread;

# ---- broken handshakes
sub hello {
    my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die $!;
    my $client = open my $said, '-|', 'openssl s_client -connect 127.0.0.1:' . $listener->sockport . ' 2>/dev/null </dev/null' or die $!;
    my $socket = $listener->accept;
    sysread $socket, my $bytes, 65536;
    close $socket;
    close $said;
    return $bytes;
}
my $hello = hello();
srand 49;
my $failed = $open->metric('llmserve_tls_failed_total');
for my $round (1 .. 150) {
    my $bytes = $round % 3 ? $hello : join '', map { chr int rand 256 } 1 .. 1 + int rand 400;
    substr $bytes, int rand length $bytes, 1, chr int rand 256 for 1 .. $round % 5;
    $bytes = substr $bytes, 0, int rand length $bytes if $round % 7 == 0;
    $bytes = "\x16" . $bytes if $bytes !~ /\A\x16/;
    my $socket = $server->connect;
    local $SIG{PIPE} = 'IGNORE';
    syswrite $socket, $bytes;
    syswrite $socket, join '', map { chr int rand 256 } 1 .. 50;
    sysread $socket, my $got, 1 if $round % 2;
    close $socket;
}
ok $open->metric_becomes('llmserve_http_connections', 1), 'clients that break the handshake are gone';
cmp_ok $open->metric('llmserve_tls_failed_total'), '>', $failed, '  and counted';
like $server->log, qr/debug +tls: 127\.0\.0\.1: \w/, '  the log has reasons, where it is to have all';
is_curled('/v1/models', '', '200 1.1', '  others are served');

# ---- reload
sub serial { return s_client('') =~ /\n(-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----)/s ? $1 : '' }
my $first = serial();
$server->configure($ini . tls('two') . $model);
$server->signal('HUP');
ok $server->log_becomes(qr/reload: generation 2/), 'SIGHUP takes another certificate';
isnt serial(), $first, '  which new connections see';
like $server->log, qr/warning server: .*\[tls\] certificate: it expires in [45] days/, '  the log warns that it expires soon';
my $second = serial();
LlmServer::write_file("$folder/two.pem", 'nonsense');
$server->signal('HUP');
ok $server->log_becomes(qr/reload: refused, generation 2 goes on: .*\[tls\] certificate: .*expected a certificate/), '  a file that is none is refused';
is serial(), $second, '  and the old one goes on';
$server->configure($ini . $model =~ s/^/[plugins]\nscheduler = fcfs\n/r);
$server->signal('HUP');
ok $server->log_becomes(qr/refused, .*(turning TLS off needs a restart|https:\/\/ needs a certificate)/), '  so is a file without TLS';
$server->configure($ini . tls('one', "client_ca = $folder/ca.pem", 'min_version = 1.3') . $model);
$server->signal('HUP');
ok $server->log_becomes(qr/reload: generation 3/), 'SIGHUP asks for clients\' certificates';
isnt((curl('/v1/models'))[0], 0, '  a client without one is refused');
like s_client('-ign_eof', 'x'), qr/alert certificate required/, '  and told so';
is_curled('/v1/models', "--cert '$folder/one.pem' --key '$folder/one.key'", '200 1.1', '  one with it is not');
isnt((curl('/v1/models', "--tls-max 1.2 --cert '$folder/one.pem' --key '$folder/one.key'"))[0], 0, '  nor TLS 1.2 by now');
is $server->stop, 0, 'it ends well';
done_testing;
