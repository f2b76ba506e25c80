/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates at which one token's bytes are read, beside the machine's read bandwidth, where a
 * token needs a part of the weights, or a cache of latents.
 *
 *   bench/token_bytes [-t threads] [-i isa]
 *
 * Mixtures: both products of the experts that a token has chosen, in the shape of
 * Qwen3-30B-A3B, in bf16, Q8_0 and Q4_0. Needed are those experts' packed weights. Each
 * call takes other experts of other layers, so that they come from memory.
 *
 * Latent attention (MLA), one stream behind 512 and 4,096 tokens: latent_rows and
 * latent_values, whose bytes are the heads' matrices, and attention to the latents. Heads
 * share a latent, so that a byte of it takes `heads` times the operations of a cache with
 * a head of its own: its floor is the larger of two times, reading the latents and all
 * multiplications at the matrix rate of oneDNN (the faster of f32 and bf16).
 *
 * Each round measures the limits and then the operation, in turns, so that other work on
 * the machine slows down both. Medians of ratios of one round are printed.
 */
#include "bench/bench.h"
#include "bench/limits.h"

#include "core/device/device.h"
#include "core/device/extras.h"
#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS       9
#define CALL_SECONDS 0.04
#define COLUMNS      (129 * 576)
#define COLD         ((size_t)192 << 20) /* least bytes that calls cycle through */
#define BLOCK_TOKENS 16
#define MAX_TOKENS   4096

struct bench {
  struct lls_device *device;
  struct limits limits;
  float *x, *y, *z; /* (COLUMNS) each */
  uint8_t *numbers; /* what weights are packed from */
};

static void fail(const char *what)
{
  fprintf(stderr, "bench/token_bytes: %s\n", what);
  exit(1);
}

/* ---- an operation beside the limits ------------------------------------------------ */

typedef void (*operation)(struct bench *, void *arg, size_t call);

static double seconds_of(struct bench *b, operation run, void *arg, size_t *call)
{
  double start = bench_seconds(), now;
  size_t calls = 0;
  do {
    run(b, arg, (*call)++);
    calls++;
    now = bench_seconds();
  } while (now - start < CALL_SECONDS || calls < 3);
  return (now - start) / (double)calls;
}

/* bytes, operations: of one call. */
static void measure(struct bench *b, const char *name, operation run, void *arg,
                    double bytes, double operations)
{
  double seconds[ROUNDS], of_read[ROUNDS], of_matrix[ROUNDS], of_floor[ROUNDS];
  size_t call = 0;
  seconds_of(b, run, arg, &call);
  for (int i = 0; i < ROUNDS; i++) {
    const struct limits_rates limits = limits_sample(&b->limits);
    seconds[i] = seconds_of(b, run, arg, &call);
    of_read[i] = bytes / seconds[i] / limits.read;
    of_matrix[i] = operations / seconds[i] / limits_matrix(&limits, LIMITS_BF16);
    of_floor[i] = fmax(of_read[i], of_matrix[i]);
  }
  double time = bench_median(seconds, ROUNDS), floor = bench_median(of_floor, ROUNDS);
  printf("%-34s %8.3f ms  %6.1f GB/s, %3.0f%% of read  %7.1f GFLOP/s, %3.0f%% of matrix  "
         "floor %3.0f%% (best %3.0f%%)\n",
         name, time * 1e3, bytes / time * 1e-9, 100 * bench_median(of_read, ROUNDS),
         operations / time * 1e-9, 100 * bench_median(of_matrix, ROUNDS), 100 * floor,
         100 * of_floor[ROUNDS - 1]);
  fflush(stdout);
}

/* ---- weights ----------------------------------------------------------------------- */

/* Random bf16 numbers from -1 to 1, or blocks of codes with the scale 2^-6. */
static void fill_numbers(struct bench *b, enum lls_dtype type, size_t n)
{
  size_t bytes = lls_dtype_row_bytes(type, n);
  for (size_t i = 0; i < bytes; i++)
    b->numbers[i] = (uint8_t)rand();
  if (type == LLS_BF16)
    for (size_t i = 0; i < n; i++) {
      uint16_t number = lls_f32_to_bf16((float)(rand() % 200) * 0.01f - 1);
      memcpy(b->numbers + 2 * i, &number, sizeof number);
    }
  const uint16_t scale = lls_f32_to_f16(0x1p-6f);
  size_t block = lls_dtype_row_bytes(type, lls_dtype_block(type));
  for (size_t i = 0; type != LLS_BF16 && i < bytes; i += block)
    memcpy(b->numbers + i, &scale, sizeof scale);
}

/* Creates n experts, all with the same numbers. */
static struct lls_experts *create_experts(struct bench *b, enum lls_dtype type,
                                          uint32_t n, size_t rows, size_t columns,
                                          double *bytes_of_one)
{
  const struct lls_tensor_view view = {.data = b->numbers,
                                       .dtype = type,
                                       .rows = rows,
                                       .columns = columns,
                                       .row_stride = columns};
  struct lls_weight **weights = malloc(n * sizeof *weights);
  struct lls_experts *experts;
  const struct lls_device_ops *ops = b->device->ops;
  fill_numbers(b, type, rows * columns);
  for (uint32_t i = 0; weights != NULL && i < n; i++)
    if (ops->weight_create(b->device, &view, NULL, 1, LLS_WEIGHTS_AUTO, &weights[i],
                           NULL) != 0)
      fail("no memory for a weight");
  if (weights == NULL || ops->experts_create(b->device, weights, n, &experts, NULL) != 0)
    fail("no memory for experts");
  *bytes_of_one = (double)ops->weight_bytes(weights[0]);
  free(weights);
  return experts;
}

/* ---- mixtures ---------------------------------------------------------------------- */

#define EXPERTS 128
#define ACTIVE  8
#define HIDDEN  2048
#define INNER   768
#define LAYERS  2

struct mixture {
  struct lls_experts *up[LAYERS], *down[LAYERS];
  uint32_t row[ACTIVE], place[ACTIVE], expert[ACTIVE], first[EXPERTS + 1];
  float weight[ACTIVE];
};

/* Sixteen calls take all experts of a layer, those of one call apart from each other. */
static void route(struct mixture *m, size_t call)
{
  uint32_t from = (uint32_t)(call % (EXPERTS / ACTIVE)), n = 0;
  for (uint32_t e = 0; e < EXPERTS; e++) {
    m->first[e] = n;
    n += e % (EXPERTS / ACTIVE) == from;
  }
  m->first[EXPERTS] = n;
}

static void run_mixture(struct bench *b, void *arg, size_t call)
{
  struct mixture *m = arg;
  size_t layer = call / (EXPERTS / ACTIVE) % LAYERS;
  const struct lls_route r = {.experts = EXPERTS,
                              .active = ACTIVE,
                              .expert = m->expert,
                              .weight = m->weight,
                              .place = m->place,
                              .row = m->row,
                              .first = m->first};
  route(m, call);
  b->device->ops->linear_experts(b->device, m->up[layer], &r, b->x, 1, b->y);
  b->device->ops->linear_experts(b->device, m->down[layer], &r, b->y, 1, b->z);
}

static void bench_mixture(struct bench *b, enum lls_dtype type)
{
  static struct mixture m;
  double up, down;
  char name[64];
  for (size_t layer = 0; layer < LAYERS; layer++) {
    m.up[layer] = create_experts(b, type, EXPERTS, (size_t)2 * INNER, HIDDEN, &up);
    m.down[layer] = create_experts(b, type, EXPERTS, HIDDEN, INNER, &down);
  }
  snprintf(name, sizeof name, "8 of 128 experts, %s",
           type == LLS_BF16 ? "bf16" : lls_dtype_name(type));
  measure(b, name, run_mixture, &m, ACTIVE * (up + down),
          2.0 * ACTIVE * 3 * INNER * HIDDEN);
  for (size_t layer = 0; layer < LAYERS; layer++) {
    b->device->ops->experts_destroy(b->device, m.up[layer]);
    b->device->ops->experts_destroy(b->device, m.down[layer]);
  }
}

/* ---- latent attention -------------------------------------------------------------- */

#define RANK  512
#define ROPE  64
#define NOPE  128
#define VALUE 128
#define WIDTH (RANK + ROPE)

struct latent {
  const char *name;
  uint32_t heads, copies; /* layers' matrices, so that they come from memory */
  struct lls_latent_shape shape;
  struct lls_experts **keys, **values; /* (copies) */
  struct lls_attention_shape attention;
  struct lls_pool_shape pool_shape;
  struct lls_pool *pool;
  struct lls_block_entry entries[MAX_TOKENS / BLOCK_TOKENS];
  struct lls_step_sequence sequence;
  struct lls_device_step step;
  uint32_t row_sequence[MAX_TOKENS];
};

static void run_rows(struct bench *b, void *arg, size_t call)
{
  struct latent *l = arg;
  b->device->ops->latent_rows(b->device, &l->shape, l->keys[call % l->copies], b->x,
                              b->x + COLUMNS / 2, b->y);
}

static void run_values(struct bench *b, void *arg, size_t call)
{
  struct latent *l = arg;
  b->device->ops->latent_values(b->device, &l->shape, l->values[call % l->copies], b->x,
                                b->y);
}

static void run_attention(struct bench *b, void *arg, size_t call)
{
  struct latent *l = arg;
  b->device->ops->attention(b->device, &l->attention,
                            (uint32_t)(call % l->pool_shape.layers), b->x, b->y);
}

/* A pool of as many layers as come from memory, whose blocks are cleared: a token more
 * than the context is the row's own. */
static void create_pool(struct bench *b, struct latent *l, uint32_t tokens)
{
  uint32_t blocks = tokens / BLOCK_TOKENS;
  l->attention = (struct lls_attention_shape){.heads = l->heads,
                                              .kv_heads = 1,
                                              .head_dim = WIDTH,
                                              .latent = true,
                                              .scale = 1 / sqrtf(NOPE + ROPE)};
  l->pool_shape = (struct lls_pool_shape){.layers = 1,
                                          .kv_heads = 1,
                                          .head_dim = WIDTH,
                                          .block_tokens = BLOCK_TOKENS,
                                          .latent = true,
                                          .element = LLS_BF16};
  uint32_t units = lls_form_units(&l->pool_shape, LLS_FORM_KV);
  l->pool_shape.device_units = units * blocks;
  size_t layer_bytes = lls_unit_bytes(&l->pool_shape) * l->pool_shape.device_units;
  l->pool_shape.layers = (uint32_t)(limits_cold_bytes(COLD) / layer_bytes) + 1;
  if (b->device->ops->pool_create(b->device, &l->pool_shape, &l->pool, NULL) != 0)
    fail("no memory for a pool");
  for (uint32_t i = 0; i < blocks; i++)
    l->entries[i] = (struct lls_block_entry){
        .block = i * units, .first_token = i * BLOCK_TOKENS, .count = BLOCK_TOKENS};
  l->sequence =
      (struct lls_step_sequence){.kv = {.entries = l->entries, .n = blocks}, .n_rows = 1};
  l->step = (struct lls_device_step){.n_rows = 1,
                                     .n_sequences = 1,
                                     .sequence = l->row_sequence,
                                     .sequences = &l->sequence};
}

/* Writes every token of every layer: memory that was never written is one page. */
static void fill_pool(struct bench *b, struct latent *l, uint32_t tokens)
{
  for (uint32_t token = 0; token < tokens; token++) {
    l->sequence.context = token;
    b->device->ops->step_begin(b->device, l->pool, &l->step);
    for (uint32_t layer = 0; layer < l->pool_shape.layers; layer++)
      b->device->ops->cache_write(b->device, &l->attention, layer, b->x);
    if (b->device->ops->step_end(b->device, NULL) != 0)
      fail("the cache could not be written");
  }
}

static void bench_attention(struct bench *b, struct latent *l, uint32_t tokens)
{
  char name[64];
  create_pool(b, l, tokens);
  fill_pool(b, l, tokens);
  b->device->ops->step_begin(b->device, l->pool, &l->step);
  snprintf(name, sizeof name, "%s, attention to %u", l->name, (unsigned)tokens);
  measure(b, name, run_attention, l, 2.0 * WIDTH * tokens,
          2.0 * l->heads * (WIDTH + RANK) * tokens);
  if (tokens < MAX_TOKENS) { /* once: the rows' own products need a step, not a cache */
    double key = 0, value = 0;
    for (uint32_t i = 0; i < l->copies; i++) {
      l->keys[i] = create_experts(b, LLS_BF16, l->heads, RANK, NOPE, &key);
      l->values[i] = create_experts(b, LLS_BF16, l->heads, VALUE, RANK, &value);
    }
    snprintf(name, sizeof name, "%s, rows", l->name);
    measure(b, name, run_rows, l, l->heads * key, 2.0 * l->heads * RANK * NOPE);
    snprintf(name, sizeof name, "%s, values", l->name);
    measure(b, name, run_values, l, l->heads * value, 2.0 * l->heads * RANK * VALUE);
    for (uint32_t i = 0; i < l->copies; i++) {
      b->device->ops->experts_destroy(b->device, l->keys[i]);
      b->device->ops->experts_destroy(b->device, l->values[i]);
    }
  }
  b->device->ops->step_end(b->device, NULL);
  b->device->ops->pool_destroy(b->device, l->pool);
}

static void bench_latent(struct bench *b, const char *name, uint32_t heads)
{
  static struct latent l;
  static float norm[RANK];
  size_t bytes = (size_t)heads * RANK * NOPE * 2;
  l = (struct latent){.name = name, .heads = heads};
  l.copies = (uint32_t)(limits_cold_bytes(COLD) / bytes) + 1;
  l.keys = calloc(l.copies, sizeof(void *));
  l.values = calloc(l.copies, sizeof(void *));
  if (l.keys == NULL || l.values == NULL)
    fail("no memory");
  l.shape = (struct lls_latent_shape){.heads = heads,
                                      .nope = NOPE,
                                      .rope = ROPE,
                                      .rank = RANK,
                                      .value = VALUE,
                                      .norm = norm,
                                      .epsilon = 1e-6f};
  bench_attention(b, &l, 512);
  bench_attention(b, &l, MAX_TOKENS);
  free(l.keys);
  free(l.values);
}

/* ---- all of it --------------------------------------------------------------------- */

static void run(struct bench *b, const struct lls_device_options *options)
{
  struct lls_error err;
  char text[256];
  if (lls_cpu_device_create(options, &b->device, &err) != 0)
    fail(err.text);
  b->x = calloc(COLUMNS, sizeof *b->x);
  b->y = calloc(COLUMNS, sizeof *b->y);
  b->z = calloc(COLUMNS, sizeof *b->z);
  b->numbers = malloc((size_t)2 * 2 * INNER * HIDDEN);
  if (limits_create(lls_cpu(b->device)->threads, &b->limits) != 0 || b->x == NULL ||
      b->y == NULL || b->z == NULL || b->numbers == NULL)
    fail("no memory");
  for (size_t i = 0; i < COLUMNS; i++)
    b->x[i] = (float)(rand() % 1000) * 0.002f - 1;
  b->device->ops->describe(b->device, text, sizeof text);
  const struct limits_rates limits = limits_sample(&b->limits);
  printf("%s; read %.1f GB/s, fastest product (oneDNN) %.0f GFLOP/s\n", text,
         limits.read * 1e-9, limits_matrix(&limits, LIMITS_BF16) * 1e-9);
  bench_mixture(b, LLS_BF16);
  bench_mixture(b, LLS_Q8_0);
  bench_mixture(b, LLS_Q4_0);
  bench_latent(b, "MLA, 16 heads", 16);
  bench_latent(b, "MLA, 128 heads", 128);
  limits_destroy(&b->limits);
  free(b->numbers);
  free(b->z);
  free(b->y);
  free(b->x);
  b->device->ops->destroy(b->device);
}

int main(int argc, char **argv)
{
  struct lls_device_options options = {
      .pin = true, .max_rows = 16, .max_columns = COLUMNS, .max_sequences = 1};
  for (int option; (option = getopt(argc, argv, "t:i:")) != -1;) {
    if (option == 't')
      options.threads = (uint32_t)strtoul(optarg, NULL, 10);
    else if (option == 'i')
      options.isa = optarg;
    else
      return 2;
  }
  struct bench b = {0};
  run(&b, &options);
  return 0;
}
