/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the attention of decodes. The tiles of all contexts of a KV head are put in a
 * row, which is cut into as many lanes as blocks can run at once, with equal numbers of
 * tiles. If a cut is within a context, two lanes have pieces of it, and each writes a
 * partial state. A state of 4 queries is 2 KiB, a tile 32 KiB of K and V. So no block
 * has a longer last round than the others: 64 contexts of 1024 tokens with 8 KV heads,
 * on 396 blocks, are 22 tiles each. (Stream-K: Osama et al., 2023, for products.)
 */
#include "kernels/cuda/ops.h"

struct cutting {
  const struct lls_cuda_device *device;
  struct lls_cuda_plan *plan; /* the fields below are on the host */
  struct lls_cuda_piece *pieces;
  uint32_t *lanes;
  const struct lls_step_sequence *steps;     /* of the shape's group */
  const struct lls_cuda_sequence *sequences; /* the same */
  uint32_t n_pieces, units;
  uint64_t tiles, done; /* tiles of all sequences; of the sequences already cut */
};

/* Returns the first tile of a lane. */
static uint64_t begin_of(const struct cutting *c, uint32_t lane)
{
  return c->tiles * lane / c->plan->n_lanes;
}

/* Returns the fields that all pieces of a sequence have in common. */
static struct lls_cuda_piece piece_of(const struct cutting *c, uint32_t sequence)
{
  const struct lls_step_sequence *s = &c->steps[sequence];
  const struct lls_cuda_sequence *at = &c->sequences[sequence];
  return (struct lls_cuda_piece){
      .row = s->first_row,
      .n_rows = s->n_rows,
      .position = s->context,
      .part = LLS_CUDA_NO_PART,
      .kv_first = at->kv_first,
      .kv_count = at->kv_count,
      .kv_begin = lls_list_begin(s->kv.entries, s->kv.n),
      .flags = (at->kv_whole != 0 ? LLS_CUDA_WHOLE : 0) |
               (at->scratch != 0 ? LLS_CUDA_SCRATCH : 0),
  };
}

/* Cuts a sequence's tiles into pieces for the lanes that they fall into; `lane` is the
 * last lane begun. */
static void cut(struct cutting *c, uint32_t sequence, const struct lls_cuda_span *span,
                uint32_t *lane)
{
  struct lls_cuda_piece p = piece_of(c, sequence), *first = &c->pieces[c->n_pieces];
  uint32_t n = 0;
  for (uint32_t tile = 0, past; tile < span->n_tiles; tile = past, n++) {
    uint64_t end = begin_of(c, *lane + 1) - c->done;
    while (end <= tile) {
      c->lanes[++*lane] = c->n_pieces + n;
      end = begin_of(c, *lane + 1) - c->done;
    }
    past = end < span->n_tiles ? (uint32_t)end : span->n_tiles;
    p.begin = (span->first_tile + tile) * LLS_CUDA_TILE;
    p.end = (span->first_tile + past) * LLS_CUDA_TILE;
    p.end = p.end < span->end ? p.end : span->end;
    p.sinks = tile == 0;
    first[n] = p;
  }
  for (uint32_t i = 0; i < n && n > 1; i++) {
    first[i].part = c->units + i;
    first[i].first_part = c->units;
    first[i].n_parts = n;
  }
  c->units += n > 1 ? n : 0;
  c->n_pieces += n;
  c->done += span->n_tiles;
}

/* The host address of an object in the inputs. */
static const void *on_host(const struct lls_cuda_inputs *in, const void *device)
{
  return in->host[in->turn] + ((const char *)device - in->device);
}

uint32_t lls_cuda_plan_pieces(struct lls_cuda_device *d,
                              const struct lls_cuda_attention *a,
                              struct lls_cuda_plan *plan)
{
  const struct lls_device_step *step = d->step;
  uint32_t most = lls_cuda_plan_lanes(d, a->group), lane = 0;
  const struct lls_cuda_step *there = on_host(&d->inputs, d->step_at + a->group);
  struct cutting c = {.device = d,
                      .plan = plan,
                      .steps = lls_step_group(step, a->group),
                      .sequences = on_host(&d->inputs, there->sequences)};
  c.pieces = lls_cuda_inputs_take(&d->inputs, (step->n_rows + most) * sizeof *c.pieces,
                                  &plan->pieces);
  c.lanes = lls_cuda_inputs_take(&d->inputs, (most + 1) * sizeof *c.lanes, &plan->lanes);
  for (uint32_t i = 0; i < step->n_sequences; i++)
    if (lls_cuda_in_pieces(a, &c.steps[i]))
      c.tiles += lls_cuda_span_of(a, &c.steps[i], 0, c.steps[i].n_rows).n_tiles;
  plan->n_lanes = c.tiles < most ? (uint32_t)c.tiles : most;
  c.lanes[0] = 0;
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &c.steps[i];
    struct lls_cuda_span span = lls_cuda_span_of(a, s, 0, s->n_rows);
    if (lls_cuda_in_pieces(a, s))
      cut(&c, i, &span, &lane);
  }
  c.lanes[plan->n_lanes] = c.n_pieces;
  return c.units;
}
