/* SPDX-License-Identifier: Apache-2.0 */
/* The draft model's insides, shared by the files of this folder: draft_model.c makes the
 * passes of a small model, head_rows.c those of a layer that guesses. */
#ifndef LLS_DRAFT_DRAFT_INTERNAL_H
#define LLS_DRAFT_DRAFT_INTERNAL_H

#include "core/draft/draft_cache.h"
#include "core/draft/draft_model.h"
#include "core/draft/pass_time.h"
#include "core/engine/engine.h"

/* One request's part of a pass. */
struct lls_draft_turn {
  struct lls_draft_ask *ask;
  struct lls_draft_sequence *sequence;
  struct lls_group_list list;
  struct lls_block_table table;
  struct lls_sampling sampling;
  char *hidden; /* of heads: where the row that draws a guess is kept */
};

struct lls_draft_model {
  struct lls_draft_model_options options;
  uint32_t max_rows, max_sequences, max_context, vocabulary;
  struct lls_draft_cache cache;
  struct lls_pass_time time;
  struct lls_draft_turn *turns;      /* (max_sequences) of which n are in the pass */
  struct lls_engine_sequence *batch; /* (max_sequences) */
  uint32_t n, n_rows, n_draws;
  uint64_t run; /* number of this run */
  bool is_heads;
  bool own;     /* of heads: the pass continues rows that the layer has made itself */
  char *hidden; /* (max_sequences, hidden) of heads: rows that the next guesses are of */
  bool failed, told;
  struct lls_error failure;
};

/* Begins a pass without rows; adds the next `rows` tokens of a request to it, of which
 * the last one draws a guess if it is the text's last, too. hidden: (rows, hidden) for
 * heads, else NULL. */
void lls_draft_pass_begin(struct lls_draft_model *);
void lls_draft_pass_add(struct lls_draft_model *, struct lls_draft_ask *,
                        struct lls_draft_sequence *, uint32_t rows, const void *hidden);
/* Computes the pass, notes its rows and takes the guesses. */
void lls_draft_pass_compute(struct lls_draft_model *);
/* Returns how many rows a pass may have until end_ns; LLS_NEVER: as many as it can. */
uint32_t lls_draft_pass_room(const struct lls_draft_model *, int64_t end_ns);

static inline int64_t lls_draft_now(const struct lls_draft_model *m)
{
  return m->options.clock(m->options.clock_context);
}

#endif
