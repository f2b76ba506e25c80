/* SPDX-License-Identifier: Apache-2.0 */
/* The table of llmserve-bench's options, with the names and meanings of vLLM's `bench
 * serve` where it has them. */
#include "tools/bench/options.h"

#define OPTIONS struct lls_bench_options
#include "tools/cli/table.h"
#define SAMPLING(name)                                                                   \
  REAL(name, "auto", -100, 1e9, "sent with each request if set", AUTO)

static const struct lls_param params[] = {
    CHOICE(backend, "openai", "openai|vllm|openai-chat",
           "openai and vllm: /v1/completions; openai-chat: /v1/chat/completions"),
    TEXT(base_url, "", "http://HOST:PORT[/PREFIX] in place of --host and --port"),
    TEXT(host, "127.0.0.1", "the server"),
    INT(port, "8080", 1, 65535, "", "its port"),
    TEXT(endpoint, "auto", "path; auto: as --backend says"),
    /* keys are secret, so results do not contain them */
    LLS_PARAM_STRING(
        OPTIONS, header, "",
        "more headers, NAME=VALUE, such as Authorization=\"Bearer KEY\"; without "
        "one of that name, the environment's OPENAI_API_KEY is the key",
        .flags = LLS_OPTION_LIST | LLS_OPTION_APART),
    TEXT(model, "auto", "its name in requests; auto: the first of /v1/models"),
    TEXT(served_model_name, "", "the name in requests where --model is for the results"),
    INT(ready_check_timeout_sec, "0", 0, 86400, "s",
        "wait this long for a server that does not answer yet", APART),

    INT(max_concurrency, "auto", 1, 1000000, "requests",
        "at most so many at a time; with --request-rate inf this is a closed loop of so "
        "many clients",
        AUTO),
    INT(num_warmups, "0", 0, 100000, "requests",
        "sent before, one after the other, and not counted"),
    TIME(timeout, "6h", "a request that takes longer has failed"),
    TIME(stop_after, "auto",
         "stop after this time: requests still running are disconnected and not counted",
         AUTO),
    CHOICE(max_tokens, "exact", "exact|bound",
           "exact: ask for the answer's true length, as vLLM's tool does; bound: ask for "
           "--max-new-tokens and hang up after the true length, so that no scheduler is "
           "told"),
    FLAG(ignore_eos, "false",
         "ask the server to continue past the end of the text; random prompts always do"),
    INT(vocab_size, "auto", 2, 16777216, "tokens",
        "random prompts are of ids below; auto: --tokenizer's, else 256", AUTO),
    FLAG(
        send_slo, "true",
        "send class, priority, slo and the tenant (as user) with requests that have them "
        "(llmserve reads them)"),
    FLAG(
        send_prefix_hash, "true",
        "send the hash of the prompt's first 1024 bytes as x-llmserve-prefix-hash, which "
        "a proxy can choose replicas by"),
    FLAG(continuous_usage, "false",
         "ask for the usage in every chunk (stream_options.continuous_usage_stats), for "
         "itl_per_token where a chunk has several tokens"),
    SAMPLING(temperature),
    SAMPLING(top_p),
    SAMPLING(top_k),
    SAMPLING(min_p),
    SAMPLING(frequency_penalty),
    SAMPLING(presence_penalty),
    SAMPLING(repetition_penalty),
    INT(logprobs, "auto", 0, 100, "", "sent with each request if set", AUTO),
    TEXT(extra_body, "", "a JSON object whose members are put into each request"),
    TEXT(chat_template_kwargs, "", "a JSON object, sent with each chat"),
    TEXT(request_id_prefix, "bench-", "of the x-request-id"),

    REAL(cancel_fraction, "0", 0, 1, "share of requests that hang up early"),
    INT(cancel_after, "1", 0, 1000000, "tokens",
        "when they do; 0: as soon as the request is sent"),
    REAL(slow_fraction, "0", 0, 1, "share of requests that read slowly"),
    INT(slow_rate, "200", 1, 1000000000, "bytes/s", "how slowly"),

    LIST(goodput,
         "what a good request is: KEY:MS for ttft, tpot, e2el, itl_p99 or itl_max; "
         "without it, the requests' own SLOs"),
    TEXT(percentile_metrics, "ttft,tpot,itl,e2el",
         "whose mean, median and percentiles the table has; the JSON has all"),
    TEXT(metric_percentiles, "99", "more percentiles, such as 95,99.9"),
    TIME(warm_up, "0", "what starts in the first part of the run is left out"),
    FLAG(save_result, "false", "write the JSON to --result-dir", APART),
    FLAG(save_detailed, "false", "and a list of each request's numbers in it"),
    TEXT(result_filename, "",
         "its name; else LABEL-RATEqps[-concurrencyN]-MODEL-YYYYmmdd-HHMMSS.json",
         OUTPUT),
    FLAG(append_result, "false",
         "add the JSON as one more line to --result-filename instead of replacing it",
         APART),
    TEXT(label, "", "name of this run in results; else the backend's"),
    LIST(metadata, "more members of the JSON, KEY=VALUE"),
    FLAG(json, "false",
         "print the JSON of the result in place of the table, and no progress"),
    FLAG(quiet, "false",
         "print no table and no progress: only errors, and what is saved"),
    FLAG(disable_tqdm, "false", "no progress bar, or lines where there is no terminal",
         APART),
    FLAG(dry_run, "false", "show the workload and the first request; send nothing",
         APART),
    FLAG(help, "false", "show this", APART),
    FLAG(version, "false", "show the version", APART),
};

const struct lls_option_group lls_bench_option_group = {
    .title = "Load over HTTP",
    .table = {.params = params,
              .n = sizeof params / sizeof *params,
              .size = sizeof(struct lls_bench_options)},
};
