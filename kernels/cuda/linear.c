/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear layers: chooses the product for a weight's rows. bf16 and f32 weights use
 * cuBLASLt, except for one row with bf16 weights on Hopper, which uses codes.cu's
 * kernel: a step of Llama-3-8B at batch 1 took an H200 1.24 times its lower bound with
 * it, and 1.30 times without. Codes (bf16 activations only) are multiplied in their
 * stored form for few rows (codes.cu, few.cu); for many rows some outputs at a time are
 * widened to bf16 for cuBLASLt. FP8 with one scale for each output is multiplied by
 * cuBLASLt without widening, with x rounded to e4m3 (quantise.cu), from sm_89 on if
 * cuBLASLt has an algorithm. So is int8 of models that were made for int8 activations,
 * at twice bf16's rate. Hopper's cuBLASLt applies the scales of e4m3's outputs and rows
 * itself; otherwise a kernel of ours scales the sums.
 *
 * The cost of widening: for each weight 2 bytes are written and read again, in addition
 * to the 0.6 or so of its code; of 32 MiB at a time most stay in the L2 of an H100 (50
 * MB). If none did, 512 rows would take twice as long as with bf16 weights, and 8192
 * rows 6% longer.
 */
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quantise.h"

#include <errno.h>

static size_t y_bytes(const struct lls_cuda_device *d, const struct lls_cuda_linear *a)
{
  return a->f32 ? sizeof(float) : lls_dtype_bytes(lls_cuda_numbers(d));
}

/* Outputs [first, first + n) of one weight; they are the layer's outputs from `at`
 * on. */
struct part {
  const struct lls_weight *w;
  uint32_t first, n, at;
};

static struct lls_cuda_product product_of(const struct lls_cuda_device *d,
                                          const struct lls_cuda_linear *a,
                                          const struct part *part)
{
  size_t number = lls_dtype_bytes(lls_cuda_numbers(d));
  const struct lls_weight *w = part->w;
  struct lls_cuda_product p = {
      .x = a->x,
      .y = (char *)a->y + part->at * y_bytes(d, a),
      .outputs = part->n,
      .inputs = (uint32_t)w->columns,
      .n_rows = a->n_rows,
      .stride = a->outputs,
      .add = a->add,
      .relu = a->relu,
      .f32 = a->f32,
  };
  if (w->bias != NULL)
    p.bias = a->f32 ? (const void *)(w->bias_f32 + part->first)
                    : (const char *)w->bias + part->first * number;
  return p;
}

/* Multiplies by codes from output part->first on: for up to 8 or 16 rows, or one row of
 * bf16 weights. */
static void run_fewest(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                       const struct part *part, const struct lls_cuda_codes *w)
{
  struct lls_cuda_codes_product p = {
      .w = *w,
      .first_output = part->first,
      .n_rows = a->n_rows,
      .stride = a->outputs,
      .add = a->add,
      .relu = a->relu,
      .f32 = a->f32,
      .processors = (uint32_t)d->properties.multiProcessorCount,
      .x = a->x,
      .y = (char *)a->y + part->at * y_bytes(d, a),
  };
  p.w.outputs = part->n;
  lls_cuda_step_check(d, lls_cuda_run_codes_product(d->stream, &p),
                      "a product of few rows");
}

/* Like run_fewest, but for more rows, some at a time. */
static void run_few(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                    const struct part *part, const struct lls_cuda_codes *w)
{
  struct lls_cuda_few_product p = {
      .w = *w,
      .first_output = part->first,
      .stride = a->outputs,
      .add = a->add,
      .relu = a->relu,
      .f32 = a->f32,
      .blocks = d->few.blocks,
      .shared_bytes = d->few.shared_bytes,
      .parts = d->few.parts,
      .finished = d->few.finished,
  };
  const char *x = a->x;
  char *y = (char *)a->y + part->at * y_bytes(d, a);
  p.w.outputs = part->n;
  for (uint32_t row = 0; row < a->n_rows && d->status == 0; row += p.n_rows) {
    p.n_rows = a->n_rows - row < LLS_CUDA_FEW_ROWS ? a->n_rows - row : LLS_CUDA_FEW_ROWS;
    p.x = x + (size_t)row * w->inputs * 2;
    p.y = y + (size_t)row * a->outputs * y_bytes(d, a);
    lls_cuda_step_check(d, lls_cuda_run_few_product(d->stream, &p),
                        "a product of few rows");
  }
}

/* Is this one row with bf16 weights on a GPU where our kernel reads them faster than
 * cuBLASLt? More rows were not measured. */
static bool is_one(const struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                   const struct lls_weight *w)
{
  return d->few.numbers && a->n_rows == 1 && w->columns % 8 == 0;
}

static void run_numbers(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                        const struct part *part, const void *numbers)
{
  struct lls_cuda_product p = product_of(d, a, part);
  p.w = numbers;
  lls_cuda_run_product(d, &p);
}

/* The address where the part of bf16 or f32 weights begins. */
static const void *numbers_of(const struct lls_cuda_device *d, const struct part *part)
{
  size_t number = lls_dtype_bytes(lls_cuda_numbers(d));
  return (const char *)part->w->data + part->first * part->w->columns * number;
}

/* Rounds some rows at a time to e4m3 and multiplies them. False: cuBLASLt has no
 * algorithm, and nothing was done. */
static bool run_e4m3(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                     const struct part *part)
{
  const struct lls_weight *w = part->w;
  uint32_t columns = (uint32_t)w->columns, stride = (columns + 63) / 64 * 64;
  uint32_t room = (uint32_t)(LLS_CUDA_WIDENED / (stride + sizeof(float))) / 16 * 16;
  struct lls_cuda_quantise x = {
      .columns = columns, .stride = stride, .codes = d->widened};
  struct lls_cuda_product p = product_of(d, a, part);
  size_t step = a->outputs * y_bytes(d, a); /* bytes from row to row of y */
  x.scales = (float *)(x.codes + (size_t)room * stride);
  p.w = w->codes.codes + (size_t)part->first * stride;
  p.inputs = stride;
  p.e4m3 = true;
  p.w_scales = w->scales + part->first;
  p.x_scales = x.scales;
  p.x = x.codes;
  for (uint32_t row = 0; row < a->n_rows && d->status == 0; row += x.n_rows) {
    x.n_rows = a->n_rows - row < room ? a->n_rows - row : room;
    x.x = (const char *)a->x + (size_t)row * columns * 2;
    p.n_rows = x.n_rows;
    int rc = lls_cuda_run_quantise_e4m3(d->stream, &x);
    if (!lls_cuda_step_check(d, rc, "rounding activations"))
      return true;
    if (!lls_cuda_run_product(d, &p))
      /* only for the first rows: all others have the same shape, or fewer rows */
      return false;
    p.y = (char *)p.y + x.n_rows * step;
  }
  return true;
}

/* How run_sums divides its scratch: codes and scales of x, and sums. */
struct sums_room {
  struct lls_cuda_quantise x;
  void *sums;    /* 32 bits each */
  uint32_t rows; /* rows of x that fit */
};

static struct sums_room sums_room(const struct lls_cuda_device *d, uint32_t columns)
{
  uint32_t half = (uint32_t)(LLS_CUDA_WIDENED / 2), stride = (columns + 63) / 64 * 64;
  struct sums_room r = {.x = {.columns = columns, .stride = stride, .codes = d->widened},
                        .sums = (char *)d->widened + half,
                        .rows = half / (stride + (uint32_t)sizeof(float)) / 16 * 16};
  r.x.scales = (float *)(r.x.codes + (size_t)r.rows * stride);
  return r;
}

static bool is_int8(const struct part *part)
{
  return part->w->codes.form == LLS_CODES8;
}

/* cuBLASLt has algorithms for outputs that are a multiple of this: IMMA's requirement
 * for int8; for e4m3, rows of a multiple of 16 bytes; see cublasLtMatmul. */
static uint32_t outputs_by(const struct part *part)
{
  return is_int8(part) ? 4 : 16;
}

/* Multiplies rows of x, already converted to codes, with as many outputs at a time as
 * there is space for their sums. False: cuBLASLt has no algorithm for the first of
 * these products. */
static bool run_rows_of_sums(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                             const struct part *part, const struct sums_room *r, void *y)
{
  const struct lls_weight *w = part->w;
  uint32_t room = (uint32_t)(LLS_CUDA_WIDENED / 2 / sizeof(float)) / r->x.n_rows;
  room = room < 128 ? room / outputs_by(part) * outputs_by(part) : room / 128 * 128;
  for (uint32_t done = 0, n; done < part->n && d->status == 0; done += n) {
    n = part->n - done < room ? part->n - done : room;
    const uint32_t first = part->first + done;
    const struct lls_cuda_product p = {.w = w->codes.codes + (size_t)first * r->x.stride,
                                       .x = r->x.codes,
                                       .y = r->sums,
                                       .outputs = n,
                                       .inputs = r->x.stride,
                                       .n_rows = r->x.n_rows,
                                       .stride = n,
                                       .f32 = !is_int8(part),
                                       .e4m3 = !is_int8(part),
                                       .int8 = is_int8(part)};
    const struct lls_cuda_scale_sums s = {
        .n_rows = r->x.n_rows,
        .outputs = n,
        .stride = a->outputs,
        .add = a->add,
        .relu = a->relu,
        .f32 = !is_int8(part),
        .sums = r->sums,
        .x_scales = r->x.scales,
        .w_scales = w->scales + first,
        .bias = w->bias_f32 != NULL ? w->bias_f32 + first : NULL,
        .y = (char *)y + done * y_bytes(d, a)};
    if (!lls_cuda_run_product(d, &p)) {
      if (done == 0)
        return false;
      lls_cuda_step_fail(d, -EIO, "cuBLASLt multiplies some outputs in 8 bits, not all");
    }
    if (d->status == 0)
      lls_cuda_step_check(d, lls_cuda_run_scale_sums(d->stream, &s), "scaling sums");
  }
  return true;
}

/* Rounds some rows at a time to int8 or e4m3, multiplies them and scales the sums with
 * a kernel of ours. False: cuBLASLt has no algorithm, and nothing was done. */
static bool run_sums(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                     const struct part *part)
{
  struct sums_room r = sums_room(d, (uint32_t)part->w->columns);
  char *y = (char *)a->y + part->at * y_bytes(d, a);
  if (part->n % outputs_by(part) != 0 || r.rows == 0)
    return false;
  for (uint32_t row = 0; row < a->n_rows && d->status == 0; row += r.x.n_rows) {
    r.x.n_rows = a->n_rows - row < r.rows ? a->n_rows - row : r.rows;
    r.x.x = (const char *)a->x + (size_t)row * r.x.columns * 2;
    int rc = is_int8(part) ? lls_cuda_run_quantise_int8(d->stream, &r.x)
                           : lls_cuda_run_quantise_e4m3(d->stream, &r.x);
    if (!lls_cuda_step_check(d, rc, "rounding activations"))
      return true;
    if (!run_rows_of_sums(d, a, part, &r, y + row * a->outputs * y_bytes(d, a))) {
      if (row == 0)
        return false;
      lls_cuda_step_fail(d, -EIO, "cuBLASLt multiplies some rows in 8 bits, not all");
    }
  }
  return true;
}

/* Multiplies with one scale for each output and activations rounded to the weights'
 * type. e4m3 exists from sm_89 on; only Hopper's cuBLASLt has scales of rows
 * (products.c). */
static bool run_scaled(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                       const struct part *part)
{
  int version = d->properties.major * 10 + d->properties.minor;
  if (part->w->scales == NULL || a->f32 || (!is_int8(part) && version < 89))
    return false;
  return !is_int8(part) && version == 90 ? run_e4m3(d, a, part) : run_sums(d, a, part);
}

static void run_widened(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                        const struct part *part)
{
  /* a multiple of 128 outputs, so that each product begins at a multiple of 256 bytes
   * in y */
  uint32_t room = (uint32_t)(LLS_CUDA_WIDENED / (part->w->columns * 2));
  room = room < 128 ? room : room / 128 * 128;
  struct part some = *part;
  for (uint32_t done = 0; done < part->n && d->status == 0; done += some.n) {
    some.first = part->first + done;
    some.at = part->at + done;
    some.n = part->n - done < room ? part->n - done : room;
    int rc =
        lls_cuda_run_widen(d->stream, &part->w->codes, some.first, some.n, d->widened);
    if (lls_cuda_step_check(d, rc, "widening weights"))
      run_numbers(d, a, &some, d->widened);
  }
}

/* Up to this many rows codes are multiplied in their stored form. With scales for
 * cuBLASLt the limit is lower, since its 8-bit products are twice as fast as bf16's and
 * read weights once. */
static uint32_t most_few(const struct lls_weight *w)
{
  return w->scales != NULL ? 64 : LLS_CUDA_FEW;
}

static void run_part(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                     const struct part *part)
{
  const struct lls_weight *w = part->w;
  const struct lls_cuda_codes numbers = {
      .inputs = (uint32_t)w->columns, .codes = w->data, .bias = w->bias_f32};
  if (w->codes.form == LLS_NO_CODES && is_one(d, a, w))
    run_fewest(d, a, part, &numbers);
  else if (w->codes.form == LLS_NO_CODES)
    run_numbers(d, a, part, numbers_of(d, part));
  else if (a->n_rows <= lls_cuda_codes_rows(w->codes.form))
    run_fewest(d, a, part, &w->codes);
  else if (a->n_rows <= most_few(w))
    run_few(d, a, part, &w->codes);
  else if (!run_scaled(d, a, part))
    run_widened(d, a, part);
}

/* Finds the next part of the layer's outputs, from weight *w and its output *begin
 * on. */
static bool next_part(const struct lls_cuda_linear *a, const struct lls_weight **w,
                      size_t *begin, struct part *out)
{
  size_t end = a->first + (size_t)a->outputs;
  for (; *w != NULL; *w = (*w)->next) {
    size_t first = *begin, from = first > a->first ? first : a->first;
    size_t to = first + (*w)->rows < end ? first + (*w)->rows : end;
    *begin += (*w)->rows;
    if (from >= to)
      continue;
    *out = (struct part){*w, (uint32_t)(from - first), (uint32_t)(to - from),
                         (uint32_t)(from - a->first)};
    *w = (*w)->next;
    return true;
  }
  return false;
}

void lls_cuda_run_linear(struct lls_cuda_device *d, const struct lls_cuda_linear *a)
{
  const struct lls_weight *w = a->n_rows > 0 ? a->weight : NULL;
  struct part part;
  for (size_t begin = 0; d->status == 0 && next_part(a, &w, &begin, &part);)
    run_part(d, a, &part);
}

void lls_cuda_each_product(struct lls_cuda_device *d, const struct lls_cuda_linear *a,
                           void (*each)(struct lls_cuda_device *,
                                        const struct lls_cuda_product *, void *),
                           void *context)
{
  const struct lls_weight *w = a->n_rows > 0 ? a->weight : NULL;
  struct part part;
  for (size_t begin = 0; next_part(a, &w, &begin, &part);) {
    if (part.w->codes.form != LLS_NO_CODES || is_one(d, a, part.w))
      continue;
    struct lls_cuda_product p = product_of(d, a, &part);
    p.w = numbers_of(d, &part);
    each(d, &p, context);
  }
}
