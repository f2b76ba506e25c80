/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draft model: a small model on an engine of its own, whose guesses a drafter may
 * take (drafter.h, `candidates`). It runs on the step thread between two steps: a pass
 * computes one row of every request that wants another guess, the first pass also what
 * the model emitted since; prompts are computed in parts, as far as the time allows.
 *
 * Each guess is drawn as the request's token would be, with its temperature, filters,
 * penalties, seed and index, so that guesses are often right at a temperature, too: both
 * models use the same random number.
 *
 * Nothing here can change a text: guesses are verified as any drafter's. If a pass fails,
 * there are no guesses from then on.
 */
#ifndef LLS_DRAFT_DRAFT_MODEL_H
#define LLS_DRAFT_DRAFT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/config/limits.h"
#include "core/device/sampling.h"

struct lls_draft_model;
struct lls_engine;

struct lls_draft_model_options {
  struct lls_engine *engine;       /* outlives the draft model; used by [step] alone */
  uint32_t slots;                  /* number of requests that may live at once */
  int64_t (*clock)(void *context); /* nanoseconds */
  void *clock_context;
};

/* A request, and the guesses that a run makes for it. */
struct lls_draft_ask {
  uint64_t request;
  uint32_t slot;
  /* (n_tokens) its text, followed by room for `max` tokens: the guesses */
  int32_t *tokens;
  uint32_t n_tokens;
  uint32_t vocabulary;          /* of the model: larger ids are no guesses */
  uint32_t max;                 /* guesses wanted, 1..LLS_MAX_DRAFTS */
  struct lls_sampling sampling; /* of the next token; its history is a part of `tokens` */
  /* the run's */
  uint32_t n;                 /* guesses made */
  float odds[LLS_MAX_DRAFTS]; /* probability that the draft model gives each */
};

/* Rows that the model's step has computed, which heads read. */
struct lls_draft_read {
  struct lls_draft_ask *ask; /* the request, and its guesses; with max = 0: none */
  const void *hidden;        /* (n_rows, hidden) of tokens context, context + 1, ... */
  uint32_t context, n_rows;
  /* the run's */
  struct lls_draft_sequence *sequence;
  uint32_t done, computed;
};

/* Returns why an engine's model cannot draft, or NULL if it can. */
const char *lls_draft_model_why_not(const struct lls_engine *);
/* Returns 0 or -ENOMEM. */
int lls_draft_model_create(const struct lls_draft_model_options *,
                           struct lls_draft_model **out);
void lls_draft_model_destroy(struct lls_draft_model *);

/* ---- between two steps */
/* Guesses for n requests within budget_ns, 0: there is no limit. Begins no pass that
 * would take longer by those before it. Returns the time that it took. */
int64_t lls_draft_model_run(struct lls_draft_model *, struct lls_draft_ask *, uint32_t n,
                            int64_t budget_ns);
/* Returns true if the draft model is heads, a layer that guesses (core/model/heads.h). */
bool lls_draft_model_is_heads(const struct lls_draft_model *);
/* Has heads read n requests' rows, after each step of the model. Reading takes the time
 * that it needs, since the next step overwrites the rows; then guesses are made within
 * budget_ns, 0: there is no limit. Returns the time that reading took. */
int64_t lls_draft_heads_run(struct lls_draft_model *, struct lls_draft_read *, uint32_t n,
                            int64_t budget_ns);
/* Returns the estimated time of a pass of that many rows; 0: none was made yet. */
int64_t lls_draft_model_pass_ns(const struct lls_draft_model *, uint32_t rows);
/* Returns how many tokens of a request's text are still to be computed before its first
 * guess, at least 1. */
uint32_t lls_draft_model_behind(struct lls_draft_model *, uint32_t slot, uint64_t request,
                                const int32_t *tokens, uint32_t n_tokens);
/* The request has ended, or is another instance's: its cache is free. */
void lls_draft_model_forget(struct lls_draft_model *, uint32_t slot);
/* Returns why it makes no guesses any more, once; NULL: it works, or that was said. */
const char *lls_draft_model_failure(struct lls_draft_model *);

#endif
