/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops around the tiles of linear_*.c, the same for every ISA level and format.
 *
 * Rows are taken in blocks of LLS_ROW_BLOCK. All threads pack a block's rows of x
 * together (shared memory), then each multiplies them by its own panels:
 *
 *   few rows (one group)   a tile runs over all inputs: the weights stream by once
 *   more                   for a block of panels, for LLS_DEPTH inputs, for each panel,
 *                          for each group: the panel's piece (16 KiB in bf16) stays in L1
 *                          while the groups pass, the block's x (96 x 512 f32 = 192 KiB)
 *                          in L2 while the panels pass, and so do the sums (96 KiB)
 *
 * The order of additions does not depend on any of this (linear.h).
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <string.h>

#define AHEAD       2048 /* bytes of a stream asked for ahead of its use; bench/linear */
#define TURNS       4 /* parts a thread's share is taken in: what a late thread can lose */
#define TILE_PANELS 4 /* of the widest tile */

struct product {
  struct lls_cpu_device *device;
  const struct lls_linear_kernel *kernel;
  const struct lls_weight *weight;
  const float *x; /* (n_rows, columns) */
  float *y;       /* (n_rows, rows of the weight) */
  size_t n_rows;  /* at most LLS_ROW_BLOCK */
  size_t groups;
  bool add;
  const char *packed; /* (groups, group_bytes) */
  size_t group_bytes;
};

/* Rows [*begin, *end) are group g. */
static void group_rows(const struct product *p, size_t g, size_t *begin, size_t *end)
{
  lls_cpu_share(p->n_rows, p->kernel->row_unit, (unsigned)g, (unsigned)p->groups, begin,
                end);
}

static size_t least(size_t a, size_t b)
{
  return a < b ? a : b;
}

/* Items are pieces of LLS_DEPTH inputs of a group. */
static size_t pieces_of(const struct lls_weight *w)
{
  return (w->inputs + LLS_DEPTH - 1) / LLS_DEPTH;
}

static void pack_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct product *p = arg;
  const struct lls_weight *w = p->weight;
  size_t pieces = pieces_of(w), begin, end;
  lls_cpu_share(p->groups * pieces, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    size_t g = i / pieces, k = i % pieces * LLS_DEPTH, first, last;
    group_rows(p, g, &first, &last);
    char *out = p->device->shared;
    out += g * p->group_bytes + p->kernel->skip(last - first, k) * p->kernel->x_bytes;
    p->kernel->pack(p->x + first * w->columns + k, w->columns, last - first,
                    least(LLS_DEPTH, w->columns - k), least(LLS_DEPTH, w->inputs - k),
                    out);
  }
}

/* Writes the sums of a block of panels: y = sum * scale + bias, or y += that. */
static void store(const struct product *p, const float *sums, size_t first_panel,
                  size_t n_panels)
{
  const struct lls_weight *w = p->weight;
  for (size_t row = 0; row < p->n_rows; row++) {
    for (size_t i = 0; i < n_panels; i++) {
      const float *sum = sums + (i * p->n_rows + row) * LLS_PANEL;
      size_t first = (first_panel + i) * LLS_PANEL;
      size_t n = w->rows - first < LLS_PANEL ? w->rows - first : LLS_PANEL;
      float *y = p->y + row * w->rows + first;
      float out[LLS_PANEL];
      for (size_t o = 0; o < LLS_PANEL; o++)
        out[o] = w->scale != NULL ? sum[o] * w->scale[first + o] : sum[o];
      for (size_t o = 0; w->bias != NULL && o < LLS_PANEL; o++)
        out[o] += w->bias[first + o];
      for (size_t o = 0; o < n; o++)
        y[o] = p->add ? y[o] + out[o] : out[o];
    }
  }
}

/* All groups times the panels of one tile over its inputs, which begin at k. */
static void multiply_groups(const struct product *p, struct lls_tile tile, size_t k,
                            float *sums)
{
  const struct lls_linear_kernel *kernel = p->kernel;
  for (size_t g = 0; g < p->groups; g++) {
    size_t begin, end;
    group_rows(p, g, &begin, &end);
    tile.rows = end - begin;
    tile.x =
        p->packed + g * p->group_bytes + kernel->skip(tile.rows, k) * kernel->x_bytes;
    tile.x_next = (const char *)tile.x + p->group_bytes;
    tile.sums = sums + begin * LLS_PANEL;
    kernel->tile(&tile);
    tile.lead = 0; /* the first group has asked for all of the next panel */
  }
}

/* The inputs [k, k + n_k) of a block of panels; sums (n_panels, n_rows, 16). */
static void multiply_block(const struct product *p, size_t first_panel, size_t n_panels,
                           size_t k, size_t n_k, float *sums)
{
  const struct lls_weight *w = p->weight;
  size_t input_bytes = w->panel_bytes / w->inputs;
  struct lls_tile tile = {
      .panel_bytes = w->panel_bytes,
      .inputs = n_k,
      .more = k > 0,
      .sum_stride = p->n_rows * LLS_PANEL,
      .lead = p->groups > 1 ? n_k : least(n_k, AHEAD / input_bytes),
  };
  size_t step = p->groups > 1 ? p->kernel->panels : n_panels;
  for (size_t i = 0; i < n_panels; i += step) {
    tile.panels = least(step, n_panels - i);
    tile.weight = w->data + (first_panel + i) * w->panel_bytes + k * input_bytes;
    multiply_groups(p, tile, k, sums + i * tile.sum_stride);
  }
}

static void product_task(void *arg, unsigned thread, unsigned n_threads)
{
  (void)n_threads;
  const struct product *p = arg;
  const struct lls_weight *w = p->weight;
  float *sums = lls_cpu_scratch(p->device, thread);
  size_t depth = p->groups > 1 ? LLS_DEPTH : w->inputs, begin, end;
  if (p->kernel->begin != NULL)
    p->kernel->begin();
  while (lls_cpu_take(p->device->threads, thread, &begin, &end)) {
    for (size_t k = 0; k < w->inputs; k += depth)
      multiply_block(p, begin, end - begin, k, least(depth, w->inputs - k), sums);
    store(p, sums, begin, end - begin);
  }
  if (p->kernel->end != NULL)
    p->kernel->end();
}

/* Panels a thread takes at a time: some turns each, in whole tiles. */
static size_t grain_of(size_t panels, unsigned n_threads)
{
  size_t grain = panels / (n_threads * TURNS) / TILE_PANELS * TILE_PANELS;
  return grain < TILE_PANELS ? TILE_PANELS : least(grain, LLS_PANEL_BLOCK);
}

/* At most LLS_ROW_BLOCK rows. */
static void multiply_rows(struct lls_cpu_device *d, struct product *p)
{
  const struct lls_linear_kernel *kernel = p->kernel;
  const struct lls_weight *w = p->weight;
  p->groups = (p->n_rows + kernel->max_rows - 1) / kernel->max_rows;
  p->group_bytes = w->inputs * kernel->max_rows * kernel->x_bytes;
  p->packed = d->shared;
  if (p->n_rows == 1 && kernel->x_bytes == sizeof(float) && w->inputs == w->columns)
    p->packed = (const char *)p->x;
  else
    lls_cpu_run(d->threads, pack_task, p);
  lls_cpu_divide(d->threads, w->panels, grain_of(w->panels, d->n_threads));
  lls_cpu_run(d->threads, product_task, p);
}

static void multiply(struct lls_cpu_device *d, const struct lls_weight *w, const float *x,
                     size_t n_rows, bool add, float *y)
{
  for (size_t row = 0; row < n_rows; row += LLS_ROW_BLOCK) {
    struct product p = {
        .device = d,
        .kernel = &d->kernels.linear.of[w->packed],
        .weight = w,
        .x = x + row * w->columns,
        .y = y + row * w->rows,
        .n_rows = least(LLS_ROW_BLOCK, n_rows - row),
        .add = add,
    };
    multiply_rows(d, &p);
  }
}

size_t lls_cpu_linear_scratch(void)
{
  return (size_t)LLS_PANEL_BLOCK * LLS_ROW_BLOCK * LLS_PANEL * sizeof(float);
}

size_t lls_cpu_linear_shared(size_t max_columns)
{
  size_t inputs = (max_columns + LLS_INPUT_ALIGN - 1) / LLS_INPUT_ALIGN * LLS_INPUT_ALIGN;
  return LLS_ROW_BLOCK * inputs * sizeof(float);
}

void lls_cpu_linear(struct lls_device *device, const struct lls_weight *w, const void *x,
                    uint32_t n_rows, enum lls_linear_store store_as, void *y)
{
  multiply(lls_cpu(device), w, x, n_rows, store_as == LLS_STORE_ADD, y);
}

void lls_cpu_logits(struct lls_device *device, const struct lls_weight *w, const void *x,
                    uint32_t n_rows, float *y)
{
  multiply(lls_cpu(device), w, x, n_rows, false, y);
}
