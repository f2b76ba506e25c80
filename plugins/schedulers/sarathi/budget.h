/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens a step of Sarathi-Serve may have: decodes and pieces of prompts
 * together. Decodes are counted, never cut.
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
  uint32_t most;                /* of this step; with slo, of a prompt without context */
  uint32_t used;                /* decodes, and what was planned of prompts */
  uint32_t *decodes;            /* (max_requests) their contexts */
  struct lls_pol_room room;     /* within_ns LLS_NEVER: most counts */
  struct lls_pol_margin margin; /* of steps that slo fills */
};

int budget_init(struct budget *, const struct lls_engine_caps *);
void budget_free(struct budget *);

/* A new step: its decodes are used up at once. */
void budget_begin(struct budget *, const struct params *, const struct lls_cost *,
                  const struct lls_step_view *);
/* Tokens that are left for a piece of r's prompt, of which so many are pending. */
uint32_t budget_left(struct budget *, const struct lls_request *r, uint32_t pending);
/* So many of them run. */
void budget_take(struct budget *, const struct lls_request *r, uint32_t pending,
                 uint32_t tokens);

#endif
