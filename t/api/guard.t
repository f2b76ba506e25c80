#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# llmserve's own guards and records: API keys and their reload, the log's line a request,
# a log that cannot be written.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use File::Temp;
use JSON::PP;
use Test::More;
use Time::HiRes ();

my $stories = LlmServer::source('t/data/models/stories260K');
my $model   = "[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\nmax_context = 64\n";
my $folder  = File::Temp->newdir;

sub write_file {
    my ($name, $text) = @_;
    open my $file, '>', "$folder/$name" or die $!;
    print $file $text;
    close $file;
    return "$folder/$name";
}

# Waits for something in the log, which is written by another process.
sub logged {
    my ($server, $pattern) = @_;
    for (my $deadline = time + $LlmServer::TIMEOUT; time < $deadline; Time::HiRes::sleep(0.02)) {
        return 1 if $server->log =~ $pattern;
    }
    diag $server->log;
    return 0;
}

# ---- API keys -------------------------------------------------------------------------
{
    my $keys   = write_file('keys', "# who may ask\n\nsk-one  ann\nsk-two\n");
    my $server = LlmServer->serve("api_keys = $keys\n$model");
    my $ask    = sub {
        my ($key) = @_;
        return $server->post('/v1/completions', { prompt => 'Once', max_tokens => 1 }, defined $key ? { authorization => $key } : {});
    };
    my $answer = $ask->();
    is $answer->{status}, 401, 'without a key';
    is_deeply [@{ $answer->{json}{error} }{qw(type code)}], ['invalid_request_error', 'invalid_api_key'], '  as OpenAI says it';
    is $answer->{headers}{'www-authenticate'}, 'Bearer', '  and HTTP';
    is $ask->($_)->{status}, 401, "with '$_'" for 'Bearer sk-three', 'Bearer sk-on', 'Bearer sk-one2', 'Bearer ', 'sk-one', 'Bearer ' . 'x' x 5000,
        'Basic sk-one', 'Bearer #';
    is $ask->($_)->{status}, 200, "with '$_'" for 'Bearer sk-one', 'bearer sk-two', 'Bearer   sk-one';
    is $server->get('/v1/models', { 'x-api-key' => 'sk-two' })->{status}, 200, 'by x-api-key, as clients of llama.cpp do';
    is $server->get('/v1/models', $_)->{status}, 401, '  if it is one' for { 'x-api-key' => 'sk-on' }, { 'x-api-key' => '' }, { 'x-api-key' => 'sk-two', authorization => 'Bearer x' };
    is $server->get($_)->{status}, 200, "$_ is for everybody" for qw(/health /live /ready /metrics /version);
    is $server->get($_)->{status}, 401, "$_ is not" for qw(/v1/models /admin/status /admin/queues /nowhere /healthz);
    is $server->post('/admin/drain', {})->{status}, 401, 'nor is /admin/drain';
    is $server->metric('llmserve_tenant_requests_total{tenant="ann"}'), 2, 'a key has its tenant';

    write_file('keys', "sk-new\n");
    $server->signal('HUP');
    ok logged($server, qr/reload: generation 2/), 'the file is read again';
    is $ask->('Bearer sk-one')->{status}, 401, 'an old key is out';
    is $ask->('Bearer sk-new')->{status}, 200, 'a new one in';
    for my $case (['', qr/keys: there is no key in it/], ['x' x 256 . "\n", qr/keys:1: a key has at most 255 bytes/]) {
        write_file('keys', $case->[0]);
        $server->signal('HUP');
        ok logged($server, $case->[1]), 'a bad file is refused';
        is $ask->('Bearer sk-new')->{status}, 200, '  and the keys stay';
    }
    is $server->stop, 0, 'the server ends well';
}

# ---- pages of the web, other models ---------------------------------------------------
{
    my $keys   = write_file('keys', "sk-one\n");
    my $page   = 'https://chat.example.org';
    my $server = LlmServer->serve("api_keys = $keys\n$model");
    my $ask    = { origin => $page, 'access-control-request-method' => 'POST', 'access-control-request-headers' => 'authorization,content-type' };
    my $said   = sub { my ($answer) = @_; return { map { /\Aaccess-control-(.*)/ ? ($1 => $answer->{headers}{$_}) : () } keys %{ $answer->{headers} } } };
    is_deeply $said->($server->request('OPTIONS', '/v1/completions', undef, $ask)), {}, 'no page may ask';
    $server->configure("api_keys = $keys\nallowed_origins = https://a.example $page\nany_model = true\n$model");
    $server->signal('HUP');
    ok logged($server, qr/reload: generation 2/), 'until it is allowed';
    my $answer = $server->request('OPTIONS', '/v1/completions', undef, $ask);
    is $answer->{status}, 200, 'a preflight, without a key';
    is_deeply $said->($answer), { 'allow-origin' => $page, 'allow-methods' => 'POST', 'allow-headers' => 'authorization,content-type', 'max-age' => 600,
        'expose-headers' => join(', ', qw(x-request-id retry-after x-llmserve-prefix-hash x-llmserve-ignored), map { ("x-ratelimit-$_-requests", "x-ratelimit-$_-tokens") } qw(limit remaining reset)), 'allow-credentials' => 'true' }, '  says what may follow';
    $answer = $server->post('/v1/completions', { prompt => 'Once', max_tokens => 1, model => 'gpt-4' }, { origin => $page, authorization => 'Bearer sk-one' });
    is $answer->{headers}{'access-control-allow-origin'}, $page, 'the answer may be shown';
    is $answer->{status}, 200, 'and any_model is any';
    isnt $answer->{json}{model}, 'gpt-4', '  but ours answers';
    is $server->post('/v1/completions', { prompt => 'Once' }, { origin => $page })->{headers}{'access-control-allow-origin'}, $page, 'a refusal too';
    is_deeply $said->($server->get('/health', { origin => $_ })), {}, "not to $_" for 'https://example.org', 'https://chat.example.or', 'null', '';
    $server->configure("allowed_origins = *\n$model");
    $server->signal('HUP');
    ok logged($server, qr/reload: generation 3/), 'any may';
    is $server->get('/health', { origin => 'null' })->{headers}{'access-control-allow-origin'}, '*', '  ask';
    is $server->stop, 0, 'the server ends well';
}

# ---- the log --------------------------------------------------------------------------
{
    my $server = LlmServer->serve("log_format = json\nlog_level = debug\n$model\[cache]\ndevice_memory = 64KiB\n");
    my $id     = $server->post('/v1/completions', { prompt => 'Once', max_tokens => 3, seed => 1, user => 'ann', class => 'realtime' })->{headers}{'x-request-id'};
    $server->post('/v1/completions', { prompt => 'Once', max_tokens => 0 }, { 'x-request-id' => 'mine-1' });
    $server->post('/v1/completions', { prompt => [(403) x 60], max_tokens => 1 }, { 'x-request-id' => 'huge-1' });
    my ($first_foo) = map { $server->post('/v1/completions', { prompt => 'Once', foo => 1 })->{headers}{'x-request-id'} } 1 .. 3;
    is $server->stop, 0, 'the server ends well';
    my @lines = map { decode_json($_) } split /\n/, $server->log;
    my ($line, @more) = grep { ($_->{request} // '') eq $id } @lines;
    ok $line, 'one line of the request, by the id that its client got' or diag $server->log;
    is scalar @more, 0, 'and no more';
    is_deeply [@{ $line // {} }{qw(outcome prompt_tokens generated_tokens preemptions tenant class)}], ['length', 2, 3, 0, 'ann', 'realtime'], 'with what it was';
    cmp_ok $line->{total_ms}, '>=', $line->{ttft_ms}, 'and its times';
    unlike $server->log, qr/"\w+_ms":-/, '  none of which is negative';
    cmp_ok $line->{$_}, '>=', 0, "  $_" for qw(queue_ms prefill_ms decode_ms ttft_ms tpot_ms);
    ($line) = grep { ($_->{request} // '') eq 'mine-1' } @lines;
    is_deeply [@{ $line // {} }{qw(outcome status)}], ['refused', 400], 'a refusal has its line too';
    my @unknown = grep { ($_->{ignores} // '') eq 'foo' } @lines;
    is scalar @unknown, 1, 'an unknown parameter is said once';
    is $unknown[0]{request}, $first_foo, '  of the request that had it';
    is scalar(grep { ($_->{where} // '') eq 'api' && !defined $_->{request} } @lines), 0, 'every line of a request bears its id';
}
{
    my $server = LlmServer->serve($model);
    $server->post('/v1/completions', { prompt => 'Once', max_tokens => 2, "x\nforged" => 1 }, { 'x-request-id' => 'mine-2' });
    ok logged($server, qr/ info    api: mine-2: ignores x\?forged,/), 'what a client wrote begins no line';
    ok logged($server, qr/ info    api: mine-2: outcome (?:length|stop), choice 0, .*preemptions 0, total_ms .*tpot_ms [\d.]+\n/), 'a line as text';
    is $server->stop, 0, 'the server ends well';
}

# ---- a full disk ----------------------------------------------------------------------
SKIP: {
    skip '/dev/full is not here', 3 unless -e '/dev/full';
    my $ini = write_file('full.ini', "[server]\nlisten = 127.0.0.1:0\nlog_format = json\nlog_level = debug\n$model");
    # the address must be known without a log: a free port, in the hope that it stays so
    my $probe = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die;
    my $address = '127.0.0.1:' . $probe->sockport;
    close $probe;
    $ini = write_file('full.ini', "[server]\nlisten = $address\nlog_format = json\nlog_level = debug\n$model");
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>', '/dev/full';
        exec(LlmServer::built('llmserve'), '-c', $ini) or die "exec: $!";
    }
    my $server = LlmServer->new(pid => $pid, address => $address);
    for (my $deadline = time + 4 * $LlmServer::TIMEOUT; time < $deadline; Time::HiRes::sleep(0.02)) {
        last if $server->get('/ready')->{status} == 200;
    }
    is $server->post('/v1/completions', { prompt => 'Once', max_tokens => 2 })->{status}, 200, 'a request without a log';
    is $server->post('/v1/completions', { prompt => 1 })->{status}, 400, 'a refusal too';
    is $server->stop, 0, 'the server ends well';
}
done_testing;
