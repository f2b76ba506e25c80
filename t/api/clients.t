#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Clients from other projects: the official openai client for Python, in a virtual
# environment of the build folder that is created once; and curl.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/..";
use File::Temp;
use LlmServer;
use Test::More;
use Venv;

my $venv = LlmServer::built('t/openai-venv');

# Batches are tried where there is SQLite.
my $state   = File::Temp->newdir;
my $batches = -e LlmServer::built('core/batch/store.lo');
my $server  = LlmServer->fake($batches ? (state => $state) : ());
SKIP: {
    my $why = LlmServer::make_venv($venv, 'openai');
    skip "the openai client: $why", 1 if defined $why;
    my $n = Venv::judge('openai', "'$venv/bin/python' '" . LlmServer::source('t/api/openai_client.py')
          . "' http://$server->{address} none @{[$batches ? 'batches' : '']}");
    cmp_ok $n, '>', 30, 'openai: and no less';
    my $demo = LlmServer->serve("[model]\npath = " . LlmServer::source('share/demo-model') . "\n[engine]\nthreads = 1\npin = false\n");
    $n = Venv::judge('openai', "'$venv/bin/python' '" . LlmServer::source('t/api/parse_client.py') . "' http://$demo->{address}");
    cmp_ok $n, '>', 6, 'openai: and no less';
    is $demo->stop, 0, 'the server ends well';
}
SKIP: {
    skip 'curl is not installed', 7 if system('command -v curl >/dev/null 2>&1') != 0;
    my $url  = "http://$server->{address}/v1/completions";
    my $text = `curl -sN $url -H 'content-type: application/json' -d '{"prompt": "Once upon a time", "max_tokens": 4, "stream": true}'`;
    my @data = $text =~ /^data: (.*)$/mg;
    is scalar @data, 5, 'curl: a stream';
    is $data[-1], '[DONE]', '  with its end';
    is `curl -s -o /dev/null -w '%{http_code}' $url -H 'content-type: application/json' -d '{'`, 400, 'curl: an error';
    like `curl -s $url -d '{"prompt": "Once", "max_tokens": 1}'`, qr/"object":"text_completion"/, 'curl: a body that it says is a form';
    for my $case (['application/json', 400], ['application/x-www-form-urlencoded', 400], ['text/plain', 415]) {
        my ($type, $status) = @$case;
        is `curl -s -o /dev/null -w '%{http_code}' --data-binary \@- -H 'transfer-encoding: chunked' -H 'content-type: $type' $url < /dev/null`, $status, "curl: an empty body in chunks, as $type";
    }
}
ok $server->metric_becomes('llmserve_generations_live', 0), 'nothing is left';
is $server->stop, 0, 'the server ends well';
done_testing;
