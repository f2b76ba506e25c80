/* SPDX-License-Identifier: Apache-2.0 */
/* Folds the accepted guesses of a step into the states of their sequences, by the rows
 * that tails.c has kept. */
#include "core/base/least.h"
#include "core/engine/forward.h"

void lls_engine_accept(struct lls_engine *e, uint32_t sequence, uint32_t n)
{
  struct lls_engine_tails *t = &e->tails;
  for (uint32_t i = 0; i < t->n_folds; i++)
    if (t->folds[i].sequence == sequence)
      t->folds[i].accepted = lls_least_u32(n, t->folds[i].n);
}

/* Adds the spans of a sequence's accepted rows, cut where its list wants a copy of the
 * state. */
static void add_spans(const struct lls_engine *e, const struct lls_engine_fold *f,
                      struct lls_device_step *step)
{
  const struct lls_engine_tails *t = &e->tails;
  struct lls_state_span span = {.source = f->block};
  uint32_t done = 0;
  for (uint32_t i = 0; i <= f->n_copies && f->accepted > 0; i++) {
    const struct lls_block_entry *copy = &t->copies[f->first_copy + i];
    bool last = i == f->n_copies || copy->first_token - f->known > f->accepted;
    uint32_t until = last ? f->accepted : copy->first_token - f->known;
    span.target = last ? f->block : copy->block;
    span.first_row = f->first + done;
    span.n_rows = until - done;
    t->spans[step->n_spans++] = span;
    if (last)
      break;
    span.turn++;
    span.source = span.target;
    done = until;
  }
}

static void fold(struct lls_engine *e)
{
  struct lls_forward s = {.e = e, .ops = e->device->ops, .device = e->device};
  for (uint32_t i = 0; i < e->config.layers; i++) {
    uint32_t columns = e->config.layer[i].mix == LLS_MIX_SHORT_CONV
                           ? lls_mix_columns(&e->config, i)
                           : lls_space_columns(&e->config.recurrent);
    if (lls_mix_state(&e->config, i) > 0)
      lls_engine_fold_rows(&s, i, lls_engine_tail_of(e, i),
                           lls_engine_tail_gates(e, i, columns));
  }
}

/* Accepted guesses wait for being folded. */
static bool owes_folds(const struct lls_engine *e)
{
  bool any = false;
  for (uint32_t i = 0; i < e->tails.n_folds; i++)
    any |= e->tails.folds[i].accepted > 0;
  return any;
}

/* Folds the accepted guesses of all sequences, on this rank. */
static int settle(struct lls_engine *e, struct lls_error *err)
{
  const struct lls_device_ops *ops = e->device->ops;
  struct lls_engine_tails *t = &e->tails;
  struct lls_device_step step = {.n_rows = t->n_rows, .spans = t->spans};
  for (uint32_t i = 0; i < t->n_folds; i++)
    add_spans(e, &t->folds[i], &step);
  t->n_folds = t->n_rows = 0;
  int rc = ops->step_begin(e->device, e->pool, &step);
  if (rc < 0)
    return lls_fail(err, rc, "the device refuses to fold accepted guesses into states");
  fold(e);
  return ops->step_end(e->device, err);
}

int64_t lls_engine_settle(struct lls_engine *e, struct lls_error *err)
{
  struct lls_error why = {0};
  if (!owes_folds(e))
    return 0;
  int64_t began_ns = lls_engine_now(e);
  bool sends = lls_engine_is_shared(e) && e->shard.rank == 0;
  int rc = sends ? lls_engine_send_accepted(e, &why) : 0;
  if (rc == 0)
    rc = settle(e, &why);
  rc = lls_engine_tell_ranks(e, rc, &why, err);
  return rc < 0 ? rc : lls_engine_now(e) - began_ns;
}
