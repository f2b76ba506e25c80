#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Tenants: a key without a name is a tenant of its own, names are compared in full, and the limits of
# [tenants] and [tenant.NAME] apply to each, with the headers that OpenAI's clients read.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Batches;
use File::Temp;
use LlmServer;
use Test::More;

my $folder = File::Temp->newdir;
my $keys   = "$folder/keys";
my $path   = '/v1/completions';
my $ask    = { prompt => 'Once upon a time', max_tokens => 4, ignore_eos => JSON::PP::true };
my $long   = 'a' x 128;
sub as { my ($key) = @_; return { authorization => "Bearer $key" } }
sub ask { my ($server, $key, %more) = @_; return $server->post($path, { %$ask, %more }, as($key)) }
sub code { my ($answer) = @_; return [$answer->{status}, $answer->{json}{error}{code}] }
sub start { my ($server, $tenants) = @_; return LlmServer->serve(Batches::ini($folder, '', "api_keys = $keys\n$server") . $tenants) }

# ---- names ----------------------------------------------------------------------------
for my $case ([('x' x 129), qr/the name of a tenant has at most 128 bytes/], ["a\x01b", qr/no control characters/]) {
    LlmServer::write_file($keys, "good ann\nkey $case->[0]\n");
    chmod 0600, $keys;
    ok !eval { start('', '') }, 'a name that would be cut or changed is refused';
    like $@, qr/keys:2: .*$case->[1]/, '  with its line';
}
LlmServer::write_file($keys, "one\ntwo\nann ann\nann-2 ann\nlong ${long}\nlonger a$long\nshared -\n" =~ s/\Qa$long\E/$long =~ s{.\z}{b}r/er);
{
    my $server = start('', '');
    my %id;
    for my $key (qw(one two ann long longer shared)) {
        my $file = $server->request('POST', '/v1/files', "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n"
              . "Content-Disposition: form-data; name=\"file\"; filename=\"$key\"\r\n\r\n{}\n\r\n--x--\r\n", { %{ as($key) }, 'content-type' => 'multipart/form-data; boundary=x' });
        is $file->{status}, 200, "$key has a file";
        $id{$key} = JSON::PP::decode_json($file->{content})->{id};
    }
    my %same = ('ann-2 ann' => 1);
    for my $owner (sort keys %id) {
        for my $key (qw(one two ann ann-2 long longer shared)) {
            my $wanted = $owner eq $key || $same{"$key $owner"} ? 200 : 404;
            is $server->get("/v1/files/$id{$owner}", as($key))->{status}, $wanted, "$key asks for that of $owner: $wanted";
        }
    }
    is ask($server, 'one')->{status}, 200, 'a key that is a tenant asks';
    my ($name) = $server->get('/metrics', as('one'))->{content} =~ /^llmserve_tenant_requests_total\{tenant="(key-[0-9a-f]{16})"\} 1$/m;
    ok defined $name, '  and is counted by a name that is not the key';
    is $server->stop, 0, 'the server ends well';
    $server = start('', '');
    is $server->get("/v1/files/$id{one}", as('one'))->{status}, 200, 'it is the same one after the next start';
    is $server->stop, 0, 'the server ends well';
}
{
    my $server = LlmServer->fake;
    my @names = map { ('u' x 200) . $_ } 1, 2;
    $server->post($path, { prompt => [1, 403], max_tokens => 1, user => $_ }) for @names, "x\x02", "x\x03";
    my @tenants = $server->get('/metrics')->{content} =~ /^llmserve_tenant_requests_total\{tenant="([ux][^"]*)"\} 1$/mg;
    is scalar @tenants, 4, 'names in requests that are shown alike stay apart' or diag "@tenants";
    is $server->stop, 0, 'the server ends well';
}

# ---- requests and tokens --------------------------------------------------------------
my $limits = "[tenants]\nrequests_per_minute = 3\n[tenant.ann]\nrequests_per_minute = 0\ntokens_per_minute = 30\n";
{
    my $server = start('', $limits);
    my @left = map { my $answer = ask($server, 'one'); is $answer->{status}, 200, 'within the limit'; $answer->{headers} } 1 .. 3;
    is_deeply [map { $_->{'x-ratelimit-remaining-requests'} } @left], [2, 1, 0], 'what is left is told';
    is $left[0]{'x-ratelimit-limit-requests'}, 3, '  of what';
    like $left[2]{'x-ratelimit-reset-requests'}, qr/\A[3-6]\d\.\d{3}s\z/, '  and when all is there again';
    is $left[0]{'x-ratelimit-limit-tokens'}, undef, '  nothing of what has no limit';
    my $answer = ask($server, 'one');
    is_deeply code($answer), [429, 'rate_limit_exceeded'], 'one more';
    is $answer->{json}{error}{type}, 'rate_limit_error', '  is an error as OpenAI has it';
    cmp_ok $answer->{headers}{'retry-after'}, '>', 0, '  that says when to come again';
    my $socket = $server->connect;
    syswrite $socket, "POST $path HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    like LlmServer::read_all($socket), qr/\AHTTP\/1\.1 429 /, '  at the head of the request';
    is $server->get('/v1/models', as('one'))->{status}, 200, 'looking is no request';
    is ask($server, 'two')->{status}, 200, 'another tenant has its own';
    is_deeply code(ask($server, 'one', max_tokens => 1)), [429, 'rate_limit_exceeded'], 'a refused one counts for nothing';

    is ask($server, 'ann', max_tokens => 30)->{status}, 200, 'tokens are counted as they come';
    my $refused = ask($server, 'ann-2');
    is_deeply code($refused), [429, 'rate_limit_exceeded'], '  for all keys of the tenant';
    like $refused->{json}{error}{message}, qr/tokens in a minute \(30\)/, '  it is told which limit';
    like $server->get('/metrics', as('two'))->{content}, qr/^llmserve_tenant_limited_total\{tenant="ann"\} 1$/m, 'refusals are counted';

    $server->configure(Batches::ini($folder, '', "api_keys = $keys\n") . ($limits =~ s/= 3$/= 5/mr));
    $server->signal('HUP');
    ok $server->log_becomes(qr/reload: generation 2/), 'another limit after a reload';
    is_deeply [map { ask($server, 'one')->{status} } 1 .. 3], [200, 200, 429], '  of which what was used before counts';
    is $server->stop, 0, 'the server ends well';
}

# ---- at once --------------------------------------------------------------------------
{
    my $server = start('', "[tenants]\nrequests_at_once = 2\n");
    my @open = map { $server->connect } 1, 2;
    for my $socket (@open) {
        syswrite $socket, LlmServer::raw_post($path, '{"prompt":"Once","max_tokens":100000,"ignore_eos":true,"stream":true}' =~ s/100000/400/r, 'Authorization: Bearer one', 'Content-Type: application/json');
        LlmServer::read_until($socket, qr/data:/);
    }
    my $answer = ask($server, 'one');
    is_deeply code($answer), [429, 'too_many_requests_at_once'], 'a third at once';
    is $answer->{headers}{'retry-after'}, 1, '  may come again soon';
    is ask($server, 'two')->{status}, 200, 'another tenant has its own';
    close $_ for @open;
    my $status;
    for (1 .. 100 * $LlmServer::TIMEOUT) { $status = ask($server, 'one')->{status}; last if $status == 200; select undef, undef, undef, 0.01 }
    is $status, 200, 'when they are over there is room again';
    is $server->stop, 0, 'the server ends well';
}

# ---- what is stored -------------------------------------------------------------------
SKIP: {
    skip Batches::missing(), 1 if Batches::missing();
    my $server = start("stored_responses = 64KiB\n", "[tenants]\nfile_bytes = 1000\n[tenant.ann]\nresponse_bytes = 8KiB\nfile_bytes = 0\n");
    my $form = sub { my ($key, $bytes) = @_; return $server->post('/v1/files', "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
          . 'x' x $bytes . "\r\n--x--\r\n", { %{ as($key) }, 'content-type' => 'multipart/form-data; boundary=x' }) };
    my $first = $form->('two', 600);
    is $first->{status}, 200, 'a file that fits';
    is_deeply code($form->('two', 600)), [413, 'tenant_storage_full'], '  a second that does not';
    is $form->('two', 70_000)->{status}, 413, '  nor one that is too large alone';
    is $form->('ann', 600)->{status}, 200, '  another tenant has its own limit';
    is $server->request('DELETE', "/v1/files/$first->{json}{id}", undef, as('two'))->{status}, 200, 'one is deleted';
    is $form->('two', 600)->{status}, 200, '  and there is room again';

    my $respond = sub { my ($key, $n) = @_; return map { $server->post('/v1/responses', { input => "$_ " . 'x' x 300, max_output_tokens => 2 }, as($key))->{json}{id} } 1 .. $n };
    my $is_there = sub { my ($key, $id) = @_; return $server->get("/v1/responses/$id", as($key))->{status} };
    my ($little) = $respond->('two', 1);
    my @anns = $respond->('ann', 12);
    is $is_there->('ann', $anns[0]), 404, 'a tenant keeps to its own limit';
    is $is_there->('ann', $anns[-1]), 200, '  of which the newest are there';
    my @ones = $respond->('one', 80);
    is $is_there->('one', $ones[0]), 404, 'who has most makes room';
    is $is_there->('two', $little), 200, '  and takes nothing from another, however old';
    is $is_there->('ann', $anns[-1]), 200, '  likewise';
    is $server->stop, 0, 'the server ends well';
}

# ---- mistakes -------------------------------------------------------------------------
ok !eval { start('', "[tenants]\nrequests_per_minute = -1\n") }, 'a limit below 0 is refused';
ok !eval { start('', "[tenant.ann]\nrequests = 1\n") }, 'and a key that is none';
like $@, qr/unknown key 'requests' in \[tenant\.ann\].*requests_per_minute|unknown key 'requests' in \[tenant\.ann\]/, '  by its section';
done_testing;
