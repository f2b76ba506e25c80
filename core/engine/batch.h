/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between step loop and engine: the sequences of one step with the tokens
 * to compute, and the tokens drawn.
 *
 * Whole prefills, prefill chunks and decodes are the same thing here: `n_tokens` new
 * tokens of a sequence that has `context` tokens cached. A chunk that ends before the
 * last known token has sampling = NULL and costs no final norm and no head.
 *
 * The caller owns all memory that a batch points to, directly or through its tables and
 * sampling parameters, and keeps it valid until lls_engine_wait has returned. The
 * pointers of a result belong to the engine and are valid until the next
 * lls_engine_submit.
 */
#ifndef LLS_ENGINE_BATCH_H
#define LLS_ENGINE_BATCH_H

#include <llmserve/host.h> /* struct lls_engine_caps, which policies see */

#include "core/device/sampling.h"

struct lls_lora; /* core/lora/lora.h */

/* One sequence's part of a step. */
struct lls_engine_sequence {
  const int32_t *tokens; /* (n_tokens) ids, at positions context, context + 1, ... */
  uint32_t n_tokens;     /* 1 or more */
  uint32_t context;      /* tokens cached before this step */
  /* for an encoder of text pairs: index of the first token of the second text; 0: there
   * is one text, or the model has no token types */
  uint32_t second_text;
  /* covers at least context + n_tokens tokens. The engine ignores it for encoders,
   * which cache nothing: each of their sequences is a whole text, and context is 0 */
  const struct lls_block_table *table;
  /* the adapter of its rows, or NULL; the caller has a reference until the step ends */
  const struct lls_lora *adapter;
  float adapter_scale; /* factor of what the adapter adds */
  /* for a layer that guesses (engine options ends_of): (n_tokens, hidden) of the tokens
   * before, as lls_engine_hidden_rows returns them; NULL: zeros */
  const void *hidden;
  /* how to draw the token after the last one; NULL = draw none */
  const struct lls_sampling *sampling; /* (1 + drafts) */
  /* The last of the tokens that are guesses. One more token is drawn for each: after the
   * token before the first guess, then after each guess, as if the guesses were the
   * text. */
  uint32_t drafts;
  bool all_logits; /* keep the logits of all n_tokens rows, see lls_engine_logits */
  /* Scores: the log probabilities of the n_scores tokens from tokens[first_score + 1]
   * on, each given the tokens before it. The last of them may be tokens[n_tokens], the
   * token after those computed. lls_engine_wait fills `scores`. */
  uint32_t first_score, n_scores;
  uint32_t score_logprobs;    /* alternatives reported with each score */
  struct lls_sampled *scores; /* (n_scores) */
  /* Pooling: lls_engine_wait adds the model's output vectors (the input of its head) of
   * the n_pooled rows from first_pooled on to `pooled`. */
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
  /* The engine carries copies out first and in order. All of them, ASYNC ones too, have
   * ended when lls_engine_wait returns. */
  uint32_t n_copies;
  const struct lls_copy *copies;
  /* Pulls run after the copies and concurrently with the sequences. */
  uint32_t n_pulls;
  /* NULL, or a callback that lls_engine_submit calls once, after it has started the
   * forward pass and before it draws tokens. The callback may fill the masks of the
   * sequences' sampling while an asynchronous device is busy. */
  void (*before_draws)(void *context);
  void *before_draws_context;
  const struct lls_engine_pull *pulls;
  /* keep the last layer's rows of all tokens for lls_engine_hidden_rows; they cost the
   * last layer's time for rows that draw nothing. Only where lls_engine_why_no_heads
   * returns NULL. */
  bool keeps_hidden;
  /* `hidden` of the sequences are rows that the layer has made itself; else rows of the
   * model (lls_engine_joined_bytes) */
  bool own_hidden;
  /* NULL, or where a failing lls_engine_submit writes which part of the batch is bad:
   * the index of a sequence (-ENOMEM: its adapter found no memory), LLS_BATCH_COPIES, or
   * LLS_BATCH_SOUND if it failed for another reason. The engine starts nothing of a bad
   * batch. */
  uint32_t *culprit;
};

#define LLS_BATCH_SOUND  UINT32_MAX
#define LLS_BATCH_COPIES (UINT32_MAX - 1)

struct lls_engine_result {
  uint32_t n_sequences; /* the batch's sequences, in the same order */
  /* (n_sequences) of each (1 + drafts) in order; NULL where no token was drawn */
  const struct lls_sampled *const *sampled;
  uint32_t n_rows;     /* tokens computed */
  int64_t duration_ns; /* copies and forward pass, until the device was done */
};

#endif
