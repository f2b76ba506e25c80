/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of several LoRA adapters in one product, in two passes over all groups: `shrink`
 * makes t = scale x a^T, `expand` adds t b to y. All threads share each pass, whatever
 * the number of groups: an item of shrink is a few rows of one a, an item of expand some
 * columns of one b, so each matrix is read once in a step, by one thread, and stays in
 * its cache for all rows of the group.
 *
 * A row's sums are in the same order whichever other rows and groups there are, as those
 * of linear.h.
 *
 * Bytes and operations of a group: 4 rank (inputs + outputs) read, and
 * 2 rows rank (inputs + outputs) operations.
 */
#include "core/base/least.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#define FEW_RANKS  4   /* rows of a that `dots` multiplies at once */
#define MANY_RANKS 16  /* rows of a of an item, if there are enough items */
#define COLUMNS    512 /* columns of b of an item */

struct adapting {
  const struct lls_cpu_device *device;
  const struct lls_adapted_rows *groups; /* (n_groups) */
  uint32_t n_groups;
  const float *x;
  float *t, *y; /* t: for each row of each group the ranks of all its parts */
  size_t inputs, outputs;
  uint32_t ranks; /* rows of a of an item */
};

/* Returns the ranks of all parts together. */
static size_t width_of(const struct lls_adapted_rows *g)
{
  size_t width = 0;
  for (uint32_t i = 0; i < g->n_parts; i++)
    width += g->parts[i].rank;
  return width;
}

/* The items of a pass, one after the other: pieces of a part of a group. */
struct walk {
  const struct adapting *work;
  uint32_t group, part, first; /* first: rank or column of the piece */
  size_t t_group, t_part;      /* where the group, and the part of a row, is in t */
};

typedef uint32_t length_of(const struct lls_low_rank *);

static uint32_t rank_of(const struct lls_low_rank *p)
{
  return p->rank;
}

static uint32_t outputs_of(const struct lls_low_rank *p)
{
  return p->outputs;
}

/* Goes to the next piece; returns false behind the last one. */
static bool next(struct walk *w, uint32_t step, length_of *length)
{
  const struct lls_adapted_rows *g = &w->work->groups[w->group];
  w->first += step;
  while (w->group < w->work->n_groups) {
    if (w->part < g->n_parts && w->first < length(&g->parts[w->part]))
      return true;
    w->first = 0;
    if (w->part < g->n_parts) {
      w->t_part += g->parts[w->part++].rank;
      continue;
    }
    w->t_group += width_of(g) * g->n_rows;
    w->part = 0;
    w->t_part = 0;
    w->group++;
    g++;
  }
  return false;
}

static size_t count(const struct adapting *a, uint32_t step, length_of *length)
{
  size_t n = 0;
  for (uint32_t g = 0; g < a->n_groups; g++)
    for (uint32_t i = 0; i < a->groups[g].n_parts; i++)
      n += (length(&a->groups[g].parts[i]) + step - 1) / step;
  return n;
}

static void shrink(const struct walk *w)
{
  const struct adapting *a = w->work;
  const struct lls_adapted_rows *g = &a->groups[w->group];
  const struct lls_low_rank *p = &g->parts[w->part];
  uint32_t n = lls_least_u32(a->ranks, p->rank - w->first);
  size_t width = width_of(g);
  float *t = a->t + w->t_group + w->t_part + w->first;
  for (uint32_t i = 0; i < g->n_rows; i++, t += width) {
    a->device->kernels.rows.dots(a->x + g->rows[i] * a->inputs,
                                 (const float *)p->a + (size_t)w->first * p->a_stride,
                                 p->a_stride, n, a->inputs, t);
    for (uint32_t k = 0; k < n; k++)
      t[k] *= g->scale;
  }
}

static void expand(const struct walk *w)
{
  const struct adapting *a = w->work;
  const struct lls_adapted_rows *g = &a->groups[w->group];
  const struct lls_low_rank *p = &g->parts[w->part];
  uint32_t n = lls_least_u32(COLUMNS, p->outputs - w->first);
  size_t width = width_of(g);
  const float *t = a->t + w->t_group + w->t_part;
  for (uint32_t i = 0; i < g->n_rows; i++, t += width)
    a->device->kernels.rows.weigh(
        t, (const float *)p->b + w->first, p->b_stride, p->rank, n,
        a->y + g->rows[i] * a->outputs + p->first_output + w->first);
}

static void run_pass(const struct adapting *a, uint32_t step, length_of *length,
                     void (*item)(const struct walk *), unsigned thread,
                     unsigned n_threads)
{
  struct walk w = {.work = a};
  size_t begin, end, i = 0;
  lls_cpu_share(count(a, step, length), 1, thread, n_threads, &begin, &end);
  for (bool more = next(&w, 0, length); more && i < end; i++) {
    if (i >= begin)
      item(&w);
    more = next(&w, step, length);
  }
}

static void shrink_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct adapting *a = arg;
  run_pass(a, a->ranks, rank_of, shrink, thread, n_threads);
}

static void expand_task(void *arg, unsigned thread, unsigned n_threads)
{
  run_pass(arg, COLUMNS, outputs_of, expand, thread, n_threads);
}

void lls_cpu_adapt(struct lls_device *device, const struct lls_adapted_rows *groups,
                   uint32_t n_groups, const void *x, uint32_t inputs, float *scratch,
                   void *y, uint32_t outputs)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct adapting a = {.device = d,
                       .groups = groups,
                       .n_groups = n_groups,
                       .x = x,
                       .t = scratch,
                       .y = y,
                       .inputs = inputs,
                       .outputs = outputs,
                       .ranks = FEW_RANKS};
  if (count(&a, MANY_RANKS, rank_of) >= 4 * (size_t)d->n_threads)
    a.ranks = MANY_RANKS;
  size_t rows = 0;
  for (uint32_t i = 0; i < n_groups; i++)
    rows += groups[i].n_rows * width_of(&groups[i]);
  lls_cpu_run_rows(d, shrink_task, &a, rows, inputs);
  lls_cpu_run_rows(d, expand_task, &a, rows, outputs);
}
