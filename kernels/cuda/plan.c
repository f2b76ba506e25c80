/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares out a step's attention among blocks of threads: which rows, against which
 * tokens. Every KV head does the same, so an item is worth kv_heads blocks.
 *
 * Contexts are cut only as far as it takes to give each multiprocessor four blocks, in
 * pieces of 256 tokens or more: a piece costs writing and reading a state, which for 256
 * tokens is 3% of reading K and V. The sums therefore come in an order that depends on
 * what else is in the step, as those of cuBLAS do.
 */
#include "kernels/cuda/ops.h"

#include <string.h>

#define LEAST_TILES_SMALL 4 /* of 64 tokens, in a piece */
#define LEAST_TILES_LARGE 8
#define UNIT              LLS_CUDA_SMALL /* queries of a state */

struct planning {
  struct lls_cuda_device *device;
  const struct lls_cuda_attention *shape;
  struct lls_cuda_plan *out;
  struct lls_cuda_shared_out *plan;
  struct lls_cuda_item *small, *large;
  struct lls_cuda_merge *merges;
  uint32_t group;
  uint32_t large_rows;  /* of a large item */
  uint32_t grain;       /* tiles of a small piece */
  uint32_t large_parts; /* pieces of a large item, if it has tiles enough */
  uint32_t max_units;
};

/* ---- pieces ------------------------------------------------------------------------ */

/* The tiles that some rows of a sequence see. */
struct span {
  uint32_t first_tile, n_tiles, end;
};

static struct span span_of(const struct planning *p, const struct lls_step_sequence *s,
                           uint32_t first, uint32_t n)
{
  uint32_t position = s->context + first, window = p->shape->window, end = position + n;
  uint32_t oldest = window != 0 && position >= window ? position + 1 - window : 0;
  uint32_t tile = oldest / LLS_CUDA_TILE;
  return (struct span){
      .first_tile = tile,
      .n_tiles = (end + LLS_CUDA_TILE - 1) / LLS_CUDA_TILE - tile,
      .end = end,
  };
}

static void add_merges(struct planning *p, const struct lls_cuda_item *item,
                       uint32_t n_parts, uint32_t units)
{
  const struct lls_step_sequence *s = &p->device->step->sequences[item->sequence];
  uint32_t queries = item->n_rows * p->group;
  for (uint32_t unit = 0; unit < units; unit++) {
    uint32_t left = queries - unit * UNIT;
    p->merges[p->out->n_merges++] = (struct lls_cuda_merge){
        .first_row = s->first_row + item->first,
        .first_query = unit * UNIT,
        .n_queries = left < UNIT ? left : UNIT,
        .part = item->part + unit,
        .n_parts = n_parts,
        .stride = units,
    };
  }
}

/* Rows of a sequence as one item, or as several of about as many tiles each. */
static void add_rows(struct planning *p, uint32_t sequence, uint32_t first, uint32_t n,
                     bool large)
{
  struct lls_cuda_shared_out *plan = p->plan;
  struct span span = span_of(p, &p->device->step->sequences[sequence], first, n);
  uint32_t most = span.n_tiles / LEAST_TILES_LARGE,
           units = (n * p->group + UNIT - 1) / UNIT;
  uint32_t parts = large ? (p->large_parts < most ? p->large_parts : most)
                         : (span.n_tiles + p->grain - 1) / p->grain;
  if (parts <= 1 || parts * units > p->max_units - plan->units)
    parts = 1;
  struct lls_cuda_item item = {.sequence = sequence, .first = first, .n_rows = n};
  for (uint32_t i = 0; i < parts; i++) {
    uint32_t begin = span.first_tile + (uint32_t)((uint64_t)span.n_tiles * i / parts);
    uint32_t past =
        span.first_tile + (uint32_t)((uint64_t)span.n_tiles * (i + 1) / parts);
    item.begin = begin * LLS_CUDA_TILE;
    item.end = past * LLS_CUDA_TILE < span.end ? past * LLS_CUDA_TILE : span.end;
    item.part = parts == 1 ? LLS_CUDA_NO_PART : plan->units + i * units;
    if (large)
      p->large[p->out->n_large++] = item;
    else
      p->small[p->out->n_small++] = item;
  }
  if (parts == 1)
    return;
  item.part = plan->units;
  add_merges(p, &item, parts, units);
  plan->units += parts * units;
}

/* ---- the whole --------------------------------------------------------------------- */

static bool is_small(const struct planning *p, const struct lls_step_sequence *s)
{
  return s->n_rows * p->group <= LLS_CUDA_SMALL;
}

/* How fine to cut, from all there is to do. */
static void choose_grain(struct planning *p)
{
  const struct lls_device_step *step = p->device->step;
  uint32_t spare = lls_cuda_plan_spare(p->device, p->shape->kv_heads), n_large = 0;
  uint64_t tiles = 0;
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &step->sequences[i];
    if (is_small(p, s))
      tiles += span_of(p, s, 0, s->n_rows).n_tiles;
    else
      n_large += (s->n_rows + p->large_rows - 1) / p->large_rows;
  }
  uint32_t grain = (uint32_t)((tiles + spare - 1) / spare);
  p->grain = grain > LEAST_TILES_SMALL ? grain : LEAST_TILES_SMALL;
  p->large_parts = n_large > 0 ? spare / n_large : 1;
}

static void share_out(struct planning *p)
{
  const struct lls_device_step *step = p->device->step;
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &step->sequences[i];
    bool small = is_small(p, s);
    uint32_t most = small ? s->n_rows : p->large_rows;
    for (uint32_t first = 0, n; first < s->n_rows; first += n) {
      n = s->n_rows - first < most ? s->n_rows - first : most;
      add_rows(p, i, first, n, !small);
    }
  }
}

static bool same_shape(const struct lls_cuda_attention *a,
                       const struct lls_cuda_attention *b)
{
  return a->n_rows == b->n_rows && a->heads == b->heads && a->window == b->window;
}

/* The number of the shape's plan, of the first that nobody has, or of the last. */
static uint32_t find_plan(const struct lls_cuda_device *d,
                          const struct lls_cuda_attention *a)
{
  uint32_t i = 0;
  while (i < LLS_CUDA_PLANS - 1 && d->plans[i].shape.n_rows > 0 &&
         !same_shape(&d->plans[i].shape, a))
    i++;
  return i;
}

/* One shape more than there are plans: what is under way still reads the last one. */
static bool make_room(struct lls_cuda_device *d, uint32_t number)
{
  if (d->plans[number].shape.n_rows == 0)
    return true;
  lls_cuda_ops_flush(d);
  return lls_cuda_step_check(d, cudaStreamSynchronize(d->stream), "attention");
}

void lls_cuda_plan_attention(struct lls_cuda_device *d, struct lls_cuda_attention *a)
{
  uint32_t number = find_plan(d, a);
  struct lls_cuda_shared_out *plan = &d->plans[number];
  a->plan = number;
  if (same_shape(&plan->shape, a) ||
      !lls_cuda_attention_fits(lls_cuda_numbers(d), &d->pool->view, a) ||
      !make_room(d, number))
    return;
  struct lls_cuda_inputs *in = &d->inputs;
  uint32_t spare = lls_cuda_plan_spare(d, a->kv_heads), group = a->heads / a->kv_heads;
  size_t items = (d->step->n_rows + spare) * sizeof(struct lls_cuda_item);
  size_t merges = 2 * (LLS_CUDA_LARGE / UNIT) * spare * sizeof(struct lls_cuda_merge);
  size_t offset = (size_t)((char *)(d->plan_at + number) - in->device);
  struct planning p = {
      .device = d,
      .shape = a,
      .out = (struct lls_cuda_plan *)(in->host[in->turn] + offset),
      .plan = plan,
      .group = group,
      .large_rows = LLS_CUDA_LARGE / group,
      .max_units =
          (uint32_t)(d->max_states / a->kv_heads / LLS_CUDA_STATE_FLOATS(a->head_dim)),
  };
  if (plan->shape.n_rows > 0) /* the lists of the plan before are done with */
    in->used = d->plan_begin[number];
  d->plan_begin[number] = in->used;
  memset(p.out, 0, sizeof *p.out);
  p.small = lls_cuda_inputs_take(in, items, &p.out->small);
  p.large = lls_cuda_inputs_take(in, items, &p.out->large);
  p.merges = lls_cuda_inputs_take(in, merges, &p.out->merges);
  plan->units = 0;
  choose_grain(&p);
  share_out(&p);
  plan->shape = *a;
  plan->grid = (struct lls_cuda_grid){p.out->n_small, p.out->n_large, p.out->n_merges};
  in->sent = 0;
}
