/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a step that have adapters (core/lora), grouped by adapter once for all layers.
 * After each product of the base model's weights one operation adds the changes of all
 * adapters; rows without one are in no group. A tensor parallel rank takes its share of
 * each matrix as of the weights: of B where outputs are cut, of A where inputs are.
 */
#include "core/engine/adapted_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/forward.h"
#include "core/lora/lora.h"

/* ---- the step --------------------------------------------------------------------- */

/* Returns the group of a sequence's rows; *n grows with a new adapter or scale. */
static uint32_t group_of(struct lls_engine_adapters *a, const struct lls_lora *lora,
                         float scale)
{
  for (uint32_t i = 0; i < a->n; i++)
    if (a->list[i] == lora && a->scales[i] == scale)
      return i;
  a->list[a->n] = lora;
  a->scales[a->n] = scale;
  return a->n++;
}

/* Sorts rows by group: counts them, finds where each group begins, and fills it. `row`
 * returns the step's row at a place. */
static void sort_rows(const struct lls_engine *e, const uint32_t *at, uint32_t n,
                      struct lls_adapted_rows *groups, uint32_t *rows)
{
  const struct lls_engine_adapters *a = &e->adapters;
  uint32_t used = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    groups[i].n_rows = 0;
    groups[i].scale = a->scales[i];
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t group = a->of_sequence[e->row_sequence[at != NULL ? at[i] : i]];
    if (group != LLS_NO_ADAPTER)
      groups[group].n_rows++;
  }
  for (uint32_t i = 0; i < a->n; i++) {
    groups[i].rows = rows + used;
    used += groups[i].n_rows;
    groups[i].n_rows = 0;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t group = a->of_sequence[e->row_sequence[at != NULL ? at[i] : i]];
    if (group != LLS_NO_ADAPTER)
      rows[groups[group].rows - rows + groups[group].n_rows++] = i;
  }
}

void lls_engine_lay_out_adapters(struct lls_engine *e,
                                 const struct lls_engine_batch *batch)
{
  struct lls_engine_adapters *a = &e->adapters;
  a->n = 0;
  for (uint32_t i = 0; a->list != NULL && i < batch->n_sequences; i++) {
    const struct lls_engine_sequence *s = &batch->sequences[i];
    a->of_sequence[i] =
        s->adapter != NULL ? group_of(a, s->adapter, s->adapter_scale) : LLS_NO_ADAPTER;
  }
  if (a->n == 0)
    return;
  lls_residents_lay_out(e);
  sort_rows(e, NULL, e->step.n_rows, a->groups, a->rows);
  sort_rows(e, e->logit_rows, e->n_logit_rows, a->picked, a->picked_rows);
}

int lls_engine_check_adapter(const struct lls_engine *e,
                             const struct lls_engine_sequence *s, struct lls_error *err)
{
  if (s->adapter == NULL)
    return 0;
  if (e->adapters.list == NULL)
    return lls_fail(err, -ENOTSUP, "an adapter, which this engine was made without");
  if (s->adapter->layers != e->model.layers)
    return lls_fail(err, -EINVAL, "an adapter of a model with %u layers",
                    s->adapter->layers);
  return 0;
}

/* ---- the products ----------------------------------------------------------------- */

uint32_t lls_engine_adapted_places(const struct lls_engine *e,
                                   enum lls_adapted_product product,
                                   struct lls_adapted_place out[LLS_MAX_LOW_RANK])
{
  const struct lls_model_config *c = &e->config;
  const struct lls_shard *shard = &e->shard;
  struct lls_range hidden = lls_range_all(c->hidden);
  struct lls_range q = lls_range_times(shard->heads, c->head_dim);
  struct lls_range kv = lls_range_times(shard->kv_heads, c->head_dim);
  uint32_t n_q = (uint32_t)q.n, n_kv = (uint32_t)kv.n;
  struct lls_range expert =
      lls_range_all(c->mixture.latent > 0 ? c->mixture.latent : c->hidden);
  uint32_t which = product < LLS_ADAPTED_SHARED_UP   ? 0
                   : product < LLS_ADAPTED_EXPERT_UP ? 1
                                                     : 2;
  /* of an MLP, of the shared expert, of the experts */
  const struct {
    uint32_t gate, up, down;
    struct lls_range outer, inner;
  } mlps[] =
      {
          {LLS_LORA_GATE, LLS_LORA_UP, LLS_LORA_DOWN, hidden, shard->ffn},
          {LLS_LORA_SHARED_GATE, LLS_LORA_SHARED_UP, LLS_LORA_SHARED_DOWN, hidden,
           shard->shared_ffn},
          {LLS_LORA_EXPERT_GATE, LLS_LORA_EXPERT_UP, LLS_LORA_EXPERT_DOWN, expert,
           shard->expert_ffn},
      },
    *m = &mlps[which];
  switch (product) {
  case LLS_ADAPTED_QKV:
    out[0] = (struct lls_adapted_place){LLS_LORA_Q, hidden, q, 0};
    out[1] = (struct lls_adapted_place){LLS_LORA_K, hidden, kv, n_q};
    out[2] = (struct lls_adapted_place){LLS_LORA_V, hidden, kv, n_q + n_kv};
    return 3;
  case LLS_ADAPTED_OUTPUT:
    out[0] = (struct lls_adapted_place){LLS_LORA_OUTPUT, q, hidden, 0};
    return 1;
  case LLS_ADAPTED_UP:
  case LLS_ADAPTED_SHARED_UP:
  case LLS_ADAPTED_EXPERT_UP:
    out[0] = (struct lls_adapted_place){m->up, m->outer, m->inner,
                                        c->gated ? (uint32_t)m->inner.n : 0};
    out[1] = (struct lls_adapted_place){m->gate, m->outer, m->inner, 0};
    return c->gated ? 2 : 1;
  default:
    out[0] = (struct lls_adapted_place){m->down, m->inner, m->outer, 0};
    return 1;
  }
}

/* Returns where the matrices a and b of a target begin, in the type that the device
 * reads. */
static const char *matrices_of(const struct lls_engine *e, uint32_t i, uint32_t layer,
                               uint32_t target)
{
  const struct lls_engine_adapters *a = &e->adapters;
  const struct lls_resident_adapter *resident = a->resident[i];
  if (resident != NULL)
    return resident->matrices + resident->places[layer * LLS_LORA_TARGETS + target];
  return (const char *)lls_lora_part(a->list[i], layer, (enum lls_lora_target)target)->a;
}

uint32_t lls_engine_adapted_parts(const struct lls_engine *e, uint32_t i, uint32_t layer,
                                  const struct lls_adapted_place *places, uint32_t n,
                                  uint32_t copy, struct lls_low_rank *out)
{
  const struct lls_lora *lora = e->adapters.list[i];
  size_t number = e->adapters.resident[i] != NULL
                      ? lls_dtype_bytes(e->device->activation_type)
                      : sizeof(float);
  uint32_t used = 0;
  for (uint32_t k = 0; k < n; k++) {
    const struct lls_adapted_place *p = &places[k];
    enum lls_lora_target target = (enum lls_lora_target)p->target;
    uint32_t rank = lls_lora_part(lora, layer, target)->rank;
    size_t before = (size_t)copy * rank;
    size_t to_b = (size_t)lls_lora_copies(&e->model, target) * rank * p->inputs.whole;
    if (rank == 0)
      continue;
    const char *a = matrices_of(e, i, layer, target), *b = a + to_b * number;
    out[used++] = (struct lls_low_rank){
        .a = a + (before * p->inputs.whole + p->inputs.first) * number,
        .b = b + (before * p->outputs.whole + p->outputs.first) * number,
        .rank = rank,
        .a_stride = (uint32_t)p->inputs.whole,
        .b_stride = (uint32_t)p->outputs.whole,
        .first_output = p->first_output,
        .outputs = (uint32_t)p->outputs.n};
  }
  return used;
}

struct lls_adapted_rows *lls_engine_adapted_groups(const struct lls_forward *s,
                                                   uint32_t layer,
                                                   const struct lls_adapted_place *places,
                                                   uint32_t n)
{
  const struct lls_engine_adapters *a = &s->e->adapters;
  struct lls_adapted_rows *groups = s->picked ? a->picked : a->groups;
  uint32_t parts = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    groups[i].n_parts =
        lls_engine_adapted_parts(s->e, i, layer, places, n, 0, groups[i].parts);
    parts += groups[i].n_parts;
  }
  return parts > 0 ? groups : NULL;
}

void lls_engine_adapt(const struct lls_forward *s, uint32_t layer,
                      enum lls_adapted_product product, const void *x, void *y)
{
  const struct lls_engine *e = s->e;
  const struct lls_engine_adapters *a = &e->adapters;
  struct lls_adapted_place places[LLS_MAX_LOW_RANK];
  if (a->n == 0)
    return;
  uint32_t n_places = lls_engine_adapted_places(e, product, places), outputs = 0;
  struct lls_adapted_rows *groups = lls_engine_adapted_groups(s, layer, places, n_places);
  for (uint32_t i = 0; i < n_places; i++)
    outputs += (uint32_t)places[i].outputs.n;
  if (groups != NULL)
    s->ops->adapt(s->device, groups, a->n, x, (uint32_t)places[0].inputs.n, a->scratch, y,
                  outputs);
}

/* ---- life ------------------------------------------------------------------------- */

int lls_engine_make_adapters(struct lls_engine *e, size_t slots)
{
  struct lls_engine_adapters *a = &e->adapters;
  size_t sequences = e->options.max_sequences, rows = e->options.max_tokens;
  size_t ranks = rows * LLS_MAX_LOW_RANK * LLS_LORA_MAX_RANK;
  if (!e->options.adapters)
    return 0;
  a->list = calloc(sequences, sizeof *a->list);
  a->scales = calloc(sequences, sizeof *a->scales);
  a->resident = calloc(sequences, sizeof *a->resident);
  a->of_sequence = calloc(sequences, sizeof *a->of_sequence);
  a->groups = calloc(sequences, sizeof *a->groups);
  a->picked = calloc(sequences, sizeof *a->picked);
  a->rows = calloc(rows, sizeof *a->rows);
  a->picked_rows = calloc(e->max_logit_rows, sizeof *a->picked_rows);
  if (slots > 0) {
    a->expert_groups = calloc(LLS_EXPERT_GROUPS, sizeof *a->expert_groups);
    a->expert_rows = calloc(slots, sizeof *a->expert_rows);
    if (a->expert_groups == NULL || a->expert_rows == NULL)
      return -ENOMEM;
  }
  if (a->list == NULL || a->scales == NULL || a->resident == NULL ||
      a->of_sequence == NULL || a->groups == NULL || a->picked == NULL ||
      a->rows == NULL || a->picked_rows == NULL)
    return -ENOMEM;
  int rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, ranks * sizeof *a->scratch,
                                 (void **)&a->scratch);
  return rc < 0 ? rc : lls_residents_init(e);
}

void lls_engine_free_adapters(struct lls_engine *e)
{
  struct lls_engine_adapters *a = &e->adapters;
  if (a->scratch != NULL)
    e->device->ops->release(e->device, LLS_MEMORY_DEVICE, a->scratch);
  lls_residents_free(e);
  free(a->list);
  free(a->scales);
  free(a->resident);
  free(a->of_sequence);
  free(a->groups);
  free(a->picked);
  free(a->rows);
  free(a->picked_rows);
  free(a->expert_groups);
  free(a->expert_rows);
}
