/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses of a layer that was trained to guess (core/model/heads.h). Its row for a token
 * of the text is made of the token and of the model's hidden row of the token before, so
 * that it reads each row that the model computes, once. Rows of guesses are made of its
 * own hidden rows; they are computed again when the guesses are text.
 *
 * A request whose first rows were not seen, such as those of a cached prefix, or of which
 * a row was missed, begins where rows are seen again: the layer then attends to a part of
 * the text, and is wrong more often.
 */
#include <string.h>

#include "core/base/least.h"
#include "core/draft/draft_internal.h"

bool lls_draft_model_is_heads(const struct lls_draft_model *m)
{
  return m->is_heads;
}

/* Forgets a sequence's rows: the next one is that of the token at `first`. */
static void restart(struct lls_draft_model *m, struct lls_draft_read *r, uint32_t first)
{
  lls_draft_cache_drop(&m->cache, r->ask->slot);
  r->sequence = lls_draft_cache_find(&m->cache, r->ask->slot, r->ask->request);
  r->sequence->first = first;
}

/* Finds a request's sequence, and which of the rows are new to it. */
static void align(struct lls_draft_model *m, struct lls_draft_read *r)
{
  struct lls_draft_ask *a = r->ask;
  struct lls_draft_sequence *s = lls_draft_cache_find(&m->cache, a->slot, a->request);
  uint32_t next = s->first + s->computed; /* place in the text */
  r->sequence = s;
  r->done = 0;
  if (s->computed == 0 || r->context + 1 > next)
    restart(m, r, r->context + 1);
  else
    r->done = lls_least_u32(next - r->context - 1, r->n_rows);
  r->sequence->used = m->run;
  r->sequence->n_guesses = 0;
  a->n = 0;
}

/* Computes the pass, and keeps the rows that drew a guess. */
static void flush(struct lls_draft_model *m)
{
  size_t bytes = lls_engine_hidden_bytes(m->options.engine);
  if (m->n > 0)
    lls_draft_pass_compute(m);
  for (uint32_t i = 0; i < m->n && !m->failed; i++) {
    const void *row = lls_engine_hidden_rows(m->options.engine, i);
    if (row != NULL)
      memcpy(m->turns[i].hidden, row, bytes);
  }
  lls_draft_pass_begin(m);
}

static void add(struct lls_draft_model *m, struct lls_draft_read *r, uint32_t i,
                uint32_t rows, const void *hidden)
{
  lls_draft_pass_add(m, r->ask, r->sequence, rows, hidden);
  m->turns[m->n - 1].hidden = m->hidden + i * lls_engine_hidden_bytes(m->options.engine);
}

/* Reads a request's rows, in as many passes as they need. */
static void read_rows(struct lls_draft_model *m, struct lls_draft_read *r, uint32_t i)
{
  size_t bytes = lls_engine_joined_bytes(m->options.engine);
  struct lls_draft_sequence *s = r->sequence;
  uint32_t wanted = s->computed + r->n_rows - r->done;
  if (wanted + r->ask->max > m->max_context)
    restart(m, r, r->context + 1); /* nor any longer text of the request */
  else if (!lls_draft_cache_reserve(&m->cache, s, wanted, m->run))
    restart(m, r, r->context + 1);
  else
    while (r->done < r->n_rows && !m->failed) {
      if (m->n == m->max_sequences || m->n_rows == m->max_rows)
        flush(m);
      uint32_t rows = lls_least_u32(r->n_rows - r->done, m->max_rows - m->n_rows);
      add(m, r, i, rows, (const char *)r->hidden + r->done * bytes);
      r->done += rows;
    }
}

/* Adds the request's next guess behind the one before, if it wants one. */
static void add_guess(struct lls_draft_model *m, struct lls_draft_read *r, uint32_t i)
{
  struct lls_draft_ask *a = r->ask;
  struct lls_draft_sequence *s = r->sequence;
  bool goes_on = a->n > 0 && a->n < a->max && s->computed > 0 &&
                 m->n_rows < m->max_rows &&
                 s->first + s->computed == a->n_tokens + a->n - 1;
  if (goes_on && lls_draft_cache_extend(&m->cache, s, s->computed + 1, m->run))
    add(m, r, i, 1, m->hidden + i * lls_engine_hidden_bytes(m->options.engine));
}

int64_t lls_draft_heads_run(struct lls_draft_model *m, struct lls_draft_read *reads,
                            uint32_t n, int64_t budget_ns)
{
  int64_t began_ns = lls_draft_now(m);
  if (m->failed || n == 0)
    return 0;
  m->run++;
  m->own = false;
  lls_draft_pass_begin(m);
  for (uint32_t i = 0; i < n; i++)
    align(m, &reads[i]);
  for (uint32_t i = 0; i < n; i++)
    read_rows(m, &reads[i], i);
  flush(m);
  for (uint32_t i = 0; i < n; i++)
    reads[i].computed = reads[i].sequence->computed;
  int64_t read_ns = lls_draft_now(m) - began_ns;
  int64_t end_ns = budget_ns > 0 ? began_ns + read_ns + budget_ns : LLS_NEVER;
  bool any = true;
  m->own = true;
  while (any && !m->failed) {
    for (uint32_t i = 0; i < n; i++)
      add_guess(m, &reads[i], i);
    any = m->n > 0 && lls_draft_pass_room(m, end_ns) >= m->n_rows;
    if (any)
      flush(m);
  }
  for (uint32_t i = 0; i < n; i++) /* rows of guesses are written again */
    reads[i].sequence->computed =
        lls_least_u32(reads[i].computed, reads[i].sequence->computed);
  return read_ns;
}
