#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Access control: pages of the web, host names that are not the server's, keys of users and of
# admins, clients from other machines; and the content types that a body must declare.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Test::More;
use Time::HiRes ();

my $stories = LlmServer::source('t/data/models/stories260K');
my $model   = "[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\nmax_context = 64\n";
my $folder  = File::Temp->newdir;
my $path    = '/v1/completions';
my $body    = { prompt => 'Once', max_tokens => 1 };
my $evil    = 'http://evil.example';

sub code { my ($answer) = @_; return [$answer->{status}, $answer->{json} && $answer->{json}{error} && $answer->{json}{error}{code}] }
sub asked { my ($server, $where, $headers) = @_; my $answer = $server->get($where, $headers); $answer->{json} = eval { JSON::PP::decode_json($answer->{content}) }; return code($answer) }

# A request for a host of ours, which HTTP::Tiny does not let us name.
sub for_host {
    my ($server, $host, $method, $where, $json, @headers) = @_;
    my $said = length($json) > 0 ? "Content-Type: application/json\r\nContent-Length: " . length($json) . "\r\n" : '';
    my $all  = $server->exchange(join "\r\n", "$method $where HTTP/1.1", "Host: $host", 'Connection: close', @headers, "$said\r\n$json");
    my ($status, $content) = $all =~ /\AHTTP\/1\.1 (\d+).*?\r\n\r\n(.*)\z/s;
    return { status => $status, json => eval { JSON::PP::decode_json($content) } };
}

# ---- pages of the web -----------------------------------------------------------------
{
    my $server = LlmServer->serve($model);
    # Requests that a browser sends without asking first: "simple" requests.
    for my $where ('/admin/drain', '/admin/reload', $path, '/v1/chat/completions', '/chat/completions', '/tokenize', '/nowhere') {
        for my $type ('text/plain', 'application/x-www-form-urlencoded', 'application/json') {
            my $answer = $server->post($where, $body, { origin => $evil, 'content-type' => $type });
            is_deeply code($answer), [403, 'origin_not_allowed'], "$where from a page, as $type";
        }
    }
    my $answer = $server->post('/admin/drain', undef, { origin => 'null' });
    is_deeply code($answer), [403, 'origin_not_allowed'], 'a page without an origin';
    like $answer->{json}{error}{message}, qr/pages of null may not ask this server: \[server\] allowed_origins/, '  is told what would help';
    is $server->get('/health')->{status}, 200, 'and the server goes on';
    is $server->get('/v1/models', { origin => $evil })->{status}, 200, 'what changes nothing is only kept from being read';

    # A name of the page's own that its owner has pointed here.
    for my $host ('evil.example', 'evil.example:8080', 'localhost.evil.example', '127.0.0.1.evil.example:80', '1.2.3', "evil.localhost.") {
        is_deeply code(for_host($server, $host, 'GET', '/v1/models', '')), [421, 'unknown_host'], "for $host";
        is_deeply code(for_host($server, $host, 'POST', '/admin/drain', '', "Origin: http://$host")), [421, 'unknown_host'], '  likewise';
    }
    # The name in the target is the one that counts: RFC 9112, 3.2.2.
    is_deeply code(for_host($server, 'localhost', 'GET', "http://$_/v1/models", '')), [421, 'unknown_host'], "for $_ in the target" for qw(evil.example evil.example:80);
    is for_host($server, 'evil.example', 'GET', 'http://localhost/v1/models', '')->{status}, 200, 'for localhost in the target';
    is for_host($server, 'localhost', 'GET', "http://$_/v1/models", '')->{status}, 400, "no name: '$_'" for '', 'a@evil.example', 'evil.example?';
    is for_host($server, $_, 'GET', '/v1/models', '')->{status}, 200, "for $_" for qw(localhost LOCALHOST:80 llm.localhost:8080 127.0.0.1 127.0.0.1:8080 [::1]:80 192.168.1.2 llmserve);
    like $server->exchange("GET /version HTTP/1.0\r\n\r\n"), qr/ 200 OK/, 'for nobody, by HTTP/1.0';
    is for_host($server, 'localhost:8080', 'POST', $path, '{"prompt":"Once","max_tokens":1}', 'Origin: http://localhost:8080')->{status}, 200, 'a page of the same name is no stranger';

    $server->configure("allowed_origins = http://localhost:* https://chat.example\nallowed_hosts = llm.example.org\n$model");
    $server->signal('HUP');
    ok $server->log_becomes(qr/reload: generation 2/), 'other origins and hosts after a reload';
    is $server->post($path, $body, { origin => $_ })->{status}, 200, "from $_" for qw(http://localhost http://localhost:3000 https://chat.example);
    is_deeply code($server->post($path, $body, { origin => $_ })), [403, 'origin_not_allowed'], "not from $_"
        for qw(https://localhost:3000 http://localhost:3000.evil.example http://localhost.evil.example https://chat.example:8000 https://chat.example.org);
    is for_host($server, $_, 'GET', '/v1/models', '')->{status}, 200, "for $_" for qw(llm.example.org LLM.example.org:443 localhost);
    is_deeply code(for_host($server, 'evil.example', 'GET', '/v1/models', '')), [421, 'unknown_host'], 'another not';
    is for_host($server, 'llm.example.org', 'POST', $path, '{"prompt":"Once","max_tokens":1}', 'Origin: https://llm.example.org')->{status}, 200, 'a page that a proxy serves beside us';
    is $server->stop, 0, 'the server ends well';
}

# ---- bodies ---------------------------------------------------------------------------
{
    my $server = LlmServer->serve($model);
    for my $type ('text/plain', 'application/x-www-form-urlencodedx', 'multipart/form-data; boundary=x', 'application/jsonx', 'application/octet-stream') {
        my $answer = $server->post($path, $body, { 'content-type' => $type });
        is_deeply code($answer), [415, 'unsupported_media_type'], "a body that is $type";
        like $answer->{json}{error}{message}, qr/send the header 'content-type: application\/json', not '\Q$type\E'/, '  says what to send';
    }
    is $server->post($path, $body, { 'content-type' => $_ })->{status}, 200, "a body that is $_" for 'application/json', 'Application/JSON;charset=utf-8', 'application/json ; charset=UTF-8';
    my %curl = ('content-type' => 'application/x-www-form-urlencoded');
    is $server->post($path, $body, {%curl})->{status}, 200, 'one that curl -d calls a form';
    is_deeply code($server->post($path, $body, { %curl, origin => "http://$server->{address}" })), [415, 'unsupported_media_type'], '  but not from a page, even of ours';
    is $server->post($path, $body, { %curl, origin => "http://$server->{address}", authorization => 'Bearer x' })->{status}, 200, '  unless it has a key, for which browsers ask first';
    like $server->exchange("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), qr/\AHTTP\/1.1 200 OK\r\n/, 'HEAD / tells that a server is here';
    like $server->exchange(LlmServer::raw_post($path, '{"prompt":"Once","max_tokens":1}', 'Connection: close')), qr/ 200 OK/, 'one that does not say';
    my $packed = $server->post($path, "\x1f\x8b\x08\0\0\0\0\0", { 'content-encoding' => 'compress' });
    is_deeply code($packed), [415, 'unsupported_encoding'], 'one packed in a way that is unknown';
    like $packed->{json}{error}{message}, qr/content-encoding is 'compress': send it as it is/, '  says so';
    is $server->post($path, $body, { 'content-encoding' => 'identity' })->{status}, 200, 'one that is not packed';
    is $server->post('/admin/reload', undef)->{status}, 200, 'where there is none, none is wanted';

    # ---- without keys
    is $server->post($path, { %$body, model => $_ })->{status}, 200, "model '$_' is ours where everybody may ask" for 'gpt-4o', '';
    unlike $server->log, qr/may ask/, 'no warning on loopback';
    # ---- as llama.cpp has them
    is $server->post('/completions', $body)->{json}{object}, 'text_completion', '/completions';
    is $server->post('/chat/completions', { messages => [] })->{status}, 400, '/chat/completions';
    is $server->get($_)->{status}, 200, $_ for '/models', '/v1/models/', '/models/', '/models/stories260K', '/v1/health';
    is_deeply code($server->post($_, { query => 'Once', documents => ['Once'] })), [400, 'unsupported_model'], "$_, of a model that makes text" for '/reranking', '/v1/reranking';
    is $server->stop, 0, 'the server ends well';
}

# ---- keys -----------------------------------------------------------------------------
LlmServer::write_file("$folder/users",  "sk-ann ann\nsk-gate -\n");
LlmServer::write_file("$folder/admins", "sk-root ops\n");
my %as        = (map { my $who = $_; $who => { authorization => "Bearer sk-$who" } } qw(ann gate root nobody));
my %elsewhere = ('x-forwarded-for' => '192.0.2.7');
{
    my $server = LlmServer->serve("api_keys = $folder/users\nadmin_keys = $folder/admins\n$model");
    is $server->get($_)->{status}, 200, "$_ without a key" for qw(/health /v1/health);
    for my $where (qw(/admin/status /admin/queues /admin/config)) {
        is_deeply asked($server, $where), [401, 'invalid_api_key'], "$where without a key, from here too";
        is_deeply asked($server, $where, $as{nobody}), [401, 'invalid_api_key'], '  with one of nobody';
        is_deeply asked($server, $where, $as{ann}), [403, 'not_an_admin'], '  with a tenant\'s';
        is $server->get($where, $as{root})->{status}, 200, '  with an admin\'s';
        is $server->get($where, { %{ $as{root} }, %elsewhere })->{status}, 200, '  from anywhere';
    }
    is_deeply code($server->post('/admin/drain', undef, $as{ann})), [403, 'not_an_admin'], 'a tenant does not end the server';
    is $server->post($path, $body, $as{root})->{status}, 200, 'an admin may ask';
    is $server->post($path, $body)->{status}, 401, 'without a key nobody may';
    is $server->get('/metrics')->{status}, 200, '/metrics from this machine';
    is_deeply asked($server, '/metrics', \%elsewhere), [401, 'invalid_api_key'], '  not from others';
    is_deeply asked($server, '/metrics', { %elsewhere, %{ $as{ann} } }), [403, 'not_an_admin'], '  nor for tenants';
    is $server->get('/metrics', { %elsewhere, %{ $as{root} } })->{status}, 200, '  but for admins';
    is $server->get('/health', \%elsewhere)->{status}, 200, '/health is for everybody';
    is $server->post($path, { %$body, model => 'gpt-4o' }, $as{ann})->{status}, 404, 'with keys, another model is not found';

    # A key's tenant can't be changed by a header.
    my $tenant = sub { my ($name) = @_; return $server->metric(qq(llmserve_tenant_requests_total{tenant="$name"})) // 0 };
    my $anns = $tenant->('ann');
    $server->post($path, { %$body, user => 'bob' }, { %{ $as{ann} }, 'x-gateway-inference-fairness-id' => 'carl' });
    is $tenant->('ann') - $anns, 1, 'a key\'s tenant';
    is $tenant->($_), 0, '  is not overruled by ' . ($_ eq 'bob' ? 'user' : 'a header') for qw(bob carl);
    $server->post($path, { %$body, user => 'bob' }, { %{ $as{gate} }, 'x-gateway-inference-fairness-id' => 'carl' });
    is $tenant->('carl'), 1, 'a gateway\'s key, which has none, passes one on';
    is_deeply code($server->post('/admin/drain', undef, $as{root})), [202, undef], 'an admin ends the server';
    is $server->wait_for_end, 3, '  well';
}
{
    my $server = LlmServer->serve("api_keys = $folder/users\n$model");
    is_deeply asked($server, '/admin/status'), [401, 'invalid_api_key'], 'without admins, /admin wants a key';
    is $server->get('/admin/status', $as{ann})->{status}, 200, '  which any is';
    for my $proxied (\%elsewhere, { forwarded => 'for=192.0.2.7' }, { 'x-real-ip' => '192.0.2.7' }, { via => '1.1 proxy' }) {
        is_deeply asked($server, '/admin/status', { %$proxied, %{ $as{ann} } }), [403, 'not_an_admin'], '  from this machine, ' . (keys %$proxied)[0];
    }
    is_deeply asked($server, '/metrics', \%elsewhere), [401, 'invalid_api_key'], '/metrics from elsewhere wants a key';
    is $server->get('/metrics', { %elsewhere, %{ $as{ann} } })->{status}, 200, '  which any is';

    # They come and go with a reload.
    $server->configure("api_keys = $folder/users\nadmin_keys = $folder/admins\n$model");
    is $server->post('/admin/reload', undef, $as{ann})->{status}, 200, 'admins are named';
    is_deeply code($server->post('/admin/reload', undef, $as{ann})), [403, 'not_an_admin'], '  and alone may';
    $server->configure("api_keys = $folder/users\nadmin_keys = $folder/none\n$model");
    my $refused = $server->post('/admin/reload', undef, $as{root});
    is $refused->{status}, 409, 'a file that is not there is refused';
    like $refused->{json}{error}{message}, qr/\[server\] admin_keys: .*none: .*No such file/, '  by its key';
    is $server->get('/admin/status', $as{root})->{status}, 200, '  and the keys stay';
    is $server->stop, 0, 'the server ends well';
}
{
    my $server = LlmServer->serve("admin_keys = $folder/admins\n$model");
    is $server->post($path, $body)->{status}, 200, 'with admins alone everybody may ask';
    is_deeply asked($server, '/admin/status'), [401, 'invalid_api_key'], '  but not for /admin';
    is_deeply asked($server, '/metrics', \%elsewhere), [401, 'invalid_api_key'], '  nor, from elsewhere, for /metrics';
    is $server->stop, 0, 'the server ends well';
}

# ---- open to others -------------------------------------------------------------------
{
    my $server = LlmServer->serve("listen = 0.0.0.0:0\n$model", qr{listening on http://([\d.:]+)});
    like $server->log, qr/ warning server: any client that reaches 0\.0\.0\.0:\d+ may ask: set \[server\] api_keys, or listen on 127\.0\.0\.1\n/, 'a server that is open says so';
    is $server->get('/metrics', \%elsewhere)->{status}, 200, '/metrics is open too';
    is_deeply asked($server, '/admin/status', \%elsewhere), [403, 'not_an_admin'], '/admin is not';
    is_deeply asked($server, '/admin/status'), [403, 'not_an_admin'], '  not even from here: an address says nothing of who asks';
    is $server->stop, 0, 'the server ends well';
}
{
    my $server = LlmServer->serve("listen = 0.0.0.0:0\napi_keys = $folder/users\n$model", qr{listening on http://([\d.:]+)});
    unlike $server->log, qr/may ask/, 'one with keys need not';
    is $server->stop, 0, 'the server ends well';
}

# ---- the admin's socket ---------------------------------------------------------------
# As through a sidecar, whose address is another of loopback.
{
    my $server = LlmServer->serve("$model");
    is $server->get('/admin/status')->{status}, 200, 'a server of this machine takes administration from here';
    my $sidecar = IO::Socket::INET->new(PeerAddr => $server->{address}, LocalAddr => '127.0.0.6', Proto => 'tcp') or die "connect: $@";
    syswrite $sidecar, "GET /admin/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    like LlmServer::read_all($sidecar), qr/ 403 /, '  but not from 127.0.0.6';
    is_deeply asked($server, '/admin/status', { 'x-forwarded-client-cert' => 'x' }), [403, 'not_an_admin'], '  nor with the headers of a mesh';
    is $server->stop, 0, 'the server ends well';
}
{
    local $ENV{KUBERNETES_SERVICE_HOST} = '10.0.0.1';
    my $server = LlmServer->serve($model);
    is_deeply asked($server, '/admin/status'), [403, 'not_an_admin'], 'in a pod nobody is here';
    is $server->stop, 0, 'the server ends well';
}
sub through {
    my ($socket, $method, $where, @headers) = @_;
    my $client = IO::Socket::UNIX->new(Peer => $socket) or return "$!";
    syswrite $client, join "\r\n", "$method $where HTTP/1.1", 'Host: evil.example', 'Connection: close', 'Content-Length: 0', @headers, '', '';
    return LlmServer::read_all($client);
}
{
    my $socket = "$folder/admin.sock";
    umask 0022;
    my $server = LlmServer->serve("listen = 0.0.0.0:0\napi_keys = $folder/users\nadmin_socket = $socket\n$model", qr{listening on http://([\d.:]+)});
    is sprintf('%o', (stat $socket)[2] & 07777), '600', 'the socket is its owner\'s';
    like through($socket, 'GET', $_), qr/ 200 OK/, "  $_ without a key, for any name" for qw(/admin/status /metrics /v1/models);
    like through($socket, 'POST', '/admin/reload', 'Origin: http://evil.example'), qr/ 403 /, '  pages are refused there too';
    my $ctl = LlmServer::built('llmserve-ctl');
    like qx('$ctl' -c '$server->{folder}/llmserve.ini' status 2>&1), qr/up|ready|requests|scheduler/i, 'llmserve-ctl finds it in the file';
    like qx('$ctl' -a '$socket' status 2>&1), qr/scheduler/i, '  or is told';
    ok !eval { LlmServer->serve("admin_socket = $socket\n$model") }, 'a second server does not take it';
    like $@, qr/admin_socket: .*another server listens there/, '  and says why';
    $server->signal('KILL');
    $server->wait_for_end;
    ok -S $socket, 'one that was killed leaves it';
    $server = LlmServer->serve("admin_socket = $socket\n$model");
    like through($socket, 'GET', '/admin/status'), qr/ 200 OK/, '  to the next';
    is $server->stop, 0, 'the server ends well';
    ok !-e $socket, '  which takes it away';
}
done_testing;
