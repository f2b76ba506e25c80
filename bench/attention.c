/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention in the shape of a 1.1B Llama (32 heads, 4 KV heads of 64 dims) against a
 * lower bound of its time, the larger of two: reading K and V once at the machine's read
 * bandwidth, and the multiplications at its matrix rate (of f32, or for a bf16 cache the
 * faster of f32 and bf16). K and V are cold: calls go through the layers of a pool many
 * times as large as the CPU's caches, with its blocks in random order.
 *
 *   bench/attention [-t threads] [bf16|f32]
 *
 * The last argument is the element type of K and V.
 *
 * Every round measures the limits and then the operation, so that other work on the
 * machine slows down both. A ratio is of one round; the median and the best round are
 * printed.
 */
#include "bench/bench.h"
#include "bench/limits.h"

#include "core/device/device.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS       9
#define HEADS        32
#define KV_HEADS     4
#define HEAD_DIM     64
#define BLOCK_TOKENS 16
#define COLUMNS      ((HEADS + 2 * KV_HEADS) * HEAD_DIM)
#define COLD         ((size_t)192 << 20) /* least bytes that calls cycle through */
#define MAX_ROWS     2048

struct bench {
  struct lls_device *device;
  struct limits limits;
  enum lls_dtype element;
  float *qkv, *out;
};

/* One batch: n_sequences sequences, each with `context` cached tokens and n_rows in the
 * step. */
struct load {
  const char *name;
  uint32_t n_sequences, context, n_rows;
};

static const struct load loads[] = {
    {"decode 16 x 512", 16, 511, 1}, {"decode 16 x 4096", 16, 4095, 1},
    {"decode 1 x 4096", 1, 4095, 1}, {"prefill 512", 1, 0, 512},
    {"prefill 2048", 1, 0, 2048},
};

static const struct lls_attention_shape attention = {
    .heads = HEADS, .kv_heads = KV_HEADS, .head_dim = HEAD_DIM, .scale = 0.125f};

struct batch {
  struct lls_pool_shape shape;
  struct lls_pool *pool;
  struct lls_block_entry *entries; /* (n_sequences, blocks) */
  struct lls_step_sequence sequences[16];
  uint32_t row_sequence[MAX_ROWS];
  struct lls_device_step step;
  double bytes, operations; /* that one call reads, and carries out */
};

static void fail(const char *what)
{
  fprintf(stderr, "bench/attention: %s\n", what);
  exit(1);
}

static void shuffle(uint32_t *x, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    uint32_t j = (uint32_t)rand() % (i + 1);
    x[i] = x[j];
    x[j] = i;
  }
}

static void make_tables(struct batch *b, const struct load *load, uint32_t blocks)
{
  uint32_t units = lls_form_units(&b->shape, LLS_FORM_KV);
  uint32_t n = b->shape.device_units / units, *order = malloc(n * sizeof *order);
  b->entries = calloc(n, sizeof *b->entries);
  if (order == NULL || b->entries == NULL)
    fail("no memory for block tables");
  shuffle(order, n);
  for (uint32_t i = 0; i < n; i++)
    b->entries[i] = (struct lls_block_entry){.block = order[i] * units,
                                             .first_token = i % blocks * BLOCK_TOKENS,
                                             .count = BLOCK_TOKENS};
  free(order);
  for (uint32_t i = 0; i < load->n_sequences; i++) {
    b->sequences[i] = (struct lls_step_sequence){
        .kv = {.entries = b->entries + (size_t)i * blocks, .n = blocks},
        .first_row = i * load->n_rows,
        .n_rows = load->n_rows,
        .context = load->context};
    for (uint32_t row = 0; row < load->n_rows; row++)
      b->row_sequence[i * load->n_rows + row] = i;
  }
}

static void create_batch(struct bench *bench, const struct load *load, struct batch *b)
{
  double n = load->n_rows, context = load->context, sequences = load->n_sequences;
  uint32_t blocks = (load->context + load->n_rows) / BLOCK_TOKENS;
  b->shape = (struct lls_pool_shape){.layers = 1,
                                     .kv_heads = KV_HEADS,
                                     .head_dim = HEAD_DIM,
                                     .block_tokens = BLOCK_TOKENS,
                                     .element = bench->element,
                                     .device_units = 2 * blocks * load->n_sequences};
  size_t layer_bytes = lls_unit_bytes(&b->shape) * b->shape.device_units;
  b->shape.layers = (uint32_t)(limits_cold_bytes(COLD) / layer_bytes) + 1;
  if (bench->device->ops->pool_create(bench->device, &b->shape, &b->pool, NULL) != 0)
    fail("no memory for a pool");
  make_tables(b, load, blocks);
  b->step = (struct lls_device_step){.n_rows = load->n_sequences * load->n_rows,
                                     .n_sequences = load->n_sequences,
                                     .sequence = b->row_sequence,
                                     .sequences = b->sequences};
  b->bytes = (double)layer_bytes;
  b->operations = 4.0 * HEADS * HEAD_DIM * sequences * (n * context + n * (n + 1) / 2);
}

/* Writes K and V for every token of every layer. */
static void fill_batch(struct bench *bench, struct batch *b, const struct load *load)
{
  const struct lls_device_ops *ops = bench->device->ops;
  uint32_t tokens = load->context + load->n_rows, rows;
  for (uint32_t i = 0; i < load->n_sequences; i++) {
    for (uint32_t token = 0; token < tokens; token += rows) {
      rows = tokens - token < MAX_ROWS ? tokens - token : MAX_ROWS;
      uint32_t zeros[MAX_ROWS] = {0};
      struct lls_step_sequence part = {
          .kv = b->sequences[i].kv, .n_rows = rows, .context = token};
      struct lls_device_step step = {
          .n_rows = rows, .n_sequences = 1, .sequence = zeros, .sequences = &part};
      ops->step_begin(bench->device, b->pool, &step);
      for (uint32_t layer = 0; layer < b->shape.layers; layer++)
        ops->cache_write(bench->device, &attention, layer, bench->qkv);
      if (ops->step_end(bench->device, NULL) != 0)
        fail("the cache could not be written");
    }
  }
}

static void destroy_batch(struct bench *bench, struct batch *b)
{
  bench->device->ops->pool_destroy(bench->device, b->pool);
  free(b->entries);
}

/* Seconds of one call: the mean of as many calls as take 50 ms. */
static double measure(struct bench *bench, struct batch *b)
{
  const struct lls_device_ops *ops = bench->device->ops;
  uint32_t calls = 0;
  ops->step_begin(bench->device, b->pool, &b->step);
  double start = bench_seconds(), now;
  do {
    ops->attention(bench->device, &attention, calls++ % b->shape.layers, bench->qkv,
                   bench->out);
    now = bench_seconds();
  } while (now - start < 0.05 || calls < 3);
  if (ops->step_end(bench->device, NULL) != 0)
    fail("attention failed");
  return (now - start) / calls;
}

static enum limits_type type_of(const struct bench *b)
{
  return b->element == LLS_BF16 ? LIMITS_BF16 : LIMITS_F32;
}

static void bench_load(struct bench *bench, const struct load *load)
{
  double seconds[ROUNDS], of_read[ROUNDS], of_matrix[ROUNDS], ratio[ROUNDS];
  struct batch b;
  create_batch(bench, load, &b);
  fill_batch(bench, &b, load);
  for (int i = 0; i < ROUNDS; i++) {
    const struct limits_rates limits = limits_sample(&bench->limits);
    seconds[i] = measure(bench, &b);
    of_read[i] = b.bytes / seconds[i] / limits.read;
    of_matrix[i] = b.operations / seconds[i] / limits_matrix(&limits, type_of(bench));
    ratio[i] = fmax(of_read[i], of_matrix[i]);
  }
  double time = bench_median(seconds, ROUNDS), typical = bench_median(ratio, ROUNDS);
  printf("%-16s  %8.3f ms  %5.1f GB/s, %3.0f%% of read  %6.1f GFLOP/s, %3.0f%% of matrix"
         "  floor %3.0f%% (best %3.0f%%)\n",
         load->name, time * 1e3, b.bytes / time * 1e-9,
         100 * bench_median(of_read, ROUNDS), b.operations / time * 1e-9,
         100 * bench_median(of_matrix, ROUNDS), 100 * typical, 100 * ratio[ROUNDS - 1]);
  fflush(stdout);
  destroy_batch(bench, &b);
}

static int run(struct bench *b, uint32_t threads)
{
  const struct lls_device_options options = {.threads = threads,
                                             .pin = true,
                                             .max_rows = MAX_ROWS,
                                             .max_columns = COLUMNS,
                                             .max_sequences = 16};
  struct lls_error err;
  void *qkv = NULL, *out = NULL;
  if (lls_cpu_device_create(&options, &b->device, &err) != 0)
    fail(err.text);
  const struct lls_device_ops *ops = b->device->ops;
  const struct lls_cpu_device *cpu = lls_cpu(b->device);
  if (limits_create(cpu->threads, &b->limits) != 0 ||
      ops->alloc(b->device, LLS_MEMORY_DEVICE, MAX_ROWS * COLUMNS * 4, &qkv) != 0 ||
      ops->alloc(b->device, LLS_MEMORY_DEVICE, MAX_ROWS * COLUMNS * 4, &out) != 0)
    fail("no memory");
  b->qkv = qkv;
  b->out = out;
  for (size_t i = 0; i < (size_t)MAX_ROWS * COLUMNS; i++)
    b->qkv[i] = (float)(rand() % 1000) * 0.002f - 1;
  char text[256];
  ops->describe(b->device, text, sizeof text);
  printf("%s; %d heads, %d KV heads, %d dims, cache %s, cold\n", text, HEADS, KV_HEADS,
         HEAD_DIM, b->element == LLS_BF16 ? "bf16" : "f32");
  const struct limits_rates sample = limits_sample(&b->limits);
  printf("read %.1f GB/s, product (oneDNN) %.0f GFLOP/s\n", sample.read * 1e-9,
         limits_matrix(&sample, type_of(b)) * 1e-9);
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
    bench_load(b, &loads[i]);
  limits_destroy(&b->limits);
  ops->release(b->device, LLS_MEMORY_DEVICE, qkv);
  ops->release(b->device, LLS_MEMORY_DEVICE, out);
  ops->destroy(b->device);
  return 0;
}

int main(int argc, char **argv)
{
  struct bench b = {.element = LLS_BF16};
  uint32_t threads = 0;
  for (int option; (option = getopt(argc, argv, "t:")) != -1;) {
    if (option == 't')
      threads = (uint32_t)strtoul(optarg, NULL, 10);
    else
      return 2;
  }
  if (optind < argc && strcmp(argv[optind], "f32") == 0)
    b.element = LLS_F32;
  else if (optind < argc && strcmp(argv[optind], "bf16") != 0)
    fail("the cache is of bf16 or f32");
  return run(&b, threads);
}
