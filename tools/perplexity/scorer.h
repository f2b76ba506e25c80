/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One model on the CPU that computes the logits of windows of a text, a few rows at a
 * time: a row is as wide as the vocabulary, and two models are compared row by row.
 *
 * All on one thread. A scorer keeps one window's cache.
 */
#ifndef LLS_PERPLEXITY_SCORER_H
#define LLS_PERPLEXITY_SCORER_H

#include "core/engine/engine.h"

#define LLS_SCORER_ROWS 64 /* most logits rows in one step */

struct lls_scorer_options {
  const char *model; /* path of a folder or .gguf */
  enum lls_weight_format weights;
  uint32_t threads; /* 0: one for each core that this process may use */
  uint32_t context; /* tokens of a window */
  /* K and V of full blocks become int8, as [cache] int8 = all; logits come a block at a
   * time */
  bool int8;
  bool quiet; /* show no progress while the weights are read */
};

struct lls_scorer {
  struct lls_model_config config;
  struct lls_device *device;
  struct lls_engine *engine;
  struct lls_block_entry *entries; /* (list.n_entries) */
  struct lls_group_list list;
  struct lls_block_table table;
  uint32_t units[2];       /* units that a block takes in KV form, and in int8 */
  uint32_t rows;           /* most logits rows in one step */
  struct lls_copy *copies; /* (blocks) copies that quantise; NULL unless int8 */
  uint32_t n_int8;         /* blocks of the window that are int8 already */
};

/* -EINVAL if the model has fewer positions than a window; other errors as
 * lls_engine_create. On failure nothing is left to close. */
int lls_scorer_open(struct lls_scorer *, const struct lls_scorer_options *,
                    struct lls_error *err);
void lls_scorer_close(struct lls_scorer *);

/* Caches n tokens of the window, from position `first` on, without computing logits. */
int lls_scorer_skip(struct lls_scorer *, const int32_t *tokens, uint32_t first,
                    uint32_t n, struct lls_error *err);

/* Computes the logits of n tokens (at most `rows`) from position `first` on: (n,
 * vocab), valid until the next call. */
int lls_scorer_rows(struct lls_scorer *, const int32_t *tokens, uint32_t first,
                    uint32_t n, const float **logits, struct lls_error *err);

#endif
