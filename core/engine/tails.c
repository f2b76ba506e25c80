/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses of sequences that have a state (LLS_GROUP_STATE). A state forgets no token, so
 * the forward pass folds guesses into memory that no operation reads, and leaves in the
 * sequence's block the state before the first guess. It keeps the *tail*: of each layer
 * with a state, the products of the guesses' rows, as they were before the layer's
 * convolution. When the accepted guesses are known, lls_engine_settle folds their rows
 * into the state by the same operations.
 *
 * Between two steps a block thus has the state after the cached tokens, as without
 * guesses: cache managers, copies, pulls and other processes know nothing of tails. The
 * price is one more read and write of the state in a step that accepts guesses. A tail
 * has 48 KiB a guess and layer in Qwen3.6-35B, whose state has 2 MiB in each of 30
 * layers: a state for each guess would be 491 MiB at 7 guesses, the tail is 10.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "core/engine/forward.h"

/* ---- memory ------------------------------------------------------------------------ */

static bool has_tail(const struct lls_engine *e, uint32_t layer)
{
  return lls_mix_state(&e->config, layer) > 0;
}

/* Rows that a layer's tail has room for. */
static size_t room_of(const struct lls_engine *e)
{
  return lls_engine_padded_rows(e->draft_rows);
}

static size_t layer_numbers(const struct lls_engine *e, uint32_t layer)
{
  const struct lls_model_config *c = &e->config;
  size_t columns = (size_t)lls_mix_columns(c, layer) + lls_mix_gates(c, layer);
  return has_tail(e, layer) ? room_of(e) * columns : 0;
}

static bool keeps_tails(const struct lls_engine *e)
{
  return e->draft_rows > 0 && !e->device->is_empty &&
         lls_engine_group_is_state(e, e->caps.n_groups - 1);
}

size_t lls_engine_tail_numbers(const struct lls_engine *e)
{
  size_t n = 0;
  for (uint32_t i = 0; i < e->config.layers && keeps_tails(e); i++)
    n += layer_numbers(e, i);
  return n;
}

/* Bytes of the largest layer's state, for each sequence that may have guesses: a device
 * with memory of its own keeps states in registers. */
static size_t spare_bytes(const struct lls_engine *e)
{
  size_t most = 0;
  for (uint32_t i = 0; i < e->config.layers && keeps_tails(e); i++)
    most = most > lls_mix_state(&e->config, i) ? most : lls_mix_state(&e->config, i);
  return e->device->is_host ? most * sizeof(float) : 0;
}

static uint32_t most_folds(const struct lls_engine *e)
{
  return lls_least_u32(e->draft_rows, e->options.max_sequences);
}

size_t lls_engine_spares_bytes(const struct lls_engine *e)
{
  return most_folds(e) * spare_bytes(e);
}

int lls_engine_make_tails(struct lls_engine *e)
{
  const struct lls_device_ops *ops = e->device->ops;
  struct lls_engine_tails *t = &e->tails;
  size_t bytes = lls_engine_tail_numbers(e) * lls_dtype_bytes(e->device->activation_type);
  size_t spares = lls_engine_spares_bytes(e), rows = e->draft_rows;
  if (bytes == 0)
    return 0;
  for (uint32_t i = 1; i < e->config.layers; i++)
    e->places[i].tail = e->places[i - 1].tail + layer_numbers(e, i - 1);
  t->rows = calloc(rows, sizeof *t->rows);
  t->copies = calloc(rows, sizeof *t->copies);
  t->spans = calloc(2 * rows, sizeof *t->spans);
  t->folds = calloc(most_folds(e), sizeof *t->folds);
  if (t->rows == NULL || t->copies == NULL || t->spans == NULL || t->folds == NULL)
    return -ENOMEM;
  int rc = ops->alloc(e->device, LLS_MEMORY_DEVICE, bytes, &t->memory);
  if (rc == 0 && spares > 0)
    rc = ops->alloc(e->device, LLS_MEMORY_DEVICE, spares, &t->spare);
  return rc;
}

void lls_engine_free_tails(struct lls_engine *e)
{
  struct lls_engine_tails *t = &e->tails;
  void *const buffers[] = {t->memory, t->spare};
  for (int i = 0; i < 2; i++)
    if (buffers[i] != NULL)
      e->device->ops->release(e->device, LLS_MEMORY_DEVICE, buffers[i]);
  free(t->rows);
  free(t->copies);
  free(t->spans);
  free(t->folds);
}

/* ---- the forward pass -------------------------------------------------------------- */

void lls_engine_begin_tails(struct lls_engine *e)
{
  e->tails.n_rows = e->tails.n_folds = e->tails.n_copies = 0;
  e->step.spare = e->tails.spare;
  e->step.spare_bytes = spare_bytes(e);
}

void lls_engine_add_tail(struct lls_engine *e, const struct lls_engine_sequence *s,
                         const struct lls_group_list *l, uint32_t index,
                         uint32_t first_row)
{
  struct lls_engine_tails *t = &e->tails;
  uint32_t known = s->context + s->n_tokens - s->drafts;
  if (t->memory == NULL)
    return;
  LLS_CHECK(t->n_rows + s->drafts <= e->draft_rows && t->n_folds < most_folds(e));
  struct lls_engine_fold *f = &t->folds[t->n_folds++];
  *f = (struct lls_engine_fold){.sequence = index,
                                .first = t->n_rows,
                                .n = s->drafts,
                                .known = known,
                                .block = l->entries[l->n_entries - 1].block,
                                .first_copy = t->n_copies};
  for (uint32_t i = 0; i < s->drafts; i++)
    t->rows[t->n_rows++] = first_row + i;
  for (uint32_t i = 1; i + 1 < l->n_entries; i++)
    if (l->entries[i].first_token > known && l->entries[i].first_token <= known + f->n)
      t->copies[t->n_copies++] = l->entries[i];
  f->n_copies = t->n_copies - f->first_copy;
}

void *lls_engine_tail_of(const struct lls_engine *e, uint32_t layer)
{
  return (char *)e->tails.memory +
         e->places[layer].tail * lls_dtype_bytes(e->device->activation_type);
}

void *lls_engine_tail_gates(const struct lls_engine *e, uint32_t layer, uint32_t columns)
{
  return (char *)lls_engine_tail_of(e, layer) +
         room_of(e) * columns * lls_dtype_bytes(e->device->activation_type);
}

void lls_engine_keep_tail(const struct lls_forward *s, uint32_t layer, const void *rows,
                          uint32_t columns, const void *gates)
{
  struct lls_engine *e = s->e;
  const struct lls_engine_tails *t = &e->tails;
  if (t->n_rows == 0)
    return;
  s->ops->gather(s->device, rows, t->rows, t->n_rows, columns,
                 lls_engine_tail_of(e, layer));
  if (gates != NULL)
    s->ops->gather(s->device, gates, t->rows, t->n_rows, lls_mix_gates(&e->config, layer),
                   lls_engine_tail_gates(e, layer, columns));
}
