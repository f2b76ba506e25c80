#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Views of the server: models, health, version, metrics; and how it drains.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use IO::Select;
use JSON::PP;
use Test::More;

my $server = LlmServer->fake;
sub json { my ($path) = @_; my $answer = $server->get($path); return ($answer->{status}, decode_json($answer->{content})) }

# ---- models, health, version ----------------------------------------------------------

my ($status, $models) = json('/v1/models');
LlmServer::is_recent delete $models->{data}[0]{created}, 'a model has the time of the start';
my $model = { id => 'fake/model', object => 'model', owned_by => 'llmserve', root => 'fake/model', parent => undef, max_model_len => 512, permission => [] };
is_deeply $models, { object => 'list', data => [$model] }, '/v1/models';
($status, my $one) = json('/v1/models/fake/model');
delete $one->{created};
is_deeply $one, $model, '/v1/models/{id}, with a slash in it';
($status, my $none) = json('/v1/models/other');
is_deeply [$status, $none->{error}{code}], [404, 'model_not_found'], 'another is not found';
is_deeply [json('/health')], [200, { status => 'ok', model => 'fake/model', scheduler_fallback => undef }], '/health';
is_deeply [json('/load')], [200, { server_load => 0 }], '/load';
is_deeply [json('/version')], [200, { version => '0.1.0' }], '/version';

# ---- metrics --------------------------------------------------------------------------

$server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 3 }) for 1 .. 4;
$server->post('/v1/completions', { prompt => [1, 403, 2], max_tokens => 9 });
$server->post('/v1/completions', { prompt => 'x' }, { 'x-request-id' => 'failnow-1' });
$server->post('/v1/completions', { prompt => 1 });
$server->get('/nowhere');
$server->post('/metrics', '123');
my $answer = $server->get('/metrics');
is $answer->{headers}{'content-type'}, 'text/plain; version=0.0.4; charset=utf-8', 'the type of /metrics';

# The bounds of vLLM's own buckets; its lengths go as far as the context, here 512.
my @seconds = qw(0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680);
my @between = qw(0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80);
my @lengths = qw(1 2 5 10 20 50 100 200 500);
my %bounds  = (
    time_to_first_token_seconds => [qw(0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560)],
    request_params_n            => [qw(1 2 5 10 20)],
    (map { $_ => \@between } qw(inter_token_latency_seconds request_time_per_output_token_seconds)),
    (map { $_ . '_seconds' => \@seconds } qw(e2e_request_latency request_queue_time request_inference_time request_prefill_time request_decode_time)),
    (map { $_ => \@lengths } qw(request_prompt_tokens request_generation_tokens request_max_num_generation_tokens request_params_max_tokens
          request_prefill_kv_computed_tokens)),
);
for my $name (sort keys %bounds) {
    my @found = $answer->{content} =~ /^vllm:${name}_bucket\{model_name="fake\/model",engine="0",le="([^"]+)"\} /mg;
    is_deeply \@found, [@{ $bounds{$name} }, '+Inf'], "vllm:$name has vLLM's buckets";
}

# Every line is of the format, and every sample belongs to the family before it.
my (%type, %help, %value, $family, @strange);
for my $line (split /\n/, $answer->{content}) {
    if ($line =~ /\A# HELP ([a-z0-9_:]+) \S.*\z/) { push @strange, "$line twice" if $help{$1}++; $family = $1 }
    elsif ($line =~ /\A# TYPE ([a-z0-9_:]+) (counter|gauge|histogram|summary)\z/) { push @strange, $line if $1 ne $family; $type{$1} = $2 }
    elsif ($line =~ /\A([a-z0-9_:]+)(\{(?:[a-z_]+="[^"\\]*",?)*\})? (-?[0-9.e+-]+)\z/) {
        my ($name, $labels, $number) = ($1, $2 // '', $3);
        my $base = $type{$family} =~ /histogram|summary/ ? $name =~ s/_(bucket|sum|count)\z//r : $name;
        push @strange, $line if $base ne $family || exists $value{"$name$labels"};
        $value{"$name$labels"} = $number;
    }
    else { push @strange, $line }
}
is_deeply \@strange, [], 'every line is as Prometheus reads it';
is scalar(grep { $type{$_} eq 'counter' && !/_total\z/ } keys %type), 0, 'counters end in _total';

my $labels = 'model_name="fake/model",engine="0"';
my %exact = (
    "vllm:num_requests_running{$labels}"   => 0,
    "vllm:num_requests_waiting{$labels}"   => 0,
    "vllm:kv_cache_usage_perc{$labels}"    => 0,
    "vllm:generation_tokens_total{$labels}" => 14,
    "vllm:num_preemptions_total{$labels}"  => 0,
    "vllm:request_success_total{$labels,finished_reason=\"length\"}" => 4,
    "vllm:request_success_total{$labels,finished_reason=\"stop\"}"   => 1,
    "vllm:request_success_total{$labels,finished_reason=\"error\"}"  => 1,
    "vllm:request_success_total{$labels,finished_reason=\"abort\"}"  => 0,
    "vllm:time_to_first_token_seconds_count{$labels}"   => 5,
    "vllm:inter_token_latency_seconds_count{$labels}"   => 9,
    "vllm:e2e_request_latency_seconds_count{$labels}"   => 5,
    "vllm:request_prompt_tokens_sum{$labels}"           => 23,
    "vllm:request_generation_tokens_sum{$labels}"       => 14,
    "vllm:request_params_max_tokens_sum{$labels}"       => 21,
    'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="50"}' => 1,
    "vllm:request_success_total{$labels,finished_reason=\"repetition\"}" => 0,
    "vllm:external_prefix_cache_hits_total{$labels}" => 0,
    'http_requests_total{handler="/v1/completions",method="POST",status="2xx"}' => 5,
    'http_requests_total{handler="/v1/completions",method="POST",status="4xx"}' => 1,
    'http_requests_total{handler="/v1/completions",method="POST",status="5xx"}' => 1,
    'http_requests_total{handler="/v1/models/*",method="GET",status="4xx"}' => 1,
    'http_requests_total{handler="none",method="none",status="4xx"}' => 2,
    'http_request_size_bytes_sum{handler="none"}' => 0, # refused at the head
    'http_request_size_bytes_count{handler="/v1/completions"}' => 7,
    'http_request_duration_seconds_count{handler="/v1/completions",method="POST"}' => 7,
    'llmserve_scheduler{instance="0",plugin="scheduler fake",figure="share"}'               => 1.5,
    'llmserve_scheduler_events_total{instance="0",plugin="scheduler fake",event="demoted"}' => 7,
    'llmserve_cache{instance="0",plugin="cache fake",figure="blocks"}'                      => 50,
    'llmserve_generations_live'          => 0,
    'llmserve_generations_refused_total' => 1,
    'llmserve_http_connections'          => 1,
    'llmserve_http_requests_in_hand'     => 1,
    'llmserve_scheduler_fallback'        => 0,
);
is $value{$_}, $exact{$_}, $_ for sort keys %exact;
is scalar(grep { /llmserve_(?:cache_events_total|predictor)/ } keys %type), 0, 'nothing of who has nothing to say';
for my $name (grep { $type{$_} eq 'histogram' && $_ ne 'http_request_duration_seconds' } sort keys %type) {
    my @counts = $answer->{content} =~ /^\Q$name\E_bucket\{.*\} (\d+)$/mg;
    is_deeply \@counts, [sort { $a <=> $b } @counts], "$name only grows";
    is $counts[-1], $value{"${name}_count{$labels}"} // $value{"${name}_count"}, '  up to its count';
}
cmp_ok $value{'process_resident_memory_bytes'}, '>', 1e6, 'the process has a size';
is $server->stop, 0, 'the server ends well';

# ---- names of others ------------------------------------------------------------------
{
    my $other = LlmServer->fake(dialects => 1);
    $other->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 3 }) for 1 .. 2;
    is $other->metric($_->[0]), $_->[1], $_->[0]
        for ["vllm:gpu_cache_usage_perc{$labels}", 0], ["vllm:time_per_output_token_seconds_count{$labels}", 4], ["vllm:num_requests_swapped{$labels}", 0],
        ["vllm:gpu_prefix_cache_hit_rate{$labels}", 0], ['llamacpp:prompt_tokens_total', 10], ['llamacpp:tokens_predicted_total', 6],
        ['llamacpp:n_tokens_max', 8], ['llamacpp:requests_processing', 0];
    is $other->stop, 0, 'the server ends well';
    unlike $answer->{content}, qr/llamacpp:|gpu_cache/, 'only where they are asked for';
}

# ---- draining -------------------------------------------------------------------------
{
    my $draining = LlmServer->fake(silence => 100);
    my $stream   = $draining->connect;
    my $idle     = $draining->connect;
    my $other    = $draining->connect;
    my $brief    = $draining->connect;
    my $patient  = $draining->connect;
    syswrite $_, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n" for $idle, $other;
    LlmServer::read_until($_, qr/\}\z/) for $idle, $other;
    my $held     = $draining->connect;    # as long as it is there, the stream goes on
    syswrite $held, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"stream":true}', 'x-request-id: pause-1');
    LlmServer::read_until($held, qr/data: /);
    syswrite $stream, LlmServer::raw_post('/v1/completions', '{"prompt":[1,403],"max_tokens":50,"stream":true}', 'x-request-id: last-1');
    LlmServer::read_until($stream, qr/data: /);
    $draining->signal('TERM');
    my $health = '';
    for (my $deadline = time + $LlmServer::TIMEOUT; time < $deadline;) {
        syswrite $other, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
        $health = LlmServer::read_until($other, qr/\}\z/);
        last if $health =~ / 503 /;
    }
    like $health, qr/503 Service Unavailable.*"status":"draining"/s, 'draining shows in /health';
    syswrite $other, LlmServer::raw_post('/v1/completions', '{"prompt":"x"}');
    like LlmServer::read_until($other, qr/\}\}\z/), qr/503 Service Unavailable.*retry-after: \d+\r\n.*"code":"shutting_down"/s, 'new requests are refused';
    my $refused = qr/ 503 .*"code":"shutting_down".*\}\}\z/s;
    syswrite $patient, LlmServer::raw_post('/v1/completions', '{"prompt":"x"}', 'prefer: respond-async, wait=30');
    syswrite $brief, LlmServer::raw_post('/v1/completions', '{"prompt":"x"}', 'Prefer: wait=1');
    like LlmServer::read_until($brief, qr/\}\}\z/), $refused, 'a second later, if they want to wait';
    ok !IO::Select->new($patient)->can_read(0), '  not before';
    close $held;
    like LlmServer::read_all($stream), qr/"finish_reason":"length".*data: \[DONE\]\n\n\r\n0\r\n\r\n\z/s, 'running ones are finished';
    like LlmServer::read_until($patient, qr/\}\}\z/), $refused, '  and all at the end';
    is $draining->wait_for_end, 0, 'then it ends, idle connections or not';
    is LlmServer::read_all($idle), '', 'and closes these';
}
done_testing;
