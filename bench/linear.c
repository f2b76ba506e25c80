/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linear layers of a 1.1B Llama against a lower bound of their time, the larger of
 * two: reading the weights once at the machine's read bandwidth, and multiplying at the
 * rate of oneDNN's large products. Weights are cold: calls cycle through copies which
 * together exceed the caches.
 *
 *   bench/linear [-t threads] [bf16|f32|f16|int8|int4] [rows ...]
 *
 * The output also has oneDNN's rate in the same product, with cold weights in its own
 * layout and x already rounded, each thread computing a part of the outputs.
 *
 * A round takes the median of the limits, then the median of a layer's calls, and their
 * ratio. Printed are the median ratio of the rounds, and the best call over the best
 * limit of the run.
 */
#include "bench/limits.h"

#include "core/device/device.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS   7
#define MAX_ROWS 2048
/* Least bytes of weights that calls cycle through. */
#define COLD       ((size_t)192 << 20)
#define MAX_COPIES 160
#define MAX_CALLS  1000

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
  enum limits_type type; /* the product type of its limit */
};

static const struct format formats[] = {
    {"bf16", LLS_BF16, LLS_WEIGHTS_AUTO, LIMITS_BF16},
    {"f32", LLS_F32, LLS_WEIGHTS_AUTO, LIMITS_F32},
    {"f16", LLS_F16, LLS_WEIGHTS_AUTO, LIMITS_F32},
    {"int8", LLS_BF16, LLS_WEIGHTS_INT8, LIMITS_INT8},
    {"int4", LLS_BF16, LLS_WEIGHTS_INT4, LIMITS_INT8},
};

struct bench {
  struct lls_device *device;
  struct limits limits;
  float *x, *y;
  enum limits_type type;
};

struct copies {
  struct lls_weight *weight[MAX_COPIES];
  size_t n, next, bytes;
};

static int fail(const struct lls_error *err)
{
  fprintf(stderr, "bench/linear: %s\n", err->text);
  return 1;
}

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
  size_t cold = limits_cold_bytes(COLD);
  *c = (struct copies){0};
  do {
    struct lls_error err;
    view.seed = c->n;
    if (ops->weight_create(b->device, &view, NULL, 1, format->format, &c->weight[c->n],
                           &err) != 0) {
      exit(fail(&err));
    }
    c->bytes = ops->weight_bytes(c->weight[c->n++]);
  } while (c->n < MAX_COPIES && c->n * c->bytes < cold);
}

static void destroy_copies(struct bench *b, struct copies *c)
{
  for (size_t i = 0; i < c->n; i++)
    b->device->ops->weight_destroy(b->device, c->weight[i]);
}

struct times {
  double median, best; /* seconds of one call */
};

/* Measures as many calls as fit into 50 ms, each with the next copy of the weights. */
static struct times measure(struct bench *b, struct copies *c, uint32_t n_rows)
{
  double seconds[MAX_CALLS], start = bench_seconds(), before = start, now;
  size_t calls = 0;
  while (calls < MAX_CALLS && (calls < 3 || before - start < 0.05)) {
    b->device->ops->linear(b->device, c->weight[c->next++ % c->n], b->x, n_rows,
                           LLS_STORE_SET, b->y);
    now = bench_seconds();
    seconds[calls++] = now - before;
    before = now;
  }
  double median = bench_median(seconds, calls); /* bench_median sorts */
  return (struct times){median, seconds[0]};
}

/* Returns the least seconds which the limits allow. */
static double floor_of(const struct limits_rates *r, enum limits_type type, double bytes,
                       double operations)
{
  double reading = bytes / r->read, multiplying = operations / limits_matrix(r, type);
  return reading > multiplying ? reading : multiplying;
}

/* Creates oneDNN's version of the product, with the outputs divided among our threads.
 */
static void create_theirs(struct bench *b, const struct layer *layer, uint32_t n_rows,
                          size_t copies, struct limits_products *p)
{
  unsigned threads = lls_cpu_threads_count(b->limits.threads);
  const struct limits_shape shape = {n_rows, layer->outputs / threads, layer->inputs};
  *p = (struct limits_products){0};
  if (limits_products_create(&b->limits, b->type, shape, copies, p) != 0)
    exit(fail(&(struct lls_error){.text = "no memory for oneDNN's product"}));
}

static void bench_rows(struct bench *b, const struct layer *layer, struct copies *c,
                       uint32_t n_rows)
{
  double ratio[ROUNDS], seconds[ROUNDS], rates[ROUNDS], of_theirs[ROUNDS], best = 1e9;
  struct limits_products theirs;
  create_theirs(b, layer, n_rows, c->n, &theirs);
  double bytes = (double)c->bytes;
  double operations = 2.0 * n_rows * layer->outputs * layer->inputs;
  for (int i = 0; i < ROUNDS; i++) {
    const struct limits_rates limits = limits_sample(&b->limits);
    struct times t = measure(b, c, n_rows);
    seconds[i] = t.median;
    best = t.best < best ? t.best : best;
    ratio[i] = floor_of(&limits, b->type, bytes, operations) / t.median;
    rates[i] = limits_products_rate(&b->limits, &theirs);
    of_theirs[i] = operations / t.median / rates[i];
  }
  limits_products_destroy(&b->limits, &theirs);
  const struct limits_rates *limit = &b->limits.best;
  double least = floor_of(limit, b->type, bytes, operations);
  double time = bench_median(seconds, ROUNDS);
  printf("%-18s M %4u  %8.3f ms  %6.1f GB/s  %7.1f GFLOP/s  %3.0f%% of oneDNN's %7.1f"
         "  %3.0f%% (best %3.0f%%) of %s\n",
         layer->name, n_rows, time * 1e3, bytes / time * 1e-9, operations / time * 1e-9,
         bench_median(of_theirs, ROUNDS) * 100, bench_median(rates, ROUNDS) * 1e-9,
         bench_median(ratio, ROUNDS) * 100, least / best * 100,
         least > bytes / limit->read ? "matrix peak" : "read bandwidth");
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
  fprintf(stderr, "bench/linear: format \"%s\": use bf16, f32, f16, int8 or int4\n",
          name);
  exit(2);
}

static int run(uint32_t threads, const struct format *format, const uint32_t *rows,
               size_t n_rows)
{
  const struct lls_device_options options = {.threads = threads,
                                             .pin = true,
                                             .max_rows = MAX_ROWS,
                                             .max_columns = 32000,
                                             .max_sequences = 1};
  struct bench b;
  struct lls_error err = {"out of memory"};
  void *x, *y;
  if (lls_cpu_device_create(&options, &b.device, &err) != 0)
    return fail(&err);
  struct lls_cpu_device *cpu = lls_cpu(b.device);
  if (limits_create(cpu->threads, &b.limits) != 0 ||
      lls_cpu_memory_alloc((size_t)MAX_ROWS * 5632 * sizeof(float), &x) != 0 ||
      lls_cpu_memory_alloc((size_t)MAX_ROWS * 32000 * sizeof(float), &y) != 0)
    return fail(&err);
  b.type = format->type;
  b.x = x;
  b.y = y;
  for (size_t i = 0; i < (size_t)MAX_ROWS * 5632; i++)
    b.x[i] = (float)(i % 101) * 0.01f - 0.5f;
  char text[256];
  b.device->ops->describe(b.device, text, sizeof text);
  printf("%s; weights %s, cold\n", text, format->name);
  bench_format(&b, format, rows, n_rows);
  printf("best limits: read %.1f GB/s, product (oneDNN) %.0f GFLOP/s\n",
         b.limits.best.read * 1e-9, limits_matrix(&b.limits.best, b.type) * 1e-9);
  return 0;
}

int main(int argc, char **argv)
{
  uint32_t rows[16] = {1, 4, 16, 32, 64, 512, 2048}, threads = 0;
  size_t n_rows = 7;
  for (int option; (option = getopt(argc, argv, "t:")) != -1;) {
    if (option == 't')
      threads = (uint32_t)strtoul(optarg, NULL, 10);
    else
      return 2;
  }
  const struct format *format = find_format(optind < argc ? argv[optind++] : "bf16");
  if (optind < argc)
    n_rows = 0;
  while (optind < argc && n_rows < 16)
    rows[n_rows++] = (uint32_t)strtoul(argv[optind++], NULL, 10);
  return run(threads, format, rows, n_rows);
}
