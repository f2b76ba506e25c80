/* SPDX-License-Identifier: Apache-2.0 */
/* An event reports a request's token, its end, or how far its prompt was computed, to the
 * request's owner. */
#ifndef LLS_INSTANCE_EVENT_H
#define LLS_INSTANCE_EVENT_H

#include <llmserve/types.h>

#include "core/device/sampling.h"

struct lls_life;
struct lls_live;

enum lls_event_kind { LLS_EVENT_TOKEN, LLS_EVENT_FINISHED, LLS_EVENT_PROGRESS };

struct lls_event {
  uint32_t kind;   /* enum lls_event_kind */
  uint32_t reason; /* FINISHED: enum lls_finish_reason */
  uint64_t request;
  void *owner;
  struct lls_sampled token; /* TOKEN */
  bool hidden_token;        /* TOKEN: a stop token, counted but not shown */
  /* TOKEN: (n_forced) tokens that the grammar forces after this one; valid as long as
   * the request's events are */
  const int32_t *forced;
  uint32_t n_forced;
  /* TOKEN, with score_prompt: (prompt tokens), the first one empty; valid as long as
   * the request's events are */
  const struct lls_sampled *prompt_scores;
  uint32_t n_prompt_scores; /* set with the first token, else 0 */
  /* prompt tokens found in the cache when the request first ran, so not computed */
  uint32_t shared_tokens;
  /* PROGRESS: prompt tokens in the cache after a step that ended before the prompt */
  uint32_t computed_tokens;
  /* FINISHED */
  bool keeps_prefix;     /* later requests can find the prompt's blocks in the cache */
  bool lost;             /* ERROR: the request's process is lost (lls_loop_lost) */
  const char *why_lost;  /* lost, and no process died of it; else NULL. Static */
  bool no_number;        /* ERROR: the model's logits were not numbers */
  int32_t grammar_error; /* ERROR: -errno of the answer's grammar, or 0 */
  uint32_t prompt_tokens, generated_tokens, preemptions;
  /* guesses of its tokens that steps verified, and those that became text */
  uint64_t drafted_tokens, accepted_tokens;
  int64_t arrival_ns, first_scheduled_ns, first_token_ns, finished_ns;
  struct lls_prediction prediction;
  const float *pooled; /* (lls_engine_vector_columns) with pooling, if the request ended
                          with LENGTH; valid in the callback */
  /* phases of the request (life.h), or NULL; valid in the callback */
  const struct lls_life *life;
  struct lls_live *live; /* the loop's: freed when the callback returns */
};

#endif
