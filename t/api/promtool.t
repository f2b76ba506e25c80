#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# /metrics checked by Prometheus' own tool (Debian: prometheus), and every series that
# vLLM's dashboards and the Kubernetes inference gateway query.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LlmServer;
use Test::More;

my $server = LlmServer->fake;
$server->post('/v1/completions', { prompt => 'Once upon a time', max_tokens => 3, user => "it's \"me\"\\", slo => { ttft_ms => 1e6 } }) for 1 .. 3;
$server->post('/v1/completions', { prompt => 'x', max_tokens => 1 }, { 'x-request-id' => 'odd-1' });
my $page = $server->get('/metrics')->{content};

SKIP: {
    skip 'promtool is not installed (Debian: prometheus)', 1 if system('command -v promtool >/dev/null 2>&1') != 0;
    open my $tool, '|-', 'promtool check metrics >/tmp/promtool-$PPID 2>&1' or die $!;
    print $tool $page;
    my $good = close $tool;
    my $said = `cat /tmp/promtool-$$; rm -f /tmp/promtool-$$`;
    # vLLM's names break rules of style: these it may complain of, and of nothing else
    my @lines = grep { !/\Avllm:\w+(?:_perc|_info|_total)? (?:metric names should not contain ':'|non-counter metrics should not have "_total" suffix)/ } split /\n/, $said;
    is_deeply \@lines, [], 'promtool has nothing to say';
}

# vLLM's own boards (examples/observability), and GAIE's model server protocol.
my @boards = qw(
    e2e_request_latency_seconds_bucket e2e_request_latency_seconds_sum e2e_request_latency_seconds_count
    time_to_first_token_seconds_bucket time_to_first_token_seconds_sum time_to_first_token_seconds_count
    inter_token_latency_seconds_bucket inter_token_latency_seconds_sum inter_token_latency_seconds_count
    prompt_tokens_total generation_tokens_total num_requests_running num_requests_waiting kv_cache_usage_perc
    request_prompt_tokens_bucket request_generation_tokens_bucket request_queue_time_seconds_sum
    request_prefill_time_seconds_sum request_decode_time_seconds_sum request_max_num_generation_tokens_sum
    request_success_total iteration_tokens_total_count);
like $page, qr/^vllm:$_\{model_name="fake\/model",engine="0"/m, "vllm:$_" for @boards;
like $page, qr/^vllm:request_success_total\{[^}]*finished_reason="$_"\} /m, "finished_reason $_" for qw(stop length abort error);
like $page, qr/^vllm:cache_config_info\{.*block_size="16",num_gpu_blocks="50"\} 1$/m, 'vllm:cache_config_info';
like $page, qr/^vllm:lora_requests_info\{max_lora="0",waiting_lora_adapters="",running_lora_adapters=""\} \d/m, 'vllm:lora_requests_info';
like $page, qr/^vllm:num_requests_waiting_by_reason\{.*reason="$_"\} 0$/m, "waiting by reason: $_" for qw(capacity deferred);
like $page, qr/^vllm:prompt_tokens_by_source_total\{.*source="local_compute"\} 18$/m, 'prompt tokens by source';
like $page, qr/^vllm:prefix_cache_(?:queries|hits)_total\{/m, 'the prefix cache, in tokens';
like $page, qr/^llmserve_requests_refused_total\{plugin="scheduler fake"\} 0$/m, 'refusals by plugin';
like $page, qr/^llmserve_scheduler\{instance="0",plugin="scheduler fake",figure="a \\"queue\\"\\\\"\} nan$/m, 'a name that is none';
like $page, qr/^llmserve_cached_tokens\{form="kv",tier="device"\} 0$/m, 'cache by form and tier';
like $page, qr/^llmserve_tenant_slo_requests_total\{tenant="it's \\"me\\"\\\\",outcome="attained"\} 3$/m, 'attainment by tenant';
like $page, qr/^process_$_ \d/m, "process_$_" for qw(cpu_seconds_total resident_memory_bytes virtual_memory_bytes open_fds max_fds start_time_seconds);
is $server->stop, 0, 'the server ends well';
done_testing;
