/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers on all threads. The work is divided into parts, each a part of a
 * span's columns: of a head, or of a convolution's channels. A part's results do not
 * depend on the division.
 */
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/cpu.h"

#include <string.h>

/* Columns of a part are multiples of this, but for the last. */
#define GRAIN 64
/* Channels of a convolution in a part: a row's share is 4 KiB. */
#define CONV_CHANNELS 1024

struct work {
  const struct lls_cpu_device *device;
  const struct lls_short_conv *conv;
  const struct lls_gated_delta *delta;
  const struct lls_state_space *space;
  const struct lls_gated_norm *norm;
  const struct lls_recurrent_span *spans;
  size_t n_spans;
  size_t heads, columns; /* of a span; a convolution is one head */
  size_t part;           /* columns of a part */
};

static size_t parts_of_head(const struct work *w)
{
  return (w->columns + w->part - 1) / w->part;
}

float *lls_cpu_begin_state(const struct lls_recurrent_span *s, size_t head, size_t rows,
                           size_t columns, size_t begin, size_t end)
{
  float *to = s->to + head * rows * columns;
  const float *from = s->from == NULL ? NULL : s->from + head * rows * columns;
  for (size_t i = begin; i < rows * columns; i += columns) {
    if (from == NULL)
      memset(to + i, 0, (end - begin) * sizeof *to);
    else
      memmove(to + i, from + i, (end - begin) * sizeof *to);
  }
  return to;
}

/* A span without rows, behind a copy of the state at a step's end. */
static void keep_state(const struct work *w, const struct lls_recurrent_span *span,
                       uint32_t head, size_t begin, size_t end)
{
  size_t rows = w->delta != NULL ? w->delta->key_dim : w->space->state_dim;
  lls_cpu_begin_state(span, head, rows, w->columns, begin, end);
}

static void compute(const struct work *w, const struct lls_recurrent_span *span,
                    uint32_t head, size_t begin, size_t end)
{
  const struct lls_cpu_recurrent_kernels *k = &w->device->kernels.recurrent;
  if (w->conv != NULL)
    k->conv(w->conv, span, begin, end);
  else if (span->n_rows == 0)
    keep_state(w, span, head, begin, end);
  else if (w->delta != NULL)
    k->delta(w->delta, span, head, begin, end);
  else
    k->space(w->space, span, head, begin, end);
}

/* Does the span go on where the one before it ends? */
static bool continues(const struct work *w, size_t span)
{
  return span > 0 && w->spans[span].from != NULL &&
         w->spans[span].from == w->spans[span - 1].to;
}

/* Computes part i of a span, and of the spans that continue it. */
static void compute_part(const struct work *w, size_t i)
{
  size_t parts = parts_of_head(w), begin = i % parts * w->part;
  size_t end = begin + w->part < w->columns ? begin + w->part : w->columns;
  uint32_t head = (uint32_t)(i / parts % w->heads);
  size_t span = i / parts / w->heads;
  if (continues(w, span))
    return;
  do {
    compute(w, &w->spans[span], head, begin, end);
  } while (++span < w->n_spans && continues(w, span));
}

static void parts_task(void *arg, unsigned thread, unsigned n_threads)
{
  (void)n_threads;
  const struct work *w = arg;
  size_t begin, end;
  while (lls_cpu_take(w->device->threads, thread, &begin, &end))
    for (; begin < end; begin++)
      compute_part(w, begin);
}

static void run_parts(struct work *w)
{
  lls_cpu_divide(w->device->threads, w->n_spans * w->heads * parts_of_head(w), 1);
  lls_cpu_run(w->device->threads, parts_task, w);
}

/* A whole head is a part if there are enough of them for the threads. */
static size_t part_columns(const struct lls_cpu_device *d, size_t heads, size_t columns)
{
  return heads >= (size_t)4 * d->n_threads || columns < GRAIN ? columns : GRAIN;
}

void lls_cpu_short_conv(const struct lls_cpu_device *d, const struct lls_short_conv *conv,
                        const struct lls_recurrent_span *spans, size_t n_spans)
{
  struct work w = {.device = d,
                   .conv = conv,
                   .spans = spans,
                   .n_spans = n_spans,
                   .heads = 1,
                   .columns = conv->channels,
                   .part = CONV_CHANNELS};
  run_parts(&w);
}

void lls_cpu_gated_delta(const struct lls_cpu_device *d,
                         const struct lls_gated_delta *delta,
                         const struct lls_recurrent_span *spans, size_t n_spans)
{
  struct work w = {.device = d,
                   .delta = delta,
                   .spans = spans,
                   .n_spans = n_spans,
                   .heads = delta->value_heads,
                   .columns = delta->value_dim,
                   .part =
                       part_columns(d, n_spans * delta->value_heads, delta->value_dim)};
  run_parts(&w);
}

void lls_cpu_state_space(const struct lls_cpu_device *d,
                         const struct lls_state_space *space,
                         const struct lls_recurrent_span *spans, size_t n_spans)
{
  struct work w = {.device = d,
                   .space = space,
                   .spans = spans,
                   .n_spans = n_spans,
                   .heads = space->heads,
                   .columns = space->head_dim,
                   .part = part_columns(d, n_spans * space->heads, space->head_dim)};
  run_parts(&w);
}

static void norm_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct work *w = arg;
  size_t begin, end;
  lls_cpu_share(w->columns, 1, thread, n_threads, &begin, &end);
  for (; begin < end; begin++)
    w->device->kernels.recurrent.norm(w->norm, (uint32_t)begin);
}

void lls_cpu_gated_norm(const struct lls_cpu_device *d, const struct lls_gated_norm *norm,
                        uint32_t n_rows)
{
  struct work w = {.device = d, .norm = norm, .columns = n_rows};
  lls_cpu_run_rows(d, norm_task, &w, n_rows, (size_t)norm->groups * norm->columns);
}
