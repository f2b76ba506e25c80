/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost and gain of tensor parallel ranks on the CPU: a step of a Llama shape with
 * random weights, computed by one rank with one thread, by one rank with n threads, and
 * by n ranks with one thread each.
 *
 *   bench/ranks [model folder] [n] [rounds]     (bench/llama-1.1b, 2, 5)
 *
 * The second is the limit: the same cores without communication between ranks. Ranks make
 * two all-reduces in each layer and one gather in a step; threads of one rank synchronise
 * by two to eight barriers. The three set-ups alternate in each round. A ratio is of one
 * round; the median of the rounds is printed.
 */
#include "bench/bench.h"

#include "core/engine/worker_rank.h"
#include "core/ranks/ranks.h"
#include "kernels/cpu/device.h"
#include "t/sequence.h"

#include <sched.h>
#include <stdio.h>

#define MAX_ROUNDS   64
#define MAX_STREAMS  16
#define MAX_TOKENS   512
#define CONTEXT      128 /* tokens of each stream before the decodes */
#define DECODES      4   /* steps in one measurement */
#define BLOCK_TOKENS 16
#define UNITS        2048

struct load {
  const char *name;
  uint32_t streams, tokens; /* tokens: of each stream in a step */
};

static const struct load loads[] = {
    {"decode of 1", 1, 1}, {"decode of 16", 16, 1}, {"prefill of 512", 1, 512}};
#define N_LOADS (sizeof loads / sizeof *loads)

/* One of the three set-ups. */
struct setup {
  uint32_t ranks, threads;
  struct lls_ranks *group; /* rank 0's endpoint */
  struct lls_worker_ranks *followers;
  struct lls_device *device;
  struct lls_engine *engine;
  double seconds[N_LOADS][MAX_ROUNDS]; /* seconds of a step */
};

static int32_t tokens[MAX_TOKENS];

static void must(int rc, const struct lls_error *err)
{
  if (rc >= 0)
    return;
  fprintf(stderr, "bench/ranks: %s\n", lls_error_text(err, rc));
  exit(1);
}

static void open_setup(struct setup *s, const struct lls_model_config *model)
{
  struct lls_error err = {0};
  struct lls_ranks *handles[LLS_MAX_RANKS] = {0};
  const struct lls_pool_shape unit = {.layers = model->layers,
                                      .kv_heads = model->kv_heads,
                                      .head_dim = model->head_dim,
                                      .block_tokens = BLOCK_TOKENS,
                                      .element = LLS_BF16};
  struct lls_worker_rank_options o = {
      .model = *model,
      .create_device = lls_cpu_device_create,
      .device = {.threads = s->threads,
                 .pin = true,
                 .max_rows = MAX_TOKENS,
                 .max_columns = lls_engine_max_columns(model),
                 .max_sequences = MAX_STREAMS},
      .engine = {.dummy = true,
                 .cache_element = LLS_BF16,
                 .max_tokens = MAX_TOKENS,
                 .max_sequences = MAX_STREAMS,
                 .block_tokens = BLOCK_TOKENS,
                 .cache_bytes = UNITS * lls_unit_bytes(&unit)},
  };
  if (s->ranks > 1) {
    must(lls_ranks_threads(s->ranks, 60 * LLS_NS_PER_S, handles, &err), &err);
    must(lls_worker_ranks_start(&o, handles, s->ranks, &s->followers, &err), &err);
    s->group = o.device.ranks = o.engine.ranks = handles[0];
    lls_ranks_take_cores(s->group);
  }
  must(o.create_device(&o.device, &s->device, &err), &err);
  must(lls_engine_create(&o.engine, model, s->device, &s->engine, &err), &err);
}

static void close_setup(struct setup *s)
{
  lls_engine_dismiss(s->engine);
  lls_worker_ranks_stop(s->followers);
  lls_engine_destroy(s->engine);
  s->device->ops->destroy(s->device);
  if (s->group != NULL)
    s->group->ops->destroy(s->group);
}

/* Computes n_tokens more tokens of each of n streams. */
static void step(const struct setup *s, struct sequence *streams, struct units *units,
                 uint32_t n, uint32_t n_tokens)
{
  static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  struct lls_engine_sequence list[MAX_STREAMS];
  struct lls_engine_result result;
  struct lls_error err = {0};
  for (uint32_t i = 0; i < n; i++) {
    sequence_grow(&streams[i], units, streams[i].cached + n_tokens, BLOCK_TOKENS);
    list[i] = (struct lls_engine_sequence){.tokens = tokens,
                                           .n_tokens = n_tokens,
                                           .context = streams[i].cached,
                                           .table = &streams[i].table,
                                           .sampling = &greedy};
    streams[i].cached += n_tokens;
  }
  const struct lls_engine_batch batch = {.n_sequences = n, .sequences = list};
  must(lls_engine_submit(s->engine, &batch, &err), &err);
  must(lls_engine_wait(s->engine, &result, &err), &err);
}

static double measure(const struct setup *s, const struct load *l)
{
  static struct sequence streams[MAX_STREAMS];
  struct units units;
  uint32_t n = l->tokens > 1 ? 1 : DECODES;
  units_init(&units, UNITS, 2);
  for (uint32_t i = 0; i < l->streams; i++) {
    sequence_init(&streams[i]);
    if (l->tokens == 1)
      step(s, &streams[i], &units, 1, CONTEXT);
  }
  double start = bench_seconds();
  for (uint32_t i = 0; i < n; i++)
    step(s, streams, &units, l->streams, l->tokens);
  return (bench_seconds() - start) / n;
}

static void print(const struct setup *all, size_t load, size_t rounds)
{
  double times[3][MAX_ROUNDS], gain[MAX_ROUNDS], cost[MAX_ROUNDS];
  for (size_t i = 0; i < rounds; i++) {
    for (size_t j = 0; j < 3; j++)
      times[j][i] = all[j].seconds[load][i];
    gain[i] = times[0][i] / times[2][i];
    cost[i] = times[2][i] / times[1][i];
  }
  printf("%-15s %9.2f %14.2f %14.2f %13.2f %16.2f\n", loads[load].name,
         1e3 * bench_median(times[0], rounds), 1e3 * bench_median(times[1], rounds),
         1e3 * bench_median(times[2], rounds), bench_median(gain, rounds),
         bench_median(cost, rounds));
}

int main(int argc, char **argv)
{
  const char *folder = argc > 1 ? argv[1] : LLS_SRCDIR "/bench/llama-1.1b";
  uint32_t n = argc > 2 ? (uint32_t)atoi(argv[2]) : 2;
  size_t rounds = argc > 3 ? (size_t)atoi(argv[3]) : 5;
  static struct setup all[3];
  struct lls_model_config model;
  struct lls_error err = {0};
  cpu_set_t cores;
  sched_getaffinity(0, sizeof cores, &cores);
  if (n < 2 || n > LLS_MAX_RANKS || rounds < 1 || rounds > MAX_ROUNDS) {
    fprintf(stderr, "bench/ranks: expected 2 ranks or more, 1 to %d rounds\n",
            MAX_ROUNDS);
    return 2;
  }
  must(lls_model_config_read(folder, &model, &err), &err);
  all[0] = (struct setup){.ranks = 1, .threads = 1};
  all[1] = (struct setup){.ranks = 1, .threads = n};
  all[2] = (struct setup){.ranks = n, .threads = 1};
  for (int i = 0; i < MAX_TOKENS; i++)
    tokens[i] = i * 7 % (int)model.vocab;
  /* Set-ups exist one after another, since a device pins the thread which creates it
   * until the device is destroyed. */
  for (size_t round = 0; round < rounds; round++)
    for (size_t j = 0; j < 3; j++) {
      open_setup(&all[j], &model);
      for (size_t load = 0; load < N_LOADS; load++)
        all[j].seconds[load][round] = measure(&all[j], &loads[load]);
      close_setup(&all[j]);
      sched_setaffinity(0, sizeof cores, &cores); /* rank 0's device pinned this thread */
    }
  printf(
      "ms of a step    1 thread   1 rank, %u thr.  %u ranks, 1 thr. of 1 thread   of %u "
      "threads\n",
      n, n, n);
  for (size_t load = 0; load < N_LOADS; load++)
    print(all, load, rounds);
  return 0;
}
