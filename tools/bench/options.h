/* SPDX-License-Identifier: Apache-2.0 */
/* llmserve-bench's own options; those of the workload are tools/workload/options.h, those
 * of many runs tools/sweep/sweep.h. */
#ifndef LLS_BENCH_OPTIONS_H
#define LLS_BENCH_OPTIONS_H

#include <stdbool.h>

#include "tools/cli/cli.h"

/* the dialect of requests, recorded in the JSON; chat: chat completions */
enum lls_bench_backend {
  LLS_BACKEND_OPENAI,
  LLS_BACKEND_VLLM,
  LLS_BACKEND_OPENAI_CHAT,
};

enum lls_bench_max_tokens { LLS_MAX_TOKENS_EXACT, LLS_MAX_TOKENS_BOUND };

struct lls_bench_options {
  /* target */
  int64_t backend;
  const char *base_url;
  const char *host;
  int64_t port;
  const char *endpoint;
  const char *header;
  const char *model;
  const char *served_model_name;
  int64_t ready_check_timeout_sec;
  /* requests */
  int64_t max_concurrency;
  int64_t num_warmups;
  int64_t timeout;
  int64_t stop_after;
  int64_t max_tokens;
  bool ignore_eos;
  int64_t vocab_size;
  bool send_slo;
  bool send_prefix_hash;
  double temperature, top_p, top_k, min_p;
  double frequency_penalty, presence_penalty, repetition_penalty;
  int64_t logprobs;
  const char *extra_body;
  const char *chat_template_kwargs;
  bool continuous_usage;
  const char *request_id_prefix;
  /* disturbances */
  double cancel_fraction;
  int64_t cancel_after;
  double slow_fraction;
  int64_t slow_rate;
  /* results */
  const char *goodput;
  const char *percentile_metrics;
  const char *metric_percentiles;
  int64_t warm_up;
  bool save_result;
  bool save_detailed;
  const char *result_filename;
  bool append_result;
  const char *label;
  const char *metadata;
  bool json, quiet;
  bool disable_tqdm;
  bool dry_run;
  bool help, version;
};

extern const struct lls_option_group lls_bench_option_group;

#endif
