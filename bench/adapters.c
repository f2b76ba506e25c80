/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of LoRA adapters in a decode step: 16 sequences, each computed by the base
 * model, against the same sequences with 4 adapters that change all matrices of
 * attention and MLP. Weights are random, of a Llama shape with few layers.
 *
 *   bench/adapters [model folder] [rank] [threads] [rounds]   (bench/llama-1.1b, 16, 2,
 * 15)
 *
 * Steps with and without adapters alternate in one engine; a ratio is of one round, and
 * the median of the rounds is printed. The limit is what must be computed besides: the
 * operations of the adapters over those of the model's matrices.
 */
#include "bench/bench.h"

#include "core/engine/engine.h"
#include "core/lora/lora_build.h"
#include "kernels/cpu/device.h"
#include "t/sequence.h"

#include <stdio.h>

#define MAX_ROUNDS   64
#define STREAMS      16
#define ADAPTERS     4
#define LAYERS       4
#define CONTEXT      64
#define DECODES      3 /* steps in one measurement */
#define BLOCK_TOKENS 16
#define UNITS        2048

static int32_t tokens[CONTEXT];

static void must(int rc, const struct lls_error *err)
{
  if (rc >= 0)
    return;
  fprintf(stderr, "bench/adapters: %s\n", lls_error_text(err, rc));
  exit(1);
}

static struct lls_tensor_view random_view(size_t rows, size_t columns, uint64_t seed)
{
  return (struct lls_tensor_view){.dtype = LLS_F32,
                                  .rows = rows,
                                  .columns = columns,
                                  .row_stride = columns,
                                  .seed = seed};
}

/* Makes an adapter of all matrices; counts its operations for a row. */
static struct lls_lora *make_adapter(const struct lls_model_config *model, uint32_t rank,
                                     uint64_t seed, double *operations)
{
  struct lls_lora *l = lls_lora_create(model);
  struct lls_error err = {0};
  must(l == NULL ? -1 : 0, &err);
  *operations = 0;
  for (uint32_t layer = 0; layer < model->layers; layer++)
    for (int t = 0; t <= LLS_LORA_DOWN; t++) {
      uint32_t inputs = lls_lora_inputs(model, (enum lls_lora_target)t);
      uint32_t outputs = lls_lora_outputs(model, (enum lls_lora_target)t);
      const struct lls_lora_module m = {.file = "random",
                                        .name = "random",
                                        .layer = layer,
                                        .kind = (uint32_t)t,
                                        .a = random_view(rank, inputs, seed++),
                                        .b = random_view(outputs, rank, seed++),
                                        .scale = 1};
      must(lls_lora_add(l, model, &m, &err), &err);
      *operations += 2.0 * rank * (inputs + (double)outputs);
    }
  return l;
}

static double model_operations(const struct lls_model_config *c)
{
  double n = 0;
  for (int t = 0; t <= LLS_LORA_DOWN; t++)
    n += 2.0 * lls_lora_inputs(c, (enum lls_lora_target)t) *
         lls_lora_outputs(c, (enum lls_lora_target)t);
  return n * c->layers + 2.0 * c->vocab * c->hidden;
}

struct bench {
  struct lls_engine *engine;
  struct lls_lora *adapters[ADAPTERS];
  struct sequence streams[STREAMS];
  struct units units;
};

static void step(struct bench *b, uint32_t n_tokens, bool adapted)
{
  static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  struct lls_engine_sequence list[STREAMS];
  struct lls_engine_result result;
  struct lls_error err = {0};
  for (uint32_t i = 0; i < STREAMS; i++) {
    struct sequence *s = &b->streams[i];
    sequence_grow(s, &b->units, s->cached + n_tokens, BLOCK_TOKENS);
    list[i] = (struct lls_engine_sequence){.tokens = tokens,
                                           .n_tokens = n_tokens,
                                           .context = s->cached,
                                           .table = &s->table,
                                           .adapter =
                                               adapted ? b->adapters[i % ADAPTERS] : NULL,
                                           .adapter_scale = 1,
                                           .sampling = &greedy};
  }
  const struct lls_engine_batch batch = {.n_sequences = STREAMS, .sequences = list};
  must(lls_engine_submit(b->engine, &batch, &err), &err);
  must(lls_engine_wait(b->engine, &result, &err), &err);
}

static double measure(struct bench *b, bool adapted)
{
  double start = bench_seconds();
  for (int i = 0; i < DECODES; i++)
    step(b, 1, adapted);
  return (bench_seconds() - start) / DECODES;
}

static void run(struct bench *b, size_t rounds, double limit)
{
  double base[MAX_ROUNDS], with[MAX_ROUNDS], ratio[MAX_ROUNDS];
  units_init(&b->units, UNITS, 2);
  for (uint32_t i = 0; i < STREAMS; i++)
    sequence_init(&b->streams[i]);
  step(b, CONTEXT, false);
  for (uint32_t i = 0; i < STREAMS; i++)
    b->streams[i].cached = CONTEXT;
  measure(b, true);
  for (size_t i = 0; i < rounds; i++) {
    base[i] = measure(b, false);
    with[i] = measure(b, true);
    ratio[i] = with[i] / base[i];
  }
  printf("%-12s %-14s %-8s %s\n", "base, ms", "adapters, ms", "ratio", "operations");
  printf("%-12.2f %-14.2f %-8.3f %.3f\n", 1e3 * bench_median(base, rounds),
         1e3 * bench_median(with, rounds), bench_median(ratio, rounds), limit);
}

int main(int argc, char **argv)
{
  const char *folder = argc > 1 ? argv[1] : LLS_SRCDIR "/bench/llama-1.1b";
  uint32_t rank = argc > 2 ? (uint32_t)atoi(argv[2]) : 16;
  uint32_t threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 2;
  size_t rounds = argc > 4 ? (size_t)atoi(argv[4]) : 15;
  static struct lls_model_config model;
  static struct bench b;
  struct lls_error err = {0};
  struct lls_device *device;
  double operations = 0;
  if (rank < 1 || rank > LLS_LORA_MAX_RANK || rounds < 1 || rounds > MAX_ROUNDS) {
    fprintf(stderr, "bench/adapters: expected a rank of 1 to %d, 1 to %d rounds\n",
            LLS_LORA_MAX_RANK, MAX_ROUNDS);
    return 2;
  }
  must(lls_model_config_read(folder, &model, &err), &err);
  model.layers = model.layers < LAYERS ? model.layers : LAYERS;
  const struct lls_pool_shape unit = {.layers = model.layers,
                                      .kv_heads = model.kv_heads,
                                      .head_dim = model.head_dim,
                                      .block_tokens = BLOCK_TOKENS,
                                      .element = LLS_BF16};
  const struct lls_device_options device_options = {.threads = threads,
                                                    .max_rows = STREAMS * CONTEXT,
                                                    .max_columns =
                                                        lls_engine_max_columns(&model),
                                                    .max_sequences = STREAMS};
  const struct lls_engine_options options = {.dummy = true,
                                             .weights = LLS_WEIGHTS_BF16,
                                             .cache_element = LLS_BF16,
                                             .max_tokens = STREAMS * CONTEXT,
                                             .max_sequences = STREAMS,
                                             .block_tokens = BLOCK_TOKENS,
                                             .adapters = true,
                                             .cache_bytes =
                                                 UNITS * lls_unit_bytes(&unit)};
  must(lls_cpu_device_create(&device_options, &device, &err), &err);
  must(lls_engine_create(&options, &model, device, &b.engine, &err), &err);
  for (uint64_t i = 0; i < ADAPTERS; i++)
    b.adapters[i] = make_adapter(&model, rank, i << 32, &operations);
  printf("%s, %u layers, %u threads: %d sequences, %d adapters of rank %u\n", folder,
         model.layers, threads, STREAMS, ADAPTERS, rank);
  run(&b, rounds, 1 + operations / model_operations(&model));
  for (int i = 0; i < ADAPTERS; i++)
    lls_lora_unref(b.adapters[i]);
  lls_engine_destroy(b.engine);
  device->ops->destroy(device);
  return 0;
}
