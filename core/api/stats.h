/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and times of the front end; metrics_page.c exposes it. */
#ifndef LLS_API_STATS_H
#define LLS_API_STATS_H

#include "core/obs/metrics.h"

/* How a choice ended: the label finished_reason of vllm: series. */
enum lls_outcome {
  LLS_OUTCOME_STOP,
  LLS_OUTCOME_LENGTH,
  LLS_OUTCOME_ABORT,
  LLS_OUTCOME_ERROR,
  LLS_OUTCOMES,
};

struct lls_api_stats {
  uint64_t finished[LLS_OUTCOMES];
  uint64_t refused; /* generation requests answered with an error at once */
  uint64_t longest; /* tokens of the longest sequence, prompt and answer */
  uint32_t live;    /* generation requests not finished yet */
  struct lls_histogram ttft, inter_token, per_output_token;
  struct lls_histogram e2e, queue, prefill, decode, inference;
  struct lls_histogram prompt_tokens, generation_tokens, max_tokens;
  struct lls_histogram computed_tokens; /* prompt tokens not taken from the cache */
  struct lls_histogram max_generation;  /* tokens of the longest choice of a request */
  struct lls_histogram n;
};

void lls_api_stats_init(struct lls_api_stats *stats, uint32_t max_context);

#endif
