/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers of published models: the gated delta net of Qwen3-Next, Mamba-2 of
 * Granite 4 H small and of Nemotron 3 Nano, and the short convolution before them.
 *
 *   bench/recurrent [-t threads] [-i isa]
 *
 * Decodes have one row of each sequence, and cold states: their limits are the memory's
 * rate of reading and its rate of changing numbers in place, since every byte of a state
 * is read and written. A prefill's limit is the matrix rate of f32 (oneDNN). Beside it
 * stands the attention of the same model over the same prompt, of which 2,048 tokens are
 * to take at most 1 / .6 of the recurrent layer's time.
 *
 * Every round measures the limits and then the operation. Ratios to the rate of change
 * are of one round, with medians on both sides, so that other work on the machine slows
 * down both; ratios to the rates of reading and of products are to the fastest piece so
 * far, the undisturbed machine. Medians of the rounds are printed. One thread's times are
 * processor time, as calls of a prefill are longer than a turn on a shared processor.
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

#define ROUNDS       7
#define MAX_ROWS     2048
#define MAX_SPANS    16
#define MAX_CALLS    2000
#define BLOCK_TOKENS 16
#define COLD         ((size_t)192 << 20) /* least bytes that calls cycle through */

struct bench {
  struct lls_device *device;
  struct limits limits;
  float *rows, *out, *vector; /* (MAX_ROWS, columns) twice, (columns) */
  float *states;              /* (n_states, floats of the layer's state) */
  size_t n_states, next;
  double (*seconds)(void);
};

enum kind { DELTA, SPACE, CONV, NORM };

/* heads: of the state; share: heads that share q and k, or B and C. A convolution has
 * `heads` channels and a width of `key`; a norm `heads` groups of `value` columns. */
struct model {
  const char *name;
  enum kind kind;
  uint32_t heads, share, key, value;
  uint32_t attention_heads, kv_heads, head_dim; /* 0: not compared */
};

static const struct model models[] = {
    {"delta net, Qwen3-Next", DELTA, 32, 2, 128, 128, 16, 2, 256},
    {"Mamba-2, Granite 4 H small", SPACE, 128, 128, 128, 64, 32, 8, 128},
    {"Mamba-2, Nemotron 3 Nano", SPACE, 64, 8, 128, 64, 32, 2, 128},
    {"convolution, Qwen3-Next", CONV, 8192, 1, 4, 1, 0, 0, 0},
    {"gated norm, Qwen3-Next", NORM, 32, 1, 1, 128, 0, 0, 0},
};

struct load {
  const char *name;
  uint32_t n_spans, n_rows; /* rows of each span */
};

static const struct load loads[] = {{"decode 1", 1, 1},
                                    {"decode 16", 16, 1},
                                    {"prefill 64", 1, 64},
                                    {"prefill 2048", 1, 2048}};

#define COLUMNS 16384 /* of a row, all inputs together: at least those of any model */

static void fail(const char *what)
{
  fprintf(stderr, "bench/recurrent: %s\n", what);
  exit(1);
}

static size_t state_floats(const struct model *m)
{
  size_t rows = m->kind == CONV ? m->key - 1 : m->kind == NORM ? 0 : m->key;
  return m->heads * rows * m->value;
}

/* The rows' inputs stand in one row, one after the other. */
static struct lls_row_input part(const struct bench *b, size_t at)
{
  return (struct lls_row_input){b->rows + at, COLUMNS};
}

static void compute(struct bench *b, const struct model *m,
                    const struct lls_recurrent_span *spans, size_t n)
{
  const struct lls_cpu_device *d = lls_cpu(b->device);
  const uint32_t shared = m->heads / m->share;
  const size_t keys = (size_t)shared * m->key, values = (size_t)m->heads * m->value;
  const struct lls_row_output out = {b->out, COLUMNS};
  const struct lls_gated_delta delta = {shared,
                                        m->heads,
                                        m->key,
                                        m->value,
                                        false,
                                        1e-6f,
                                        1 / sqrtf((float)m->key),
                                        part(b, 0),
                                        part(b, keys),
                                        part(b, 2 * keys),
                                        part(b, 2 * keys + values),
                                        part(b, 2 * keys + values + m->heads),
                                        b->vector,
                                        b->vector,
                                        out};
  const struct lls_state_space space = {m->heads,
                                        m->value,
                                        shared,
                                        m->key,
                                        0,
                                        INFINITY,
                                        part(b, 0),
                                        part(b, values),
                                        part(b, values + keys),
                                        part(b, values + 2 * keys),
                                        b->vector,
                                        b->vector,
                                        b->vector,
                                        out};
  const struct lls_short_conv conv = {.channels = m->heads,
                                      .width = m->key,
                                      .silu = true,
                                      .weight = b->rows,
                                      .x = part(b, 0),
                                      .y = out};
  const struct lls_gated_norm norm = {.groups = m->heads,
                                      .columns = m->value,
                                      .epsilon = 1e-6f,
                                      .weight = b->vector,
                                      .x = part(b, 0),
                                      .gate = part(b, values),
                                      .y = out};
  if (m->kind == DELTA)
    lls_cpu_gated_delta(d, &delta, spans, n);
  else if (m->kind == SPACE)
    lls_cpu_state_space(d, &space, spans, n);
  else if (m->kind == CONV)
    lls_cpu_short_conv(d, &conv, spans, n);
  else
    lls_cpu_gated_norm(d, &norm, (uint32_t)n * spans->n_rows);
}

/* The next states of all, round and round. */
static void next_spans(struct bench *b, const struct model *m, const struct load *load,
                       struct lls_recurrent_span *spans)
{
  for (uint32_t i = 0; i < load->n_spans; i++) {
    float *state = b->states + b->next++ % b->n_states * state_floats(m);
    spans[i] = (struct lls_recurrent_span){i * load->n_rows, load->n_rows, state, state};
  }
}

/* Seconds of one call: the median of as many calls as take 50 ms. Most calls are shorter
 * than what other work takes of the processor at a time, so the median is undisturbed. */
static double measure(struct bench *b, const struct model *m, const struct load *load)
{
  struct lls_recurrent_span spans[MAX_SPANS];
  double seconds[MAX_CALLS], all = 0;
  size_t calls = 0;
  while (calls < MAX_CALLS && (all < 0.05 || calls < 3)) {
    next_spans(b, m, load, spans);
    double start = b->seconds();
    compute(b, m, spans, load->n_spans);
    seconds[calls] = b->seconds() - start;
    all += seconds[calls++];
  }
  return bench_median(seconds, calls);
}

/* ---- limits ---------------------------------------------------------------------- */

#define PIECE_BYTES ((size_t)2 << 20)

static void change_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct bench *b = arg;
  const struct lls_cpu_device *d = lls_cpu(b->device);
  size_t begin, end, floats = PIECE_BYTES / sizeof(float);
  lls_cpu_share(floats, 16, thread, n_threads, &begin, &end);
  float *piece = b->states + b->next * floats;
  d->kernels.rows.activate(LLS_ACT_RELU, piece + begin, end - begin);
}

/* Bytes/s read and written when numbers are changed in place: the median of pieces. */
static double change_rate(struct bench *b)
{
  double seconds[MAX_CALLS];
  size_t pieces = limits_cold_bytes(COLD) / PIECE_BYTES;
  for (b->next = 0; b->next < pieces; b->next++) {
    double start = b->seconds();
    lls_cpu_run(lls_cpu(b->device)->threads, change_task, b);
    seconds[b->next] = b->seconds() - start;
  }
  return 2 * (double)PIECE_BYTES / bench_median(seconds, pieces);
}

/* ---- attention ------------------------------------------------------------------- */

struct attention {
  struct lls_attention_shape shape;
  struct lls_pool *pool;
  struct lls_block_entry entries[MAX_ROWS / BLOCK_TOKENS];
  uint32_t row_sequence[MAX_ROWS];
  struct lls_step_sequence sequence;
  struct lls_device_step step;
};

/* One layer, and a prompt of n tokens whose K and V are written. */
static void create_attention(struct bench *b, const struct model *m, uint32_t n,
                             struct attention *a)
{
  struct lls_pool_shape shape = {.layers = 1,
                                 .kv_heads = m->kv_heads,
                                 .head_dim = m->head_dim,
                                 .block_tokens = BLOCK_TOKENS,
                                 .element = LLS_BF16};
  uint32_t units = lls_form_units(&shape, LLS_FORM_KV), blocks = n / BLOCK_TOKENS;
  shape.device_units = units * blocks;
  *a = (struct attention){.shape = {.heads = m->attention_heads,
                                    .kv_heads = m->kv_heads,
                                    .head_dim = m->head_dim,
                                    .scale = 1 / sqrtf((float)m->head_dim)}};
  if (b->device->ops->pool_create(b->device, &shape, &a->pool, NULL) != 0)
    fail("no memory for a pool");
  for (uint32_t i = 0; i < blocks; i++)
    a->entries[i] = (struct lls_block_entry){
        .block = i * units, .first_token = i * BLOCK_TOKENS, .count = BLOCK_TOKENS};
  a->sequence =
      (struct lls_step_sequence){.kv = {.entries = a->entries, .n = blocks}, .n_rows = n};
  a->step = (struct lls_device_step){.n_rows = n,
                                     .n_sequences = 1,
                                     .sequence = a->row_sequence,
                                     .sequences = &a->sequence};
  b->device->ops->step_begin(b->device, a->pool, &a->step);
  b->device->ops->cache_write(b->device, &a->shape, 0, b->rows);
}

static double attend(struct bench *b, const struct attention *a)
{
  double start = b->seconds();
  b->device->ops->attention(b->device, &a->shape, 0, b->rows, b->out);
  return b->seconds() - start;
}

/* The recurrent layer beside the attention of the same model, in turns. */
static void compare(struct bench *b, const struct model *m, const struct load *load)
{
  static struct attention a;
  double ratio[ROUNDS], seconds[ROUNDS];
  create_attention(b, m, load->n_rows, &a);
  for (int i = 0; i < ROUNDS; i++) {
    seconds[i] = attend(b, &a);
    ratio[i] = seconds[i] / measure(b, m, load);
  }
  printf("  %-13s %9.3f ms  attention of the same model: %.1f times its rate\n",
         load->name, 1e3 * bench_median(seconds, ROUNDS), bench_median(ratio, ROUNDS));
  b->device->ops->step_end(b->device, NULL);
  b->device->ops->pool_destroy(b->device, a.pool);
}

/* ---- all of it ------------------------------------------------------------------- */

/* States read and written; the rows of layers that have little else. */
static double bytes_of(const struct model *m, const struct load *load)
{
  const double rows = (double)load->n_spans * load->n_rows, columns = m->heads * m->value;
  if (m->kind == NORM)
    return 3 * sizeof(float) * columns * rows;
  double bytes = 2.0 * sizeof(float) * (double)(state_floats(m) * load->n_spans);
  return m->kind == CONV ? bytes + 2 * sizeof(float) * columns * rows : bytes;
}

static double operations_of(const struct model *m, const struct load *load)
{
  static const double of_element[] = {[DELTA] = 7, [SPACE] = 5, [CONV] = 2, [NORM] = 4};
  return of_element[m->kind] * m->heads * m->key * m->value * load->n_spans *
         load->n_rows;
}

static void bench_load(struct bench *b, const struct model *m, const struct load *load)
{
  double seconds[ROUNDS], of_read[ROUNDS], of_change[ROUNDS], of_matrix[ROUNDS];
  const double bytes = bytes_of(m, load), operations = operations_of(m, load);
  for (int i = 0; i < ROUNDS; i++) {
    limits_sample(&b->limits);
    const struct limits_rates *limits = &b->limits.best;
    double change = change_rate(b);
    seconds[i] = measure(b, m, load);
    of_read[i] = bytes / seconds[i] / limits->read;
    of_change[i] = bytes / seconds[i] / change;
    of_matrix[i] = operations / seconds[i] / limits->product[LIMITS_F32];
  }
  double time = bench_median(seconds, ROUNDS);
  printf(
      "  %-13s %9.3f ms  %6.1f GB/s, %3.0f%% of read, %3.0f%% of change  %6.1f GFLOP/s, "
      "%3.0f%% of matrix\n",
      load->name, time * 1e3, bytes / time * 1e-9, 100 * bench_median(of_read, ROUNDS),
      100 * bench_median(of_change, ROUNDS), operations / time * 1e-9,
      100 * bench_median(of_matrix, ROUNDS));
  fflush(stdout);
}

static void bench_model(struct bench *b, const struct model *m)
{
  b->n_states = limits_cold_bytes(COLD) / sizeof(float) / (state_floats(m) + 1);
  printf("%s\n", m->name);
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
    bench_load(b, m, &loads[i]);
  if (m->attention_heads > 0)
    compare(b, m, &loads[sizeof loads / sizeof *loads - 1]);
}

static void allocate(struct bench *b, size_t floats, float **out)
{
  void *memory;
  if (b->device->ops->alloc(b->device, LLS_MEMORY_DEVICE, floats * sizeof **out,
                            &memory) != 0)
    fail("no memory");
  *out = memory;
  for (size_t i = 0; i < floats; i++)
    (*out)[i] = (float)(rand() % 1000) * 0.002f - 1;
}

static void run(struct bench *b, const struct lls_device_options *options)
{
  struct lls_error err;
  if (lls_cpu_device_create(options, &b->device, &err) != 0)
    fail(err.text);
  if (limits_create(lls_cpu(b->device)->threads, &b->limits) != 0)
    fail("no memory");
  allocate(b, (size_t)MAX_ROWS * COLUMNS, &b->rows);
  allocate(b, (size_t)MAX_ROWS * COLUMNS, &b->out);
  allocate(b, COLUMNS, &b->vector);
  allocate(b, limits_cold_bytes(COLD) / sizeof(float), &b->states);
  for (size_t i = 0; i < COLUMNS; i++)
    b->vector[i] = -fabsf(b->vector[i]);
  char text[256];
  b->device->ops->describe(b->device, text, sizeof text);
  limits_sample(&b->limits);
  const struct limits_rates sample = b->limits.best;
  printf("%s; read %.1f GB/s, change in place %.1f GB/s, f32 product (oneDNN) %.0f "
         "GFLOP/s\n",
         text, sample.read * 1e-9, change_rate(b) * 1e-9,
         sample.product[LIMITS_F32] * 1e-9);
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    bench_model(b, &models[i]);
  limits_destroy(&b->limits);
  b->device->ops->release(b->device, LLS_MEMORY_DEVICE, b->rows);
  b->device->ops->release(b->device, LLS_MEMORY_DEVICE, b->out);
  b->device->ops->release(b->device, LLS_MEMORY_DEVICE, b->vector);
  b->device->ops->release(b->device, LLS_MEMORY_DEVICE, b->states);
  b->device->ops->destroy(b->device);
}

int main(int argc, char **argv)
{
  struct lls_device_options options = {.pin = true,
                                       .max_rows = MAX_ROWS,
                                       .max_columns = COLUMNS,
                                       .max_sequences = MAX_SPANS};
  for (int option; (option = getopt(argc, argv, "t:i:")) != -1;) {
    if (option == 't')
      options.threads = (uint32_t)strtoul(optarg, NULL, 10);
    else if (option == 'i')
      options.isa = optarg;
    else
      return 2;
  }
  struct bench b = {.seconds = options.threads == 1 ? bench_cpu_seconds : bench_seconds};
  run(&b, &options);
  return 0;
}
