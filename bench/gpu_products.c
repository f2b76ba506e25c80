/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with weights of 4 to 8 bits, 8192 x 8192. With few rows a result is the share
 * of the copy bandwidth at which the codes are read; with many rows the share of the
 * matrix peak, part of whose time is spent on converting weights to bf16. Sizes between
 * have no mark: they show up to how many rows the kernel for few rows should be used
 * (LLS_CUDA_FEW), which was chosen without a GPU.
 */
#include "bench/gpu.h"

#include "core/device/quantised.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define N       8192
#define WEIGHTS 4   /* used in turn; together they exceed any GPU's cache */
#define CALLS   128 /* a call takes some 10 us, as do begin and end of a round */

/* Makes a weight: zeros of a type of model files, or quantised random numbers. */
static struct lls_weight *make_weight(struct lls_device *d, enum lls_dtype type,
                                      enum lls_weight_format format, uint32_t outputs,
                                      uint32_t inputs)
{
  struct lls_tensor_view view = {
      .dtype = type, .rows = outputs, .columns = inputs, .row_stride = inputs, .seed = 1};
  struct lls_weight *w;
  struct lls_error err = {""};
  void *zeros = NULL;
  if (lls_dtype_is_quantised(type)) {
    view.data = zeros = calloc(outputs, lls_dtype_row_bytes(type, inputs));
    if (zeros == NULL)
      gpu_die("a weight", NULL, -ENOMEM);
  }
  int rc = d->ops->weight_create(d, &view, NULL, 1, format, &w, &err);
  if (rc < 0)
    gpu_die("a weight", &err, rc);
  free(zeros);
  return w;
}

static void product(struct gpu_bench *b, struct gpu_call *c, const char *type,
                    uint32_t rows)
{
  char name[64];
  bool few = rows <= 64;
  snprintf(name, sizeof name, "%s weights, %u rows", type, rows);
  if (gpu_leave_out(b, name, 0, 0))
    return;
  c->n_rows = rows;
  c->calls = few ? CALLS : 8;
  double seconds = gpu_time(c), bytes = (double)c->device->ops->weight_bytes(*c->weights);
  double mark = rows <= 16 ? 0.80 : rows >= 8192 ? 0.60 : 0;
  gpu_result(b, name, few ? "of copy bandwidth" : "of the matrix peak",
             few ? bytes / seconds / b->limits.copy
                 : 2.0 * N * N * rows / seconds / b->limits.matrix,
             mark, false);
}

/* Opens a second device which times no algorithms but takes the first of cuBLASLt's
 * heuristic. It uses the first device's weights, since both are on one GPU. */
static struct lls_device *open_first(void)
{
  const char *before = getenv("LLS_CUDA_ALGORITHMS");
  char *kept = before != NULL ? strdup(before) : NULL;
  setenv("LLS_CUDA_ALGORITHMS", "first", 1);
  struct lls_device *first = gpu_open(N, N, 1);
  if (kept != NULL)
    setenv("LLS_CUDA_ALGORITHMS", kept, 1);
  else
    unsetenv("LLS_CUDA_ALGORITHMS");
  free(kept);
  return first;
}

/* Measures a product of a layer of Llama-3-8B. Such products are most of a decode step.
 */
static void layer_product(struct gpu_bench *b, struct lls_device *d,
                          struct lls_device *first, uint32_t outputs, uint32_t inputs)
{
  struct lls_weight *weights[WEIGHTS] = {NULL};
  static const struct lls_device_step nothing;
  static const uint32_t rows[] = {1, 16, 64, 256};
  struct gpu_call c = {.device = d,
                       .step = &nothing,
                       .run = gpu_run_linear,
                       .calls = CALLS,
                       .layers = WEIGHTS,
                       .weights = weights};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char name[64];
    snprintf(name, sizeof name, "bf16 %u x %u, %u rows", outputs, inputs, rows[i]);
    if (gpu_leave_out(b, name, (size_t)outputs * inputs * 2 * WEIGHTS, gpu_available(d)))
      continue;
    for (size_t k = 0; k < WEIGHTS && weights[k] == NULL; k++)
      weights[k] = make_weight(d, LLS_BF16, LLS_WEIGHTS_BF16, outputs, inputs);
    c.n_rows = rows[i];
    c.x = gpu_random_rows(d, rows[i], inputs);
    c.y = gpu_random_rows(d, rows[i], outputs);
    double seconds = gpu_time(&c), bytes = (double)d->ops->weight_bytes(weights[0]);
    gpu_result(b, name, "of copy bandwidth", bytes / seconds / b->limits.copy,
               rows[i] <= 16 ? 0.80 : 0, false);
    c.device = first;
    seconds = gpu_time(&c);
    gpu_result(b, name, "by the heuristic's first", bytes / seconds / b->limits.copy, 0,
               false);
    c.device = d;
    d->ops->release(d, LLS_MEMORY_DEVICE, c.x);
    d->ops->release(d, LLS_MEMORY_DEVICE, c.y);
  }
  for (size_t k = 0; k < WEIGHTS && weights[k] != NULL; k++)
    d->ops->weight_destroy(d, weights[k]);
}

void gpu_products(struct gpu_bench *b, struct lls_device *d)
{
  static const uint32_t layer[][2] = {
      {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
  struct lls_device *first = open_first();
  for (size_t i = 0; i < sizeof layer / sizeof *layer; i++)
    layer_product(b, d, first, layer[i][0], layer[i][1]);
  first->ops->destroy(first);
  static const struct {
    const char *name;
    enum lls_dtype type;
    enum lls_weight_format format;
  } types[] = {
      {"bf16", LLS_BF16, LLS_WEIGHTS_BF16}, {"int4", LLS_BF16, LLS_WEIGHTS_INT4},
      {"int8", LLS_BF16, LLS_WEIGHTS_INT8}, {"Q4_K", LLS_Q4_K, LLS_WEIGHTS_AUTO},
      {"Q6_K", LLS_Q6_K, LLS_WEIGHTS_AUTO}, {"MXFP4", LLS_MXFP4, LLS_WEIGHTS_AUTO}};
  static const uint32_t rows[] = {1, 16, 32, 64, 128, 512, 8192};
  static const struct lls_device_step nothing;
  struct lls_weight *weights[WEIGHTS];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    bool one = b->only != NULL;
    if (one ? strncmp(b->only, types[i].name, strlen(types[i].name)) != 0
            : gpu_leave_out(b, types[i].name, (size_t)2 << 30, gpu_available(d)))
      continue;
    for (size_t k = 0; k < WEIGHTS; k++)
      weights[k] = make_weight(d, types[i].type, types[i].format, N, N);
    struct gpu_call c = {.device = d,
                         .step = &nothing,
                         .run = gpu_run_linear,
                         .layers = WEIGHTS,
                         .weights = weights,
                         .x = gpu_random_rows(d, N, N),
                         .y = gpu_random_rows(d, N, N)};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
      product(b, &c, types[i].name, rows[k]);
    for (size_t k = 0; k < WEIGHTS; k++)
      d->ops->weight_destroy(d, weights[k]);
    d->ops->release(d, LLS_MEMORY_DEVICE, c.x);
    d->ops->release(d, LLS_MEMORY_DEVICE, c.y);
  }
}
