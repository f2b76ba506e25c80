/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides a step's attention among thread blocks: which rows attend to which tokens.
 * Every KV head does the same, so an item takes kv_heads blocks.
 *
 * Decodes are cut into pieces (plan_pieces.c). The rows of prompts are large items. The
 * contexts of the last items may be cut into pieces of 512 tokens or more, too, if
 * fewer multiprocessors are idle then. So the order of sums depends on the rest of the
 * step, as it does in cuBLAS.
 */
#include "kernels/cuda/ops.h"

#include <string.h>

/* least tiles of 64 tokens in a piece of a large item */
#define LEAST_TILES 8
#define UNIT        LLS_CUDA_SMALL /* queries in a state */

struct planning {
  struct lls_cuda_device *device;
  const struct lls_cuda_attention *shape;
  const struct lls_step_sequence *sequences; /* of the shape's group */
  struct lls_cuda_plan *out;
  struct lls_cuda_item *large;
  uint32_t group;
  uint32_t large_rows;       /* rows of a large item */
  uint32_t large_parts;      /* pieces of a large item that has enough tiles */
  uint32_t units, max_units; /* units of states used, and available */
};

/* ---- items ------------------------------------------------------------------------- */

static uint32_t rounded_up(uint32_t n, uint32_t by)
{
  return (n + by - 1) / by;
}

/* Returns into how many pieces the rows are cut, and reserves their states. */
static uint32_t parts_of(struct planning *p, const struct lls_cuda_span *span, uint32_t n)
{
  uint32_t most = span->n_tiles / LEAST_TILES;
  uint32_t units = rounded_up(n * p->group, UNIT);
  uint32_t parts = p->large_parts < most ? p->large_parts : most;
  if (parts <= 1 || parts * units > p->max_units - p->units)
    return 1;
  p->units += parts * units;
  return parts;
}

/* Adds rows of a sequence as one item, or as several with about equally many tiles. */
static void add_rows(struct planning *p, uint32_t sequence, uint32_t first, uint32_t n)
{
  struct lls_cuda_span span =
      lls_cuda_span_of(p->shape, &p->sequences[sequence], first, n);
  uint32_t units = rounded_up(n * p->group, UNIT), first_part = p->units;
  uint32_t parts = parts_of(p, &span, n);
  for (uint32_t i = 0; i < parts; i++) {
    uint32_t begin = span.first_tile + (uint32_t)((uint64_t)span.n_tiles * i / parts);
    uint32_t past =
        span.first_tile + (uint32_t)((uint64_t)span.n_tiles * (i + 1) / parts);
    p->large[p->out->n_large++] = (struct lls_cuda_item){
        .sequence = sequence,
        .first = first,
        .n_rows = n,
        .begin = begin * LLS_CUDA_TILE,
        .end = past * LLS_CUDA_TILE < span.end ? past * LLS_CUDA_TILE : span.end,
        .part = parts == 1 ? LLS_CUDA_NO_PART : first_part + i * units,
        .first_part = first_part,
        .n_parts = parts,
    };
  }
}

/* ---- the whole --------------------------------------------------------------------- */

/* Returns the most rows of a large item. */
static uint32_t rows_of_item(const struct lls_cuda_attention *a)
{
  uint32_t most = a->rank > 0 ? LLS_CUDA_LATENT_QUERIES : LLS_CUDA_LARGE;
  uint32_t rows = most / (a->heads / a->kv_heads);
  return rows > 0 ? rows : 1;
}

/* Returns the pieces of items of all KV heads that are worth having: twice as many as
 * multiprocessors; of latents as many as run at once, where items may take two blocks. */
static uint32_t most_pieces(const struct planning *p)
{
  uint32_t processors = (uint32_t)p->device->properties.multiProcessorCount;
  if (p->shape->rank == 0)
    return 2 * processors;
  return p->group > LLS_CUDA_LATENT_QUERIES ? processors / 2 : processors;
}

/* Decides how finely large items are cut, from the number of all items. */
static void choose_parts(struct planning *p)
{
  const struct lls_device_step *step = p->device->step;
  uint32_t n_large = 0, slots = most_pieces(p);
  for (uint32_t i = 0; i < step->n_sequences; i++)
    if (!lls_cuda_in_pieces(p->shape, &p->sequences[i]))
      n_large += rounded_up(p->sequences[i].n_rows, p->large_rows);
  p->large_parts = n_large > 0 ? (slots / p->shape->kv_heads + 1) / n_large : 1;
}

/* Adds the large items, beginning with the last rows, which see the most tokens. */
static void share_out(struct planning *p)
{
  const struct lls_device_step *step = p->device->step;
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &p->sequences[i];
    if (lls_cuda_in_pieces(p->shape, s))
      continue;
    for (uint32_t end = s->n_rows, first; end > 0; end = first) {
      first = (end - 1) / p->large_rows * p->large_rows;
      add_rows(p, i, first, end - first);
    }
  }
}

/* Returns the most queries of a piece. */
static uint32_t most_queries(const struct planning *p)
{
  const struct lls_device_step *step = p->device->step;
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &p->sequences[i];
    if (lls_cuda_in_pieces(p->shape, s) && s->n_rows * p->group > 8)
      return 16;
  }
  return 8;
}

static bool same_shape(const struct lls_cuda_attention *a,
                       const struct lls_cuda_attention *b)
{
  return a->n_rows == b->n_rows && a->heads == b->heads && a->window == b->window &&
         a->chunked == b->chunked && a->group == b->group && a->rank == b->rank;
}

/* Returns the number of the shape's plan; else of the first unused one, or of the
 * last. */
static uint32_t find_plan(const struct lls_cuda_device *d,
                          const struct lls_cuda_attention *a)
{
  uint32_t i = 0;
  while (i < LLS_CUDA_PLANS - 1 && d->plans[i].shape.n_rows > 0 &&
         !same_shape(&d->plans[i].shape, a))
    i++;
  return i;
}

/* Frees a plan if there are more shapes than plans: the operations recorded so far
 * still read the last plan, so they run first. */
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
  a->several = d->step->n_rows > d->step->n_sequences;
  struct lls_cuda_shared_out *plan = &d->plans[number];
  a->plan = number;
  if (same_shape(&plan->shape, a) ||
      !lls_cuda_attention_fits(lls_cuda_numbers(d), &d->pool->views[a->group], a) ||
      !make_room(d, number))
    return;
  struct lls_cuda_inputs *in = &d->inputs;
  uint32_t group = a->heads / a->kv_heads;
  size_t items = (d->step->n_rows + lls_cuda_plan_spare(d, a->kv_heads)) *
                 sizeof(struct lls_cuda_item);
  size_t offset = (size_t)((char *)(d->plan_at + number) - in->device);
  struct planning p = {
      .device = d,
      .shape = a,
      .sequences = lls_step_group(d->step, a->group),
      .out = (struct lls_cuda_plan *)(in->host[in->turn] + offset),
      .group = group,
      .large_rows = rows_of_item(a),
      .max_units = (uint32_t)(d->states.max_states / a->kv_heads /
                              LLS_CUDA_STATE_FLOATS(a->head_dim)),
  };
  if (plan->shape.n_rows > 0) /* the previous plan's lists are no longer needed */
    in->used = d->plan_begin[number];
  d->plan_begin[number] = in->used;
  memset(p.out, 0, sizeof *p.out);
  p.large = lls_cuda_inputs_take(in, items, &p.out->large);
  p.units = lls_cuda_plan_pieces(d, a, p.out);
  choose_parts(&p);
  share_out(&p);
  plan->shape = *a;
  plan->grid = (struct lls_cuda_grid){
      .small = p.out->n_lanes, .large = p.out->n_large, .queries = most_queries(&p)};
  in->sent = 0;
}
