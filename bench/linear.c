/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linear layers of the 1.1B Llama shape against their floor: the larger of reading
 * the weights once at the machine's read bandwidth and of multiplying at its f32 rate.
 * Weights are cold: each call takes the next of enough copies to exceed the caches.
 *
 *   bench/linear [bf16|f32|f16|int8] [rows ...]
 *
 * Every round measures the limits and then all layers; a ratio is of one round, and the
 * median (and best) over the rounds is printed, so that a busy machine disturbs both
 * sides of it.
 */
#include "bench/bench.h"
#include "bench/limits.h"

#include "core/engine/device.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS     7
#define MAX_ROWS   2048
#define COLD       ((size_t)192 << 20) /* bytes of weights that calls cycle through */
#define MAX_COPIES 64

struct layer {
  const char *name;
  uint32_t outputs, inputs;
};

static const struct layer layers[] = {
    {"o    2048 x 2048", 2048, 2048},   {"qkv  2560 x 2048", 2560, 2048},
    {"up  11264 x 2048", 11264, 2048},  {"down 2048 x 5632", 2048, 5632},
    {"head 32000 x 2048", 32000, 2048},
};
#define N_LAYERS (sizeof layers / sizeof *layers)

struct format {
  const char *name;
  enum lls_dtype dtype;
  enum lls_weight_format format;
};

static const struct format formats[] = {
    {"bf16", LLS_BF16, LLS_WEIGHTS_AUTO},
    {"f32", LLS_F32, LLS_WEIGHTS_AUTO},
    {"f16", LLS_F16, LLS_WEIGHTS_AUTO},
    {"int8", LLS_BF16, LLS_WEIGHTS_INT8},
};

struct bench {
  struct lls_device *device;
  struct limits limits;
  float *x, *y;
  double read, f32; /* of this round */
};

struct copies {
  struct lls_weight *weight[MAX_COPIES];
  size_t n, next, bytes;
};

static void create_copies(struct bench *b, const struct layer *layer,
                          const struct format *format, struct copies *c)
{
  const struct lls_device_ops *ops = b->device->ops;
  struct lls_tensor_view view = {
      .dtype = format->dtype,
      .rows = layer->outputs,
      .columns = layer->inputs,
      .row_stride = layer->inputs,
  };
  *c = (struct copies){0};
  do {
    struct lls_error err;
    view.seed = c->n;
    if (ops->weight_create(b->device, &view, NULL, 1, format->format, &c->weight[c->n],
                           &err) != 0) {
      fprintf(stderr, "bench/linear: %s\n", err.text);
      exit(1);
    }
    c->bytes = ops->weight_bytes(c->weight[c->n++]);
  } while (c->n < MAX_COPIES && c->n * c->bytes < COLD);
}

static void destroy_copies(struct bench *b, struct copies *c)
{
  for (size_t i = 0; i < c->n; i++)
    b->device->ops->weight_destroy(b->device, c->weight[i]);
}

/* Seconds of one call: enough calls for 20 ms, each with the next copy. */
static double measure(struct bench *b, struct copies *c, uint32_t n_rows)
{
  unsigned calls = 0;
  double start = bench_seconds(), now;
  do {
    b->device->ops->linear(b->device, c->weight[c->next++ % c->n], b->x, n_rows,
                           LLS_STORE_SET, b->y);
    calls++;
    now = bench_seconds();
  } while (now - start < 0.02 || calls < 3);
  return (now - start) / calls;
}

static void bench_rows(struct bench *b, const struct layer *layer, struct copies *c,
                       uint32_t n_rows)
{
  double ratio[ROUNDS], seconds[ROUNDS];
  double operations = 2.0 * n_rows * layer->outputs * layer->inputs;
  bool memory_bound = false;
  for (int i = 0; i < ROUNDS; i++) {
    double read = limits_read(&b->limits, true, 3072), f32 = limits_f32(&b->limits);
    double floor_read = (double)c->bytes / read, floor_f32 = operations / f32;
    memory_bound = floor_read > floor_f32;
    seconds[i] = measure(b, c, n_rows);
    ratio[i] = (memory_bound ? floor_read : floor_f32) / seconds[i];
  }
  double typical = bench_median(ratio, ROUNDS), time = bench_median(seconds, ROUNDS);
  printf(
      "%-18s M %4u  %8.3f ms  %6.1f GB/s  %7.1f GFLOP/s  %3.0f%% (best %3.0f%%) of %s\n",
      layer->name, n_rows, time * 1e3, (double)c->bytes / time * 1e-9,
      operations / time * 1e-9, typical * 100, ratio[ROUNDS - 1] * 100,
      memory_bound ? "read bandwidth" : "f32 peak");
  fflush(stdout);
}

static void bench_format(struct bench *b, const struct format *format,
                         const uint32_t *rows, size_t n_rows)
{
  for (size_t i = 0; i < N_LAYERS; i++) {
    struct copies c;
    create_copies(b, &layers[i], format, &c);
    for (size_t r = 0; r < n_rows; r++)
      bench_rows(b, &layers[i], &c, rows[r]);
    destroy_copies(b, &c);
  }
}

static const struct format *find_format(const char *name)
{
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (strcmp(formats[i].name, name) == 0)
      return &formats[i];
  }
  fprintf(stderr, "bench/linear: format \"%s\": use bf16, f32, f16 or int8\n", name);
  exit(2);
}

int main(int argc, char **argv)
{
  uint32_t rows[16] = {1, 4, 16, 32, 64, 512, 2048};
  size_t n_rows = 7;
  const struct format *format = find_format(argc > 1 ? argv[1] : "bf16");
  for (int i = 2; i < argc && i < 18; i++)
    rows[(n_rows = (size_t)i - 1) - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
  struct bench b;
  struct lls_error err;
  const struct lls_device_options options = {
      .pin = true, .max_rows = MAX_ROWS, .max_columns = 32000, .max_sequences = 1};
  if (lls_cpu_device_create(&options, &b.device, &err) != 0 ||
      limits_create(lls_cpu(b.device)->threads, &b.limits) != 0)
    return 1;
  const struct lls_device_ops *ops = b.device->ops;
  void *x, *y;
  if (ops->alloc(b.device, LLS_MEMORY_DEVICE, (size_t)MAX_ROWS * 5632 * 4, &x) != 0 ||
      ops->alloc(b.device, LLS_MEMORY_DEVICE, (size_t)MAX_ROWS * 32000 * 4, &y) != 0)
    return 1;
  b.x = x;
  b.y = y;
  for (size_t i = 0; i < (size_t)MAX_ROWS * 5632; i++)
    b.x[i] = (float)(i % 101) * 0.01f - 0.5f;
  char text[256];
  ops->describe(b.device, text, sizeof text);
  printf("%s; weights %s, cold\n", text, format->name);
  printf("read %.1f GB/s, f32 product (oneDNN) %.0f GFLOP/s\n",
         limits_read(&b.limits, true, 3072) * 1e-9, limits_f32(&b.limits) * 1e-9);
  bench_format(&b, format, rows, n_rows);
  return 0;
}
