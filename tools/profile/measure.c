/* SPDX-License-Identifier: Apache-2.0 */
/* Runs measurement steps; see measure.h. */
#include "tools/profile/measure.h"

#include <errno.h>
#include <stdlib.h>

/* Decodes that warm the caches before a measured step; 3 were not enough. A GPU's
 * caches are too small for weights to matter; there a decode needs two equal ones
 * before it, of which the second records a graph that the third runs, and other steps
 * need none. */
#define DECODES_BEFORE     10
#define DECODES_BEFORE_GPU 2
#define DECODES_TIMED      3
#define DECODES_TIMED_GPU  1

int lls_bench_engine_init(struct lls_bench_engine *b, struct lls_engine *engine,
                          struct lls_error *err)
{
  const struct lls_engine_caps *caps = lls_engine_caps(engine);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(engine);
  *b = (struct lls_bench_engine){.engine = engine, .max_sequences = caps->max_sequences};
  b->sequences = calloc(caps->max_sequences, sizeof *b->sequences);
  b->tables = calloc(caps->max_sequences, sizeof *b->tables);
  b->lists = calloc((size_t)caps->n_groups * caps->max_sequences, sizeof *b->lists);
  b->entries = calloc(pool->device_units, sizeof *b->entries);
  b->tokens = calloc(caps->max_step_tokens, sizeof *b->tokens);
  if (b->sequences == NULL || b->tables == NULL || b->lists == NULL ||
      b->entries == NULL || b->tokens == NULL) {
    lls_bench_engine_free(b);
    return lls_fail(err, -ENOMEM, "no memory for steps to measure");
  }
  uint32_t vocab = lls_engine_config(engine)->vocab;
  for (uint32_t i = 0; i < caps->max_step_tokens; i++)
    b->tokens[i] = (int32_t)(i * UINT32_C(2654435761) % vocab);
  return 0;
}

void lls_bench_engine_free(struct lls_bench_engine *b)
{
  free(b->sequences);
  free(b->tables);
  free(b->lists);
  free(b->entries);
  free(b->tokens);
  *b = (struct lls_bench_engine){0};
}

/* Lists of n whole blocks for each group, from block `first` of the pool on: there a
 * block of each group follows the other. All sequences have one state, after `context`
 * tokens, at the pool's end. */
static void lay_lists(const struct lls_bench_engine *b, struct lls_group_list *lists,
                      struct lls_block_entry *entries, uint32_t n, uint32_t first,
                      uint32_t context)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(b->engine);
  uint32_t all = lls_all_units(pool), before = 0;
  for (uint32_t group = 0; group < lls_pool_groups(pool); group++) {
    if (lls_group_is_state(pool, group)) {
      uint32_t units = lls_group_units(pool, group, LLS_FORM_STATE);
      lists[group] = (struct lls_group_list){.entries = entries, .n_entries = 1};
      *entries++ = (struct lls_block_entry){.block = pool->device_units - units,
                                            .first_token = context};
      continue;
    }
    lists[group] = (struct lls_group_list){.entries = entries, .n_entries = n};
    for (uint32_t i = 0; i < n; i++)
      *entries++ = (struct lls_block_entry){.block = (first + i) * all + before,
                                            .first_token = i * pool->block_tokens,
                                            .count = (uint16_t)pool->block_tokens};
    before += lls_group_units(pool, group, LLS_FORM_KV);
  }
}

static void lay_out(struct lls_bench_engine *b, const struct lls_shape *shape)
{
  static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  uint32_t block = 0, row = 0, n_groups = lls_engine_caps(b->engine)->n_groups;
  uint32_t block_tokens = lls_engine_pool_shape(b->engine)->block_tokens;
  for (uint32_t i = 0; i < shape->n; i++) {
    const struct lls_shape_part *part = &shape->parts[i];
    uint32_t n = (part->context + part->tokens + block_tokens - 1) / block_tokens;
    struct lls_group_list *lists = &b->lists[(size_t)i * n_groups];
    lay_lists(b, lists, b->entries + (size_t)block * n_groups, n, block, part->context);
    b->tables[i] = (struct lls_block_table){.n_groups = n_groups, .lists = lists};
    b->sequences[i] = (struct lls_engine_sequence){
        .tokens = b->tokens + row,
        .n_tokens = part->tokens,
        .context = part->context,
        .table = &b->tables[i],
        .sampling = part->drawn ? &greedy : NULL,
    };
    block += n;
    row += part->tokens;
  }
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double lls_median(double *numbers, size_t n)
{
  qsort(numbers, n, sizeof *numbers, compare);
  return numbers[n / 2];
}

static int run(struct lls_bench_engine *b, const struct lls_engine_batch *batch,
               double *ns, struct lls_error *err)
{
  struct lls_engine_result result;
  int rc = lls_engine_submit(b->engine, batch, err);
  if (rc == 0)
    rc = lls_engine_wait(b->engine, &result, err);
  if (rc == 0)
    *ns = (double)result.duration_ns;
  return rc;
}

static int run_shape(struct lls_bench_engine *b, const struct lls_shape *shape,
                     double *ns, struct lls_error *err)
{
  lay_out(b, shape);
  const struct lls_engine_batch batch = {.n_sequences = shape->n,
                                         .sequences = b->sequences};
  return run(b, &batch, ns, err);
}

/*
 * Measures a step after some decodes, as nearly every step of a server runs: after
 * equal decodes if it is one, else after decodes of one sequence. Directly after a
 * prompt or another batch, which fill the caches with other data than weights, a decode
 * takes 1.2 times as long.
 */
int lls_bench_step(struct lls_bench_engine *b, const struct lls_shape *shape, double *ns,
                   struct lls_error *err)
{
  static struct lls_shape_part one = {.tokens = 1, .context = 15, .drawn = true};
  static const struct lls_shape single = {
      .kind = LLS_SHAPE_DECODE, .n = 1, .parts = &one};
  bool decode = shape->kind == LLS_SHAPE_DECODE;
  bool gpu = lls_engine_is_asynchronous(b->engine);
  int before = !gpu ? DECODES_BEFORE : decode ? DECODES_BEFORE_GPU : 0;
  int timed = !decode ? 1 : gpu ? DECODES_TIMED_GPU : DECODES_TIMED;
  double sum = 0;
  int rc = 0;
  for (int i = 0; rc == 0 && i < before; i++)
    rc = run_shape(b, decode ? shape : &single, ns, err);
  for (int i = 0; rc == 0 && i < timed; i++) {
    rc = run_shape(b, shape, ns, err);
    sum += *ns;
  }
  *ns = sum / timed;
  return rc;
}

int lls_bench_copy(struct lls_bench_engine *b, uint32_t n, double *ns,
                   struct lls_error *err)
{
  struct lls_copy *copies = calloc(n, sizeof *copies);
  if (copies == NULL)
    return lls_fail(err, -ENOMEM, "no memory for %u copies", n);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(b->engine);
  uint32_t units = lls_form_units(pool, LLS_FORM_KV);
  for (uint32_t i = 0; i < n; i++)
    copies[i] = (struct lls_copy){.target_tier = LLS_TIER_HOST,
                                  .n_slots = (uint16_t)pool->block_tokens,
                                  .source = i * units,
                                  .target = i * units};
  const struct lls_engine_batch batch = {.n_copies = n, .copies = copies};
  int rc = run(b, &batch, ns, err);
  free(copies);
  return rc;
}
