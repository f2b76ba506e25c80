/* SPDX-License-Identifier: Apache-2.0 */
/* Draws shapes of steps; see shapes.h. */
#include "tools/profile/shapes.h"

#include <math.h>

#include "core/device/sampling.h"

struct dice {
  uint64_t seed;
  uint32_t index;
};

static double uniform(struct dice *d)
{
  return lls_sampling_uniform(d->seed, d->index++);
}

static uint32_t between(struct dice *d, uint32_t least, uint32_t most)
{
  return least + (uint32_t)(uniform(d) * (most - least + 1.0));
}

/* Returns a log-uniform draw: as often between 1 and 2 as between 512 and 1024. */
static uint32_t by_magnitude(struct dice *d, uint32_t least, uint32_t most)
{
  if (most <= least)
    return least;
  return (uint32_t)(least * pow((most + 1.0) / least, uniform(d)));
}

struct drawing {
  const struct lls_shape_limits *limits;
  struct dice dice;
  struct lls_shape *shape;
  uint32_t rows, cached; /* tokens left: in the step, in the cache */
};

static bool add(struct drawing *d, uint32_t tokens, uint32_t context, bool drawn)
{
  uint32_t block = d->limits->block_tokens;
  uint32_t room = (context + tokens + block - 1) / block * block;
  if (tokens == 0 || tokens > d->rows || room > d->cached ||
      d->shape->n == d->limits->max_sequences)
    return false;
  d->rows -= tokens;
  d->cached -= room;
  d->shape->parts[d->shape->n++] =
      (struct lls_shape_part){.tokens = tokens, .context = context, .drawn = drawn};
  return true;
}

/* Adds a chunk. Half of the chunks are the first of their prompt. */
static void add_chunk(struct drawing *d)
{
  const struct lls_shape_limits *l = d->limits;
  uint32_t most = d->rows < l->max_context - 1 ? d->rows : l->max_context - 1;
  uint32_t tokens = by_magnitude(&d->dice, 2, most);
  uint32_t context = 0;
  if (uniform(&d->dice) < 0.5 && l->max_context > tokens + 1)
    context = by_magnitude(&d->dice, 1, l->max_context - tokens - 1);
  add(d, tokens, context, uniform(&d->dice) < 0.5);
}

static void add_decodes(struct drawing *d)
{
  const struct lls_shape_limits *l = d->limits;
  uint32_t n = by_magnitude(&d->dice, 1, l->max_sequences);
  uint32_t longest = by_magnitude(&d->dice, 16, l->max_context - 1);
  for (uint32_t i = 0; i < n; i++)
    if (!add(d, 1, between(&d->dice, longest / 4, longest), true))
      return;
}

void lls_shape_draw(const struct lls_shape_limits *limits, uint64_t seed, uint64_t index,
                    struct lls_shape *shape)
{
  struct drawing d = {
      .limits = limits,
      .dice = {.seed = seed + index * UINT64_C(0xD1342543DE82EF95)},
      .shape = shape,
      .rows = limits->max_rows,
      .cached = limits->cache_tokens,
  };
  shape->n = 0;
  shape->kind = index % 3;
  if (shape->kind != LLS_SHAPE_CHUNK)
    add_decodes(&d);
  if (shape->kind != LLS_SHAPE_DECODE)
    for (uint32_t n = between(&d.dice, 1, shape->kind == LLS_SHAPE_CHUNK ? 3 : 1); n > 0;
         n--)
      add_chunk(&d);
}
