/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares out a step's attention among blocks of threads: which rows, against which
 * tokens. Every KV head does the same, so an item is worth kv_heads blocks.
 *
 * Small items (decodes) are taken by as many blocks as run at once, one after the other,
 * the longest first. Contexts are cut in pieces such that all rounds of them together
 * take the least tiles, in pieces of 256 tokens or more: a piece costs writing and
 * reading a state, which for 256 tokens is 3% of reading K and V. 16 contexts of 4096
 * tokens with 8 KV heads, on 396 places: 128 whole ones would leave two thirds of them
 * idle, 3 pieces each are 384 blocks in one round.
 *
 * Sums therefore come in an order that depends on what else is in the step, as those of
 * cuBLAS do.
 */
#include "kernels/cuda/ops.h"

#include <string.h>

#define LEAST_TILES_SMALL 4 /* of 64 tokens, in a piece */
#define LEAST_TILES_LARGE 8
#define PIECE_TILES       2 /* predicted: what a piece costs besides its tiles */
#define LENGTHS           8 /* that items are sorted by */
#define UNIT              LLS_CUDA_SMALL /* queries of a state */

struct planning {
  struct lls_cuda_device *device;
  const struct lls_cuda_attention *shape;
  struct lls_cuda_plan *out;
  struct lls_cuda_shared_out *plan;
  struct lls_cuda_item *small, *large;
  uint32_t group;
  uint32_t large_rows;  /* of a large item */
  uint32_t grain;       /* tiles of a small piece, at most */
  uint32_t large_parts; /* pieces of a large item, if it has tiles enough */
  uint32_t max_units;
  uint32_t at[LENGTHS]; /* where the next small item of a length goes, longest first */
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

static uint32_t rounded_up(uint32_t n, uint32_t by)
{
  return (n + by - 1) / by;
}

/* Into how many pieces rows are cut, of which there is room for the states. */
static uint32_t parts_of(struct planning *p, const struct span *span, uint32_t n,
                         bool large)
{
  uint32_t most = span->n_tiles / LEAST_TILES_LARGE;
  uint32_t units = rounded_up(n * p->group, UNIT);
  uint32_t parts = large ? (p->large_parts < most ? p->large_parts : most)
                         : rounded_up(span->n_tiles, p->grain);
  if (parts <= 1 || parts * units > p->max_units - p->plan->units)
    return 1;
  p->plan->units += parts * units;
  return parts;
}

/* The next small item's place by its length. */
static uint32_t *place_for(struct planning *p, uint32_t tiles)
{
  uint32_t length = (uint32_t)((uint64_t)tiles * LENGTHS / (p->grain + 1));
  return &p->at[length < LENGTHS ? LENGTHS - 1 - length : 0];
}

/* Rows of a sequence as one item, or as several of about as many tiles each; or just as
 * many places for them. */
static void add_rows(struct planning *p, uint32_t sequence, uint32_t first, uint32_t n,
                     bool large, bool count)
{
  struct span span = span_of(p, &p->device->step->sequences[sequence], first, n);
  uint32_t units = rounded_up(n * p->group, UNIT), first_part = p->plan->units;
  uint32_t parts = parts_of(p, &span, n, large);
  uint32_t *at = large ? &p->out->n_large : place_for(p, span.n_tiles / parts);
  for (uint32_t i = 0; i < parts; i++, ++*at) {
    uint32_t begin = span.first_tile + (uint32_t)((uint64_t)span.n_tiles * i / parts);
    uint32_t past =
        span.first_tile + (uint32_t)((uint64_t)span.n_tiles * (i + 1) / parts);
    if (count)
      continue;
    (large ? p->large : p->small)[*at] = (struct lls_cuda_item){
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

static bool is_small(const struct planning *p, const struct lls_step_sequence *s)
{
  return s->n_rows * p->group <= LLS_CUDA_SMALL;
}

/* All small pieces of at most `grain` tiles. */
static uint64_t pieces_of(const struct planning *p, uint32_t grain)
{
  const struct lls_device_step *step = p->device->step;
  uint64_t n = 0;
  for (uint32_t i = 0; i < step->n_sequences; i++)
    if (is_small(p, &step->sequences[i]))
      n += rounded_up(
          span_of(p, &step->sequences[i], 0, step->sequences[i].n_rows).n_tiles, grain);
  return n;
}

struct small_work { /* of one KV head */
  uint32_t n, longest;
  uint64_t tiles;
};

/* The least grain with which there are at most so many pieces, at least one a sequence.
 */
static uint32_t grain_for(const struct planning *p, const struct small_work *w,
                          uint64_t pieces)
{
  uint32_t low = (uint32_t)((w->tiles + pieces - 1) / pieces), high = w->longest;
  low = low > LEAST_TILES_SMALL ? low : LEAST_TILES_SMALL;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (pieces_of(p, middle) <= pieces)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Takes the grain of the rounds of blocks, the least or some more, that last the fewest
 * tiles. */
static void choose_grain(struct planning *p, const struct small_work *w)
{
  uint32_t kv_heads = p->shape->kv_heads, slots = p->device->pool->attention_slots;
  uint32_t rounds = rounded_up(w->n * kv_heads, slots);
  uint64_t least = UINT64_MAX;
  p->grain = LEAST_TILES_SMALL;
  for (uint32_t more = 0; w->n > 0 && more <= LLS_CUDA_MORE_ROUNDS; more++) {
    uint64_t pieces = (uint64_t)(rounds + more) * slots / kv_heads;
    uint32_t grain = grain_for(p, w, pieces > w->n ? pieces : w->n);
    uint64_t longest = rounded_up(w->longest, rounded_up(w->longest, grain));
    uint64_t tiles = (rounds + more) * (longest + PIECE_TILES);
    if (tiles < least)
      p->grain = grain;
    least = tiles < least ? tiles : least;
    if (grain == LEAST_TILES_SMALL)
      break;
  }
}

/* How fine to cut, from all there is to do. */
static void choose_pieces(struct planning *p)
{
  const struct lls_device_step *step = p->device->step;
  uint32_t n_large = 0, slots = 2 * (uint32_t)p->device->properties.multiProcessorCount;
  struct small_work w = {0, 0, 0};
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &step->sequences[i];
    uint32_t tiles = span_of(p, s, 0, s->n_rows).n_tiles;
    if (!is_small(p, s)) {
      n_large += rounded_up(s->n_rows, p->large_rows);
      continue;
    }
    w.n++;
    w.tiles += tiles;
    w.longest = tiles > w.longest ? tiles : w.longest;
  }
  choose_grain(p, &w);
  p->large_parts = n_large > 0 ? (slots / p->shape->kv_heads + 1) / n_large : 1;
}

/* Large items come from the last rows on, which see the most. */
static void share_out(struct planning *p, bool count)
{
  const struct lls_device_step *step = p->device->step;
  p->plan->units = p->out->n_large = 0;
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &step->sequences[i];
    bool small = is_small(p, s);
    uint32_t most = small ? s->n_rows : p->large_rows;
    for (uint32_t end = s->n_rows, first; end > 0; end = first) {
      first = (end - 1) / most * most;
      add_rows(p, i, first, end - first, !small, count);
    }
  }
}

/* Counts become places. */
static void sort_lengths(struct planning *p)
{
  uint32_t n = 0;
  for (int i = 0; i < LENGTHS; i++) {
    uint32_t here = p->at[i];
    p->at[i] = n;
    n += here;
  }
  p->out->n_small = n;
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
  uint32_t group = a->heads / a->kv_heads;
  size_t items = (d->step->n_rows + lls_cuda_plan_spare(d, a->kv_heads)) *
                 sizeof(struct lls_cuda_item);
  size_t offset = (size_t)((char *)(d->plan_at + number) - in->device);
  struct planning p = {
      .device = d,
      .shape = a,
      .out = (struct lls_cuda_plan *)(in->host[in->turn] + offset),
      .plan = plan,
      .group = group,
      .large_rows = LLS_CUDA_LARGE / group,
      .max_units = (uint32_t)(d->states.max_states / a->kv_heads /
                              LLS_CUDA_STATE_FLOATS(a->head_dim)),
  };
  if (plan->shape.n_rows > 0) /* the lists of the plan before are done with */
    in->used = d->plan_begin[number];
  d->plan_begin[number] = in->used;
  memset(p.out, 0, sizeof *p.out);
  p.small = lls_cuda_inputs_take(in, items, &p.out->small);
  p.large = lls_cuda_inputs_take(in, items, &p.out->large);
  choose_pieces(&p);
  share_out(&p, true);
  sort_lengths(&p);
  share_out(&p, false);
  plan->shape = *a;
  plan->grid = (struct lls_cuda_grid){.small = p.out->n_small, .large = p.out->n_large};
  in->sent = 0;
}
