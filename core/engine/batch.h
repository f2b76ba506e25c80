/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between step loop and engine: the sequences of one
 * step with the tokens to compute, and the tokens drawn.
 *
 * Whole prefills, prefill chunks and decodes are the same thing here: `n_tokens` new
 * tokens of a sequence that has `context` tokens cached. A chunk that does not reach the
 * end of what is known has sampling = NULL and costs no final norm and no head.
 *
 * All pointers of a batch, what its tables and sampling parameters point to included,
 * belong to the caller and stay valid until lls_engine_wait returned; a result's belong
 * to the engine and are valid until the next lls_engine_submit.
 */
#ifndef LLS_ENGINE_BATCH_H
#define LLS_ENGINE_BATCH_H

#include <llmserve/host.h> /* struct lls_engine_caps: its abilities, as policies see them */

#include "core/device/sampling.h"

/* One sequence's part of a step. */
struct lls_engine_sequence {
  const int32_t *tokens; /* (n_tokens) ids, at positions context, context + 1, ... */
  uint32_t n_tokens;     /* 1 or more */
  uint32_t context;      /* tokens cached before this step */
  /* of encoders: tokens from here on are of a pair's second text; 0: one text, or the
   * model has one type of token */
  uint32_t second_text;
  /* covers at least context + n_tokens tokens; not looked at by encoders, which cache
   * nothing: their texts are whole and without context */
  const struct lls_block_table *table;
  const struct lls_sampling *sampling; /* of the token after the last one; NULL = none */
  bool all_logits; /* keep the logits of all n_tokens rows, see lls_engine_logits */
  /* How likely tokens[first_score + 1 ...] were after those before them: n_scores of
   * them, the last maybe one past n_tokens; filled in by lls_engine_wait. */
  uint32_t first_score, n_scores;
  uint32_t score_logprobs;    /* alternatives of each */
  struct lls_sampled *scores; /* (n_scores) */
  /* The model's output vectors, what its head would read, of n_pooled rows from
   * first_pooled on are added to pooled by the time lls_engine_wait returns. */
  uint32_t first_pooled, n_pooled;
  float *pooled; /* (lls_engine_vector_columns) */
};

struct lls_engine;

/* Blocks of another engine's pool; see pool_pull in device.h. */
struct lls_engine_pull {
  const struct lls_engine *from;
  uint32_t n;
  const struct lls_pull *list; /* (n) */
};

struct lls_engine_batch {
  uint32_t n_sequences; /* 0 is allowed: copies only */
  const struct lls_engine_sequence *sequences;
  /* Carried out first and in order; all have ended, ASYNC ones too, when wait returns. */
  uint32_t n_copies;
  const struct lls_copy *copies;
  /* Behind these, beside the sequences. */
  uint32_t n_pulls;
  /* NULL, or called once in lls_engine_submit, after the forward pass was started and
   * before tokens are drawn: the masks of the sequences' sampling may be filled there,
   * while a device that computes beside the caller is busy */
  void (*before_draws)(void *context);
  void *before_draws_context;
  const struct lls_engine_pull *pulls;
  /* NULL, or where a failing lls_engine_submit says which part of the batch is bad: the
   * index of a sequence, LLS_BATCH_COPIES, or LLS_BATCH_SOUND if it failed for another
   * reason. Nothing has been started for a bad batch. */
  uint32_t *culprit;
};

#define LLS_BATCH_SOUND  UINT32_MAX
#define LLS_BATCH_COPIES (UINT32_MAX - 1)

struct lls_engine_result {
  uint32_t n_sequences;                     /* as in the batch, and in its order */
  const struct lls_sampled *const *sampled; /* (n_sequences) NULL where none was wanted */
  uint32_t n_rows;                          /* tokens computed */
  int64_t duration_ns; /* copies and forward pass, until the device was done */
};

#endif
