/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine alone: decode steps of 1, 16 and 32 streams, prefill steps of 512 and 2048
 * tokens. Without a model it has the shape of a 1.1B Llama (bench/llama-1.1b) with random
 * weights.
 *
 *   bench/engine [-m MODEL] [-w auto|bf16|f32|int8|int4] [-t THREADS] [-r ROUNDS]
 *                [-c CONTEXT] [-i ISA] [-l ROWS]
 *
 * Each stream has CONTEXT (128) tokens before its decodes. ISA selects a level below the
 * CPU's best. ROWS runs only the load with that many rows in a step.
 *
 * The floor of a step is the larger of two times: reading every packed weight once at the
 * machine's read bandwidth, and all matrix products at its matrix rate (oneDNN's; its
 * integer rate where most weights are codes of 8 bits or fewer). Attention and cache
 * count as nothing. Each round measures the limits before and after the load and takes
 * their mean, so that other work on the machine slows down both; a ratio is of one round.
 * The median and the best of the rounds are printed. A load runs once before its rounds,
 * since the first pass touches memory for the first time.
 */
#include "bench/bench.h"
#include "bench/limits.h"

#include "core/engine/engine.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/device.h"
#include "t/sequence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROUNDS   32
#define MAX_STREAMS  32
#define MAX_TOKENS   2048
#define MAX_CONTEXT  960
#define DECODES      8 /* steps in one measurement */
#define BLOCK_TOKENS 16

struct load {
  const char *name;
  uint32_t streams, tokens; /* tokens of each stream in one step */
  double tokens_per_s[MAX_ROUNDS], ratio[MAX_ROUNDS];
  bool memory_bound;
};

static struct load loads[] = {
    {.name = "decode", .streams = 1, .tokens = 1},
    {.name = "decode", .streams = 16, .tokens = 1},
    {.name = "decode", .streams = 32, .tokens = 1},
    {.name = "prefill", .streams = 1, .tokens = 512},
    {.name = "prefill", .streams = 1, .tokens = 2048},
};
#define N_LOADS (sizeof loads / sizeof *loads)

struct options {
  const char *model; /* NULL: random weights */
  const char *isa;   /* NULL: the CPU's best level */
  enum lls_weight_format weights;
  uint32_t threads, context; /* threads 0: one for each core */
  uint32_t rows;             /* rows of the only load to run; 0: all loads */
  int rounds;
};

struct bench {
  struct options options;
  struct lls_device *device;
  struct lls_engine *engine;
  struct limits limits;
  enum limits_type type; /* the product limit to compare with */
  struct units units;
  struct sequence sequences[MAX_STREAMS];
  int32_t tokens[MAX_TOKENS];
};

static void die(const char *what, const struct lls_error *err, int rc)
{
  fprintf(stderr, "bench/engine: %s: %s\n", what, lls_error_text(err, rc));
  exit(1);
}

static void step(struct bench *b, uint32_t streams, uint32_t tokens)
{
  static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  struct lls_engine_sequence parts[MAX_STREAMS];
  for (uint32_t i = 0; i < streams; i++) {
    struct sequence *s = &b->sequences[i];
    sequence_grow(s, &b->units, s->cached + tokens, BLOCK_TOKENS);
    parts[i] = (struct lls_engine_sequence){
        .tokens = b->tokens,
        .n_tokens = tokens,
        .context = s->cached,
        .table = &s->table,
        .sampling = &greedy,
    };
    s->cached += tokens;
  }
  const struct lls_engine_batch batch = {.n_sequences = streams, .sequences = parts};
  struct lls_engine_result result;
  struct lls_error err = {0};
  int rc = lls_engine_submit(b->engine, &batch, &err);
  if (rc == 0)
    rc = lls_engine_wait(b->engine, &result, &err);
  if (rc != 0)
    die("step", &err, rc);
}

static void reset(struct bench *b)
{
  units_init(&b->units, UNITS_MAX,
             lls_form_units(lls_engine_pool_shape(b->engine), LLS_FORM_KV));
  for (size_t i = 0; i < MAX_STREAMS; i++)
    sequence_init(&b->sequences[i]);
}

/* Returns the seconds of one step. Decodes attend to whatever the pool contains. */
static double measure(struct bench *b, const struct load *load)
{
  bool decode = load->tokens == 1;
  uint32_t steps = decode ? DECODES : 1;
  reset(b);
  for (uint32_t i = 0; decode && i < load->streams; i++)
    b->sequences[i].cached = b->options.context;
  double start = bench_seconds();
  for (uint32_t i = 0; i < steps; i++)
    step(b, load->streams, load->tokens);
  return (bench_seconds() - start) / steps;
}

static double layer_weights(const struct lls_model_config *c)
{
  return (double)c->hidden *
         (lls_qkv_columns(c, 0) + c->heads * c->head_dim + 3.0 * c->ffn);
}

static double head_weights(const struct lls_model_config *c)
{
  return (double)c->hidden * c->vocab;
}

/* Derives from the bytes of a weight the product type which the engine uses. */
static enum limits_type type_of(const struct lls_engine *e)
{
  const struct lls_model_config *c = lls_engine_config(e);
  double bytes = (double)lls_engine_weight_bytes(e) /
                 (layer_weights(c) * c->layers + head_weights(c));
  return bytes < 1.5 ? LIMITS_INT8 : bytes < 3 ? LIMITS_BF16 : LIMITS_F32;
}

static void round_of(struct bench *b, struct load *load, int round)
{
  const struct lls_model_config *c = lls_engine_config(b->engine);
  double rows = (double)load->streams * load->tokens;
  double operations =
      2 * (rows * layer_weights(c) * c->layers + (double)load->streams * head_weights(c));
  const struct limits_rates before = limits_sample(&b->limits);
  double seconds = measure(b, load);
  const struct limits_rates after = limits_sample(&b->limits);
  double read = (before.read + after.read) / 2;
  double rate = (limits_matrix(&before, b->type) + limits_matrix(&after, b->type)) / 2;
  double reading = (double)lls_engine_weight_bytes(b->engine) / read;
  double multiplying = operations / rate;
  load->memory_bound = reading > multiplying;
  load->tokens_per_s[round] = rows / seconds;
  load->ratio[round] = (load->memory_bound ? reading : multiplying) / seconds;
}

static enum lls_weight_format format_named(const char *name)
{
  static const char *const names[] = {"auto", "f32", "bf16", "int8", "int4"};
  for (int i = 0; i < 5; i++)
    if (strcmp(names[i], name) == 0)
      return (enum lls_weight_format)i;
  fprintf(stderr, "bench/engine: no weights '%s'\n", name);
  exit(2);
}

static struct options parse(int argc, char **argv)
{
  struct options o = {.context = 128, .rounds = 3};
  for (int c; (c = getopt(argc, argv, "m:w:t:r:c:i:l:")) != -1;)
    switch (c) {
    case 'm':
      o.model = optarg;
      break;
    case 'w':
      o.weights = format_named(optarg);
      break;
    case 't':
      o.threads = (uint32_t)atoi(optarg);
      break;
    case 'r':
      o.rounds = atoi(optarg);
      break;
    case 'i':
      o.isa = optarg;
      break;
    case 'c':
      o.context = (uint32_t)atoi(optarg);
      break;
    case 'l':
      o.rows = (uint32_t)atoi(optarg);
      break;
    default:
      exit(2);
    }
  if (optind < argc || o.rounds < 1 || o.rounds > MAX_ROUNDS || o.context > MAX_CONTEXT) {
    fprintf(stderr,
            "usage: bench/engine [-m MODEL] [-w auto|f32|bf16|int8|int4] [-t THREADS] "
            "[-r ROUNDS, 32 at most] [-c CONTEXT, 960 at most] "
            "[-i " LLS_ISA_CHOICES "] [-l 1|16|32|512|2048]\n");
    exit(2);
  }
  return o;
}

static void create_device(struct bench *b, const struct lls_model_config *config)
{
  struct lls_error err = {0};
  const struct lls_device_options device = {
      .threads = b->options.threads,
      .pin = true,
      .max_rows = MAX_TOKENS,
      .max_sequences = MAX_STREAMS,
      .max_columns = lls_engine_max_columns(config),
      .isa = b->options.isa,
  };
  int rc = lls_cpu_device_create(&device, &b->device, &err);
  if (rc != 0)
    die("device", &err, rc);
}

static void create(struct bench *b)
{
  const char *root = getenv("LLS_SRCDIR");
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/bench/llama-1.1b",
           root != NULL ? root : LLS_SRCDIR);
  const char *model = b->options.model != NULL ? b->options.model : folder;
  struct lls_error err = {0};
  struct lls_model_config config;
  int rc = lls_model_config_read(model, &config, &err);
  if (rc != 0)
    die(model, &err, rc);
  create_device(b, &config);
  const struct lls_engine_options engine = {
      .model_path = model,
      .dummy = b->options.model == NULL,
      .weights = b->options.weights,
      .cache_element = LLS_BF16,
      .max_tokens = MAX_TOKENS,
      .max_sequences = MAX_STREAMS,
      .block_tokens = BLOCK_TOKENS,
      .cache_bytes = UNITS_MAX * lls_unit_bytes(&(struct lls_pool_shape){
                                     .layers = config.layers,
                                     .kv_heads = config.kv_heads,
                                     .head_dim = config.head_dim,
                                     .block_tokens = BLOCK_TOKENS,
                                     .element = LLS_BF16,
                                 }),
  };
  rc = lls_engine_create(&engine, &config, b->device, &b->engine, &err);
  if (rc != 0)
    die("engine", &err, rc);
  for (int32_t i = 0; i < MAX_TOKENS; i++)
    b->tokens[i] = i * 13 % (int32_t)config.vocab;
}

static void run(struct bench *b, struct load *load, int rounds)
{
  measure(b, load);
  for (int round = 0; round < rounds; round++)
    round_of(b, load, round);
  double ratio = bench_median(load->ratio, (size_t)rounds);
  double rate = bench_median(load->tokens_per_s, (size_t)rounds);
  printf("%-8s %2u x %4u  %8.1f tokens/s, floor %8.1f  %3.0f%% (best %3.0f%%) of %s\n",
         load->name, load->streams, load->tokens, rate, rate / ratio, ratio * 100,
         load->ratio[rounds - 1] * 100,
         load->memory_bound ? "read bandwidth" : "matrix peak");
}

int main(int argc, char **argv)
{
  static struct bench b;
  b.options = parse(argc, argv);
  create(&b);
  b.type = type_of(b.engine);
  char text[256];
  b.device->ops->describe(b.device, text, sizeof text);
  printf("%s; weights %.2f GB\n", text, (double)lls_engine_weight_bytes(b.engine) * 1e-9);
  fflush(stdout);
  if (limits_create(lls_cpu(b.device)->threads, &b.limits) != 0)
    die("limits", NULL, -ENOMEM);
  for (size_t i = 0; i < N_LOADS; i++) {
    if (b.options.rows == 0 || b.options.rows == loads[i].streams * loads[i].tokens)
      run(&b, &loads[i], b.options.rounds);
  }
  limits_destroy(&b.limits);
  lls_engine_destroy(b.engine);
  b.device->ops->destroy(b.device);
  return 0;
}
