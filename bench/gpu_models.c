/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of whole models with dummy weights through the engine, as the server runs them:
 * a decode step beside its lower bound; the time which sampling with top_p adds; a prompt
 * beside its operations over the matrix peak; and the share of a decode step until the
 * host has submitted all its work, which bounds the device's idle time between two steps.
 */
#include "bench/gpu.h"

#include "core/engine/engine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_TOKENS 16
#define MAX_TOKENS   8192
#define MAX_BATCH    256
#define CONTEXT      1024 /* cached tokens of a sequence, where memory suffices */
#define STEPS        24   /* steps in one measurement */

struct model {
  struct gpu_bench *bench;
  const char *name;
  struct lls_device *device;
  struct lls_engine *engine;
  const struct lls_model_config *config;
  uint32_t units;
  struct lls_block_entry *entries; /* (units) K and V lists of the sequences */
  struct lls_group_list lists[MAX_BATCH];
  struct lls_block_table tables[MAX_BATCH];
  struct lls_engine_sequence sequences[MAX_BATCH];
  int32_t tokens[MAX_TOKENS];
};

static bool open_model(struct model *m, const char *root)
{
  char folder[PATH_MAX];
  struct lls_error err = {""};
  struct lls_model_config config;
  snprintf(folder, sizeof folder, "%s/bench/%s", root, m->name);
  int rc = lls_model_config_read(folder, &config, &err);
  if (rc < 0) {
    fprintf(stderr, "bench/gpu: %s: %s\n", folder, lls_error_text(&err, rc));
    exit(1);
  }
  m->device = gpu_open(MAX_TOKENS, lls_engine_max_columns(&config), MAX_BATCH);
  const struct lls_engine_options options = {
      .model_path = folder,
      .dummy = true,
      .weights = LLS_WEIGHTS_AUTO,
      .cache_element = LLS_BF16,
      .max_tokens = MAX_TOKENS,
      .max_sequences = MAX_BATCH,
      .block_tokens = BLOCK_TOKENS,
      .cache_share = 0.85, /* scratch of the hidden form needs memory in addition */
  };
  rc = lls_engine_create(&options, &config, m->device, &m->engine, &err);
  if (rc < 0) {
    printf("%-34s left out: %s\n", m->name, lls_error_text(&err, rc));
    m->bench->left_out++;
    m->device->ops->destroy(m->device);
    return false;
  }
  m->config = lls_engine_config(m->engine);
  m->units = lls_engine_pool_shape(m->engine)->device_units;
  m->entries = calloc(m->units, sizeof *m->entries);
  if (m->entries == NULL)
    gpu_die("block tables", NULL, -ENOMEM);
  for (uint32_t i = 0; i < MAX_TOKENS; i++)
    m->tokens[i] = (int32_t)(i * 13 % m->config->vocab);
  return true;
}

static void close_model(struct model *m)
{
  lls_engine_destroy(m->engine);
  m->device->ops->destroy(m->device);
  free(m->entries);
}

static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1},
                                 drawn = {.temperature = 1,
                                          .top_p = 0.9f,
                                          .repetition_penalty = 1};

/* Lays out n sequences of `context` cached tokens (whatever the pool contains) and
 * n_tokens new ones. */
static void lay_out(struct model *m, uint32_t n, uint32_t context, uint32_t n_tokens)
{
  uint32_t blocks = (context + n_tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
  uint32_t units = lls_form_units(lls_engine_pool_shape(m->engine), LLS_FORM_KV);
  for (uint32_t i = 0; i < n * blocks; i++)
    m->entries[i] = (struct lls_block_entry){.block = i * units,
                                             .first_token = i % blocks * BLOCK_TOKENS,
                                             .count = BLOCK_TOKENS};
  for (uint32_t i = 0; i < n; i++) {
    m->lists[i] = (struct lls_group_list){.entries = m->entries + (size_t)i * blocks,
                                          .n_entries = blocks};
    m->tables[i] = (struct lls_block_table){.n_groups = 1, .lists = &m->lists[i]};
    m->sequences[i] = (struct lls_engine_sequence){
        .tokens = m->tokens,
        .n_tokens = n_tokens,
        .context = context,
        .table = &m->tables[i],
        .sampling = &greedy,
    };
  }
}

/* Returns the seconds of a step, and in *submitting those until the host had submitted
 * its work. */
static double step(struct model *m, uint32_t n, double *submitting)
{
  const struct lls_engine_batch batch = {.n_sequences = n, .sequences = m->sequences};
  struct lls_engine_result result;
  struct lls_error err = {""};
  double start = bench_seconds();
  int rc = lls_engine_submit(m->engine, &batch, &err);
  *submitting = bench_seconds() - start;
  if (rc == 0)
    rc = lls_engine_wait(m->engine, &result, &err);
  if (rc < 0)
    gpu_die("a step", &err, rc);
  return bench_seconds() - start;
}

/* Returns medians, after the first steps, which choose algorithms and record the graph.
 */
static double measure(struct model *m, uint32_t n, double *submitting)
{
  double times[STEPS], parts[STEPS];
  for (int i = -3; i < STEPS; i++) {
    gpu_watch(m->bench, i == STEPS - 1);
    double part, time = step(m, n, &part);
    if (i >= 0) {
      times[i] = time;
      parts[i] = part;
    }
  }
  gpu_watch(m->bench, false);
  *submitting = bench_median(parts, STEPS);
  return bench_median(times, STEPS);
}

/* The products of a layer; matrices() counts the weights of each. */
#define PRODUCTS 4
static void matrices(const struct lls_model_config *c, double numbers[PRODUCTS])
{
  double hidden = c->hidden;
  numbers[0] = hidden * lls_qkv_columns(c, 0);
  numbers[1] = hidden * c->heads * c->head_dim;
  numbers[2] = hidden * c->ffn * (c->gated ? 2.0 : 1.0);
  numbers[3] = hidden * c->ffn;
}

/* Returns a lower bound of a product's seconds: the larger of its weights' bytes over
 * the copy bandwidth and of the operations of n rows over the matrix peak. At 256 rows
 * both are close. */
static double product_floor(const struct gpu_limits *l, double numbers, uint32_t n)
{
  double bytes = 2 * numbers / l->copy, operations = 2 * numbers * n / l->matrix;
  return bytes > operations ? bytes : operations;
}

/* Returns a lower bound of a decode step: all products, and reading the keys and values
 * of every sequence. */
static double decode_floor(const struct model *m, uint32_t n, uint32_t context)
{
  const struct lls_model_config *c = m->config;
  const struct gpu_limits *l = &m->bench->limits;
  double numbers[PRODUCTS], layer = 0;
  matrices(c, numbers);
  for (int i = 0; i < PRODUCTS; i++)
    layer += product_floor(l, numbers[i], n);
  layer += 2.0 * 2 * c->kv_heads * c->head_dim * (context + 1.0) * n / l->copy;
  return c->layers * layer + product_floor(l, (double)c->hidden * c->vocab, n);
}

static void decode(struct model *m, uint32_t n)
{
  char name[64];
  double submitting;
  uint32_t room = m->units / (2 * n) * BLOCK_TOKENS;
  uint32_t context = CONTEXT + 1 < room ? CONTEXT : room > 1 ? room - 1 : 0;
  snprintf(name, sizeof name, "%s decode %u x %u", m->name, n, context);
  if (gpu_leave_out(m->bench, name, room < 64, 0))
    return;
  lay_out(m, n, context, 1);
  double seconds = measure(m, n, &submitting);
  gpu_result(m->bench, name, "times its floor", seconds / decode_floor(m, n, context),
             1.15, true);
  for (uint32_t i = 0; i < n; i++)
    m->sequences[i].sampling = &drawn;
  double ignored, sampled = measure(m, n, &ignored);
  gpu_result(m->bench, name, "drawing with top_p, part of it",
             (sampled - seconds) / seconds, 0.03, true);
  gpu_result(m->bench, name, "host before the device, part", submitting / seconds, 0.03,
             true);
}

static void prefill(struct model *m, uint32_t n)
{
  const struct lls_model_config *c = m->config;
  char name[64];
  double submitting;
  snprintf(name, sizeof name, "%s prefill %u", m->name, n);
  if (n > lls_engine_caps(m->engine)->max_context ||
      gpu_leave_out(m->bench, name, 2 * n / BLOCK_TOKENS > m->units, 0))
    return;
  lay_out(m, 1, 0, n);
  double seconds = measure(m, 1, &submitting);
  double numbers[PRODUCTS], layer = 0;
  matrices(c, numbers);
  for (int i = 0; i < PRODUCTS; i++)
    layer += numbers[i];
  double attention = 2.0 * c->heads * c->head_dim * n; /* a causal mask leaves half */
  double operations = c->layers * n * (2 * layer + attention);
  gpu_result(m->bench, name, "of the matrix peak",
             operations / seconds / m->bench->limits.matrix, 0.65, false);
}

static void one_model(struct gpu_bench *b, const char *root, const char *name)
{
  static struct model m;
  static const uint32_t batches[] = {1, 16, 64, 256}, prompts[] = {2048, 8192};
  m = (struct model){.bench = b, .name = name};
  if (b->only != NULL ? strncmp(b->only, name, strlen(name)) != 0
                      : gpu_leave_out(b, name, 0, 0))
    return;
  if (!open_model(&m, root))
    return;
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
    decode(&m, batches[i]);
  for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
    prefill(&m, prompts[i]);
  close_model(&m);
}

void gpu_models(struct gpu_bench *b, const char *root)
{
  one_model(b, root, "llama-3-8b");
  one_model(b, root, "opt-13b");
}
