/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a device of its own has left for the cache, found out by using it: the
 * largest prefill and the largest decode are run over a small pool, so that everything is
 * there that comes with the first steps (the libraries' kernels and working space,
 * graphs, the step's inputs). Then what the engine has taken since it began is known, and
 * the rest of its share of the memory is for the pool; vLLM's gpu_memory_utilization
 * means the same.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/engine/engine_internal.h"

#define MIB(bytes) ((size_t)(bytes) >> 20)

struct trial { /* steps of zeros */
  struct lls_engine *engine;
  int32_t *tokens;
  struct lls_block_entry *entries; /* (device_units) */
  struct lls_block_table *tables;  /* (max_sequences) */
  struct lls_engine_sequence *sequences;
  uint32_t n, used; /* sequences, units */
};

static uint32_t blocks_of(const struct lls_engine *e, uint32_t tokens)
{
  return (tokens + e->options.block_tokens - 1) / e->options.block_tokens;
}

static const struct lls_block_entry *next_list(struct trial *t, uint32_t tokens)
{
  uint32_t room = t->engine->options.block_tokens, n = blocks_of(t->engine, tokens);
  struct lls_block_entry *list = t->entries + t->used;
  for (uint32_t i = 0; i < n; i++)
    list[i] = (struct lls_block_entry){
        .block = t->used++, .first_token = i * room, .count = (uint16_t)room};
  return list;
}

/* As many sequences as there may be, of so many tokens each, and `rows` in all. */
static void fill(struct trial *t, uint32_t rows, uint32_t tokens)
{
  static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  const struct lls_engine *e = t->engine;
  t->n = t->used = 0;
  for (uint32_t done = 0, n; done < rows && t->n < e->options.max_sequences; done += n) {
    n = rows - done < tokens ? rows - done : tokens;
    uint32_t blocks = blocks_of(e, n);
    t->tables[t->n] = (struct lls_block_table){
        .form = LLS_FORM_KV, .k_count = blocks, .v_count = blocks};
    t->tables[t->n].k = next_list(t, n);
    t->tables[t->n].v = next_list(t, n);
    t->sequences[t->n] = (struct lls_engine_sequence){.tokens = t->tokens,
                                                      .n_tokens = n,
                                                      .table = &t->tables[t->n],
                                                      .sampling = &greedy};
    t->n++;
  }
}

static int run(struct trial *t, struct lls_error *err)
{
  const struct lls_engine_batch batch = {.n_sequences = t->n, .sequences = t->sequences};
  struct lls_engine_result result;
  int rc = lls_engine_submit(t->engine, &batch, err);
  return rc < 0 ? rc : lls_engine_wait(t->engine, &result, err);
}

static int run_all(struct trial *t, struct lls_error *err)
{
  const struct lls_engine_options *o = &t->engine->options;
  uint32_t decodes = o->max_sequences < o->max_tokens ? o->max_sequences : o->max_tokens;
  fill(t, o->max_tokens, t->engine->caps.max_context);
  int rc = run(t, err);
  fill(t, decodes, 1);
  for (int i = 0; i < 3 && rc == 0; i++) /* the second records a graph */
    rc = run(t, err);
  return rc;
}

static int try_steps(struct lls_engine *e, struct lls_error *err)
{
  struct trial t = {
      .engine = e,
      .tokens = calloc(e->options.max_tokens, sizeof *t.tokens),
      .entries = calloc(e->pool_shape.device_units, sizeof *t.entries),
      .tables = calloc(e->options.max_sequences, sizeof *t.tables),
      .sequences = calloc(e->options.max_sequences, sizeof *t.sequences),
  };
  int rc = -ENOMEM;
  if (t.tokens != NULL && t.entries != NULL && t.tables != NULL && t.sequences != NULL)
    rc = run_all(&t, err);
  else
    lls_fail(err, rc, "no memory for a trial step");
  free(t.tokens);
  free(t.entries);
  free(t.tables);
  free(t.sequences);
  return rc;
}

/* Bytes free with the small pool there, after the steps; the pool is gone again. */
static int use_memory(struct lls_engine *e, size_t *available, struct lls_error *err)
{
  const struct lls_device_ops *ops = e->device->ops;
  size_t total;
  int rc = ops->pool_create(e->device, &e->pool_shape, &e->pool, err);
  if (rc == 0)
    rc = try_steps(e, err);
  if (rc == 0 && (rc = ops->memory(e->device, &total, available)) < 0)
    lls_fail(err, rc, "the device does not tell its free memory");
  if (e->pool != NULL)
    ops->pool_destroy(e->device, e->pool);
  e->pool = NULL;
  return rc;
}

int lls_engine_profile_memory(struct lls_engine *e, size_t *bytes, struct lls_error *err)
{
  const struct lls_engine_options *o = &e->options;
  size_t total, available, least, unit = lls_unit_room(&e->pool_shape, false);
  int rc = e->device->ops->memory(e->device, &total, &available);
  if (rc < 0)
    return lls_fail(err, rc, "the device does not tell its free memory");
  uint32_t units = 2 * (blocks_of(e, o->max_tokens) + o->max_sequences);
  e->pool_shape.device_units = units;
  e->pool_shape.host_units = o->pool.host_memory > 0; /* it may take room here too */
  e->pool_shape.scratch_units = (e->caps.forms & LLS_BIT_HIDDEN) ? 2 : 0;
  rc = use_memory(e, &available, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "a trial step of %u tokens", o->max_tokens);
  available += units * unit; /* the small pool's */
  size_t used = e->memory_before > available ? e->memory_before - available : 0;
  size_t allowed = (size_t)(o->pool.gpu_memory_utilization * (double)total);
  *bytes = allowed > used ? allowed - used : 0;
  *bytes = *bytes < available ? *bytes : available;
  *bytes = lls_engine_without_scratch(e, *bytes);
  least = 2 * (size_t)blocks_of(e, o->max_tokens) * unit;
  if (*bytes >= least)
    return 0;
  return lls_fail(
      err, -ENOMEM,
      "the model does not fit: weights of %zu MiB and %zu MiB for steps of %u "
      "tokens leave %zu MiB of the %zu MiB that gpu_memory_utilization = %g "
      "allows of %zu MiB (%zu MiB are free), and such a step needs a cache of "
      "%zu MiB",
      MIB(e->weights.bytes), MIB(used > e->weights.bytes ? used - e->weights.bytes : 0),
      o->max_tokens, MIB(*bytes), MIB(allowed), o->pool.gpu_memory_utilization,
      MIB(total), MIB(available), MIB(least));
}
