#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# [server] traces: a collector gets each request's phases as spans, under the client's span; one that is away or
# refuses them delays nobody. With LLS_CLIENTS=1 OpenTelemetry's own package judges the messages.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp qw(tempdir);
use IO::Socket::INET;
use JSON::PP;
use LlmServer;
use Test::More;
use Time::HiRes qw(time sleep);

my $stories = LlmServer::source('t/data/models/stories260K');
my $dir     = tempdir(CLEANUP => 1);

plan skip_all => 'llmserve was built without libcurl (libcurl4-openssl-dev)'
    if LlmServer::read_file(LlmServer::built('config.h')) !~ /^#define LLS_CURL 1/m;

# A collector: writes each body it gets to $dir/body.N, and answers with the statuses of $dir/statuses in turn, then 200.
sub collector {
    my ($listener) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    my $n = 0;
    while (my $client = $listener->accept) {
        my ($head, $body) = ('', '');
        while (defined(my $line = <$client>)) { last if $line eq "\r\n"; $head .= $line }
        my ($length) = $head =~ /^content-length: (\d+)/mi;
        read $client, $body, $length // 0;
        my @statuses = -e "$dir/statuses" ? split ' ', LlmServer::read_file("$dir/statuses") : ();
        my $status = $statuses[$n] // 200;
        LlmServer::write_file("$dir/body.$n.new", "$head\r\n$body");
        rename "$dir/body.$n.new", "$dir/body.$n";
        $n++;
        print $client "HTTP/1.1 $status X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        close $client;
    }
    exit 0;
}

sub bodies { return map { LlmServer::read_file("$dir/body.$_") } grep { -e "$dir/body.$_" } 0 .. 99 }
sub spans {
    return map { @{ $_->{spans} } } map { @{ $_->{scopeSpans} } } map { @{ decode_json($_)->{resourceSpans} } } map { /\r\n\r\n(.*)/s } bodies();
}

# Waits until the collector has spans of so many requests; those of one trace, by name.
sub traces_become {
    my ($n) = @_;
    my $deadline = time + $LlmServer::TIMEOUT;
    my @roots;
    while ((@roots = grep { $_->{name} eq 'llm_request' } spans()) < $n && time < $deadline) { sleep .05 }
    return scalar @roots;
}
sub of_trace { my ($id) = @_; return grep { $_->{traceId} eq $id } spans() }
sub attribute { my ($span, $key) = @_; my ($a) = grep { $_->{key} eq $key } @{ $span->{attributes} }; return $a && (values %{ $a->{value} })[0] }

my $listener = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die $!;
my $url      = 'http://127.0.0.1:' . $listener->sockport;
my ($me, $collector) = ($$, collector($listener));
END { kill 'KILL', $collector if $collector && $$ == $me }
$ENV{OTEL_EXPORTER_OTLP_HEADERS} = 'x-team=blue,authorization=Bearer%20k';
my $server = LlmServer->serve("traces = $url\n[model]\npath = $stories\n[engine]\nthreads = 1\npin = false\n");

# ---- a request under a client's span ------------------------------------------------------

my $trace = '0af7651916cd43dd8448eb211c80319c';
sub ask { my ($headers, %more) = @_; return $server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 5, %more }, $headers) }
my $before = time;
ask({ traceparent => "00-$trace-b7ad6b7169203331-01", 'x-request-id' => 'r1' });
my $after = time;
is traces_become(1), 1, 'a request is there';
my ($root, @phases) = of_trace($trace);
is_deeply [@$root{qw(name kind parentSpanId)}], ['llm_request', 2, 'b7ad6b7169203331'], '  below the client\'s span';
is_deeply [map { $_->{name} } @phases], [qw(queue prefill decode)], '  with its phases';
is_deeply [grep { $_->{parentSpanId} ne $root->{spanId} } @phases], [], '  below it';
my @ids = map { $_->{spanId} } $root, @phases;
is scalar(keys %{ { map { $_ => 1 } @ids } }), 4, '  each of them its own';
ok $root->{startTimeUnixNano} / 1e9 >= $before - .1 && $root->{endTimeUnixNano} / 1e9 <= $after + .1, '  in time';
my @gaps = map { $phases[$_]{startTimeUnixNano} ne $phases[$_ - 1]{endTimeUnixNano} } 1 .. $#phases;
is_deeply [grep { $_ } @gaps], [], '  one phase after the other';
is attribute($root, 'gen_ai.usage.output_tokens'), '5', '  tokens';
is attribute($root, 'gen_ai.request.id'), 'r1', '  and the id';
my ($head) = (bodies())[0] =~ /\A(.*?)\r\n\r\n/s;
like $head, qr{\APOST /v1/traces HTTP/1\.1\r\n}, 'POST /v1/traces';
like $head, qr{^content-type: application/json\r?$}mi, '  in JSON';
like $head, qr{^x-team: blue\r?$}mi, '  with the headers of the environment';
like $head, qr{^authorization: Bearer k\r?$}mi, '  decoded';

ask({ traceparent => "00-$trace-b7ad6b7169203331-00" });             # not sampled
ask({ traceparent => $_ }) for "00-$trace-xyz-01", '00-' . '0' x 32 . '-b7ad6b7169203331-01';    # malformed
ask({}, n => 2);
is traces_become(5), 5, 'not sampled: none; malformed: a trace of its own; two choices: two';
is scalar(of_trace($trace)), 4, '  and no further span of that trace';
is $server->metric('llmserve_trace_spans_total{outcome="dropped"}'), 0, 'none is dropped';

# ---- a collector that refuses, and one that is away -------------------------------------

my $n = () = bodies();
LlmServer::write_file("$dir/statuses", join ' ', (200) x $n, 503, 200, 400);
ask({});
is traces_become(6), 6, 'after a 503 spans are sent again';
ok $server->metric_becomes('llmserve_trace_spans_total{outcome="sent"}', scalar spans_sent()), '  once';
sub spans_sent { my @b = bodies(); return map { 1 } map { /"traceId"/g } @b[0 .. $n - 1], $b[-1] }
ask({});
ok $server->log_becomes(qr{ warning +traces: 4 spans were not taken: \Q$url\E/v1/traces answers 400$}m), 'a 400 is not repeated, but logged';
kill 'KILL', $collector;
waitpid $collector, 0;
close $listener;
ask({}) for 1 .. 3;
my $answer = ask({});
is $answer->{status}, 200, 'without a collector requests are answered';
ok $server->metric_becomes('llmserve_trace_spans_total{outcome="failed"}', 20), '  and spans counted as failed';

SKIP: {
    skip 'LLS_CLIENTS is not set', 1 if !$ENV{LLS_CLIENTS};
    my $venv = LlmServer::built('t/opentelemetry-venv');
    my $why = LlmServer::make_venv($venv, 'opentelemetry-proto', 'protobuf');
    skip $why, 1 if $why;
    LlmServer::write_file("$dir/all", join "\n", map { /\r\n\r\n(.*)/s } bodies());
    my $said = qx('$venv/bin/python' -c 'import sys
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as R
for line in open(sys.argv[1]): print(sum(len(s.spans) for r in Parse(line, R()).resource_spans for s in r.scope_spans))' '$dir/all' 2>&1);
    like $said, qr/\A(?:\d+\n)+\z/, 'OpenTelemetry\'s package reads all messages' or diag $said;
}
is $server->stop, 0, 'the server ends well';

# ---- what is refused ----------------------------------------------------------------------

LlmServer::write_file("$dir/bad.ini", "[server]\ntraces = 127.0.0.1:4318\nlisten = 127.0.0.1:0\n[model]\npath = $stories\n");
my $said = qx('${\ LlmServer::built('llmserve')}' -c '$dir/bad.ini' 2>&1);
like $said, qr{\[server\] traces: expected a URL such as http://127\.0\.0\.1:4318, not '127\.0\.0\.1:4318'}, 'no URL';
done_testing;
