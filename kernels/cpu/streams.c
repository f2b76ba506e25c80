/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of LLS_EXTRA_STREAMS: the hidden states of a token in AltUp, and gates that
 * are cut by their mean. Loops over columns have no branch and no reduction across lanes
 * but in sums, so that the compiler makes vectors of them. Sums are of double numbers:
 * a row has thousands of gates.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <math.h>
#include <string.h>

/* transformers' least mean square of a stream that is made as large as another one */
#define LEAST_SQUARE 1e-5f

struct mixing {
  const struct lls_streams *streams;
  const float *scores; /* (n_rows, streams) */
  const float *mix;    /* (streams or its square, streams) */
  const float *scale;  /* (columns) or NULL */
  const float *x;      /* (n_rows, columns) */
  float *y;            /* (n_rows, columns) */
  size_t n_rows, columns;
};

/* Sets c to the products of a row's m with the rows of `mix`. */
static void weigh(const struct mixing *w, size_t row, size_t n_weights, float *c)
{
  uint32_t n = w->streams->n;
  float m[LLS_MAX_STREAMS];
  for (uint32_t i = 0; i < n; i++)
    m[i] = tanhf(w->scores[row * n + i]);
  for (size_t i = 0; i < n_weights; i++) {
    c[i] = 0;
    for (uint32_t j = 0; j < n; j++)
      c[i] += w->mix[i * n + j] * m[j];
  }
}

/* Streams are read before they are written, a few columns at a time. */
#define PART 64

static void predict_part(const struct mixing *w, size_t at, size_t n_columns,
                         const float *c)
{
  const struct lls_streams *s = w->streams;
  float sums[LLS_MAX_STREAMS][PART];
  for (uint32_t i = 0; i < s->n; i++) {
    memcpy(sums[i], (float *)s->x[i] + at, n_columns * sizeof(float));
    for (uint32_t j = 0; j < s->n; j++) {
      const float *x = (float *)s->x[j] + at;
      for (size_t k = 0; k < n_columns; k++)
        sums[i][k] += c[i * s->n + j] * x[k];
    }
  }
  for (uint32_t i = 0; i < s->n; i++)
    memcpy((float *)s->x[i] + at, sums[i], n_columns * sizeof(float));
  memcpy(w->y + at, sums[0], n_columns * sizeof(float));
}

static void predict_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct mixing *w = arg;
  float c[LLS_MAX_STREAMS * LLS_MAX_STREAMS];
  size_t begin, end, n = w->streams->n;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    weigh(w, row, n * n, c);
    for (size_t k = 0; k < w->columns; k += PART)
      predict_part(w, row * w->columns + k, w->columns - k < PART ? w->columns - k : PART,
                   c);
  }
}

void lls_cpu_predict(struct lls_device *device, const struct lls_streams *streams,
                     const float *scores, const float *mix, uint32_t n_rows,
                     uint32_t columns, void *x)
{
  struct mixing w = {.streams = streams,
                     .scores = scores,
                     .mix = mix,
                     .y = x,
                     .n_rows = n_rows,
                     .columns = columns};
  lls_cpu_run_rows(lls_cpu(device), predict_task, &w, n_rows, columns);
}

static void correct_row(const struct mixing *w, size_t row, const float *c)
{
  const struct lls_streams *s = w->streams;
  const float *x = w->x + row * w->columns;
  float *first = (float *)s->x[0] + row * w->columns, *y = w->y + row * w->columns;
  for (uint32_t i = s->n - 1; i > 0; i--) {
    float *other = (float *)s->x[i] + row * w->columns;
    for (size_t k = 0; k < w->columns; k++)
      other[k] += (1 + c[i]) * (x[k] - first[k]);
  }
  for (size_t k = 0; k < w->columns; k++)
    first[k] += (1 + c[0]) * (x[k] - first[k]);
  for (size_t k = 0; k < w->columns; k++)
    y[k] = w->scale != NULL ? first[k] * w->scale[k] : first[k];
}

static void correct_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct mixing *w = arg;
  float c[LLS_MAX_STREAMS];
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    weigh(w, row, w->streams->n, c);
    correct_row(w, row, c);
  }
}

void lls_cpu_correct(struct lls_device *device, const struct lls_streams *streams,
                     const float *scores, const float *mix, const float *scale,
                     const void *x, uint32_t n_rows, uint32_t columns, void *y)
{
  struct mixing w = {.streams = streams,
                     .scores = scores,
                     .mix = mix,
                     .scale = scale,
                     .x = x,
                     .y = y,
                     .n_rows = n_rows,
                     .columns = columns};
  lls_cpu_run_rows(lls_cpu(device), correct_task, &w, n_rows, columns);
}

/* ---- sizes ------------------------------------------------------------------------ */

struct sizing {
  const float *like; /* (n_rows, columns) */
  float *x;          /* (n_rows, stride) of which `columns` are changed */
  float *moments;    /* (n_rows, 2) sums of a row's gates and of their squares */
  size_t n_rows, columns, stride, whole;
  float factor;
};

static double mean_square(const float *x, size_t n)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += (double)x[i] * x[i];
  return sum / (double)n;
}

static void match_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct sizing *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    float *x = w->x + row * w->stride;
    double own = fmax(mean_square(x, w->columns), (double)LEAST_SQUARE);
    float factor = (float)sqrt(mean_square(w->like + row * w->columns, w->columns) / own);
    for (size_t i = 0; i < w->columns; i++)
      x[i] *= factor;
  }
}

void lls_cpu_match_size(struct lls_device *device, const void *like, uint32_t n_rows,
                        uint32_t columns, void *x)
{
  struct sizing w = {
      .like = like, .x = x, .n_rows = n_rows, .columns = columns, .stride = columns};
  lls_cpu_run_rows(lls_cpu(device), match_task, &w, n_rows, columns);
}

static void moments_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct sizing *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    const float *x = w->x + row * w->stride;
    double sum = 0;
    for (size_t i = 0; i < w->columns; i++)
      sum += (double)x[i];
    w->moments[2 * row] = (float)sum;
    w->moments[2 * row + 1] = (float)(mean_square(x, w->columns) * (double)w->columns);
  }
}

static void cut_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct sizing *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    float *x = w->x + row * w->stride;
    double mean = (double)w->moments[2 * row] / (double)w->whole;
    double square = (double)w->moments[2 * row + 1] / (double)w->whole;
    float least = (float)(mean + (double)w->factor * sqrt(fmax(square - mean * mean, 0)));
    for (size_t i = 0; i < w->columns; i++)
      x[i] = x[i] > least ? x[i] - least : 0;
  }
}

void lls_cpu_cut_gates(struct lls_device *device, float factor, uint32_t whole,
                       uint32_t n_rows, uint32_t columns, void *x)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct sizing w = {.x = x,
                     .moments = d->shared,
                     .n_rows = n_rows,
                     .columns = columns,
                     .stride = 2 * (size_t)columns,
                     .whole = whole,
                     .factor = factor};
  lls_cpu_run_rows(d, moments_task, &w, n_rows, columns);
  if (whole > columns)
    lls_cpu_all_reduce(device, w.moments, n_rows, 2);
  lls_cpu_run_rows(d, cut_task, &w, n_rows, columns);
}
