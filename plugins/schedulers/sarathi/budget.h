/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token budget of a step of Sarathi-Serve, for decodes and chunks of prompts. Decodes
 * use it up first and are never cut.
 */
#ifndef SARATHI_BUDGET_H
#define SARATHI_BUDGET_H

#include <llmserve/policy/margin.h>
#include <llmserve/policy/room.h>
#include <llmserve/scheduler.h>

struct params {
  int64_t chunk, slo;
  double margin;
  bool dynamic_chunks;
  int64_t chunk_low, chunk_high, chunk_tokens, chunk_stages;
  int64_t max_seqs;
  double watermark;
  int64_t preempt;
};

struct budget {
  const struct params *params;
  uint32_t most;     /* tokens in the step; with slo, for a prompt without context */
  uint32_t used;     /* tokens used up by decodes and planned chunks */
  uint32_t *decodes; /* (max_requests) contexts of decodes */
  struct lls_pol_room room;     /* within_ns LLS_NEVER: `most` is the limit */
  struct lls_pol_margin margin; /* corrects estimates of steps limited by slo */
};

int budget_init(struct budget *, const struct lls_engine_caps *);
void budget_free(struct budget *);

/* Begins a step's budget and charges all its decodes. */
void budget_begin(struct budget *, const struct params *, const struct lls_cost *,
                  const struct lls_step_view *);
/* Returns the budget left for a chunk of r's prompt, of which `pending` tokens are to
 * be computed. */
uint32_t budget_left(struct budget *, const struct lls_request *r, uint32_t pending);
/* Charges `tokens` of r's pending ones. */
void budget_take(struct budget *, const struct lls_request *r, uint32_t pending,
                 uint32_t tokens);

#endif
