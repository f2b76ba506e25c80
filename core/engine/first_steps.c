/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of zeros, before there are any requests: the largest ones, so that the memory
 * they need can be measured (memory_profile.c), and steps that compute nothing, which
 * let a device prepare.
 *
 * There is one preparing step for each number of rows that is frequent in serving.
 * Decode steps have any number of rows, which a GPU pads to 1, 2, 4 and multiples of 8
 * (kernels/cuda/ops.h); graphs end at 256 rows. Steps with prompts mostly have
 * max_tokens rows, else any number; powers of two represent these.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "core/engine/engine_internal.h"

#define MOST_OF_EACH 256 /* rows: up to here every padded number is tried */

struct trial {
  struct lls_engine *engine;
  int32_t *tokens;
  struct lls_block_entry *entries; /* (groups, trial_blocks) */
  struct lls_group_list *lists;    /* (max_sequences, groups) */
  struct lls_block_table *tables;  /* (max_sequences) */
  struct lls_engine_sequence *sequences;
  uint32_t n, used; /* sequences, blocks of each group */
};

static uint32_t blocks_of(const struct lls_engine *e, uint32_t tokens)
{
  return (tokens + e->options.block_tokens - 1) / e->options.block_tokens;
}

static uint32_t trial_blocks(const struct lls_engine *e)
{
  return blocks_of(e, e->options.max_tokens) + e->options.max_sequences;
}

uint32_t lls_engine_trial_units(const struct lls_engine *e)
{
  uint32_t units = lls_all_units(&e->pool_shape) * trial_blocks(e);
  for (uint32_t i = 0; i < e->caps.n_groups; i++) /* a state is as many tokens' K and V */
    units = lls_most_u32(units, e->groups[i].form_units[LLS_FORM_KV]);
  return units;
}

/* Returns a group's list of the next blocks. If the pool is too small it wraps, so that
 * several lists share blocks; all groups do, since nothing reads what is written. */
static const struct lls_block_entry *next_list(const struct trial *t, uint32_t group,
                                               uint32_t n)
{
  bool state = lls_engine_group_is_state(t->engine, group);
  const struct lls_engine *e = t->engine;
  uint32_t units = e->groups[group].form_units[LLS_FORM_KV];
  uint32_t blocks = e->pool_shape.device_units / units, room = e->options.block_tokens;
  struct lls_block_entry *list = t->entries + (size_t)group * trial_blocks(e) + t->used;
  for (uint32_t i = 0; i < n; i++)
    list[i] = (struct lls_block_entry){.block = (t->used + i) % blocks * units,
                                       .first_token = i * room,
                                       .count = (uint16_t)(state ? 0 : room)};
  return list;
}

/* Fills the lists of a sequence of that many tokens. */
static void lay_lists(struct trial *t, struct lls_group_list *lists, uint32_t tokens)
{
  uint32_t n = blocks_of(t->engine, tokens);
  for (uint32_t i = 0; i < t->engine->caps.n_groups; i++)
    lists[i] = (struct lls_group_list){
        .entries = next_list(t, i, n),
        .n_entries = lls_engine_group_is_state(t->engine, i) ? 1 : n};
  t->used += n;
}

/* Fills the batch with `rows` rows: up to max_sequences sequences of up to `tokens`
 * tokens. */
static void fill(struct trial *t, uint32_t rows, uint32_t tokens)
{
  static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  const struct lls_engine *e = t->engine;
  t->n = t->used = 0;
  for (uint32_t done = 0, n; done < rows && t->n < e->options.max_sequences; done += n) {
    n = rows - done < tokens ? rows - done : tokens;
    struct lls_group_list *lists = &t->lists[(size_t)t->n * e->caps.n_groups];
    lay_lists(t, lists, n);
    t->tables[t->n] =
        (struct lls_block_table){.n_groups = e->caps.n_groups, .lists = lists};
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

/* Returns the next number of rows to try. */
static uint32_t after(uint32_t rows)
{
  return rows >= 8 && rows < MOST_OF_EACH ? rows + 8 : 2 * rows;
}

static int prepare_all(struct trial *t, struct lls_error *err)
{
  const struct lls_engine_options *o = &t->engine->options;
  for (uint32_t rows = 1;; rows = lls_least_u32(after(rows), o->max_tokens)) {
    fill(t, rows, rows <= o->max_sequences ? 1 : t->engine->caps.max_context);
    int rc = run(t, err);
    if (rc < 0 || rows == o->max_tokens)
      return rc;
  }
}

static int with_trial(struct lls_engine *e,
                      int (*steps)(struct trial *, struct lls_error *),
                      struct lls_error *err)
{
  struct trial t = {
      .engine = e,
      .tokens = calloc(e->options.max_tokens, sizeof *t.tokens),
      .entries = calloc((size_t)e->caps.n_groups * trial_blocks(e), sizeof *t.entries),
      .lists =
          calloc((size_t)e->caps.n_groups * e->options.max_sequences, sizeof *t.lists),
      .tables = calloc(e->options.max_sequences, sizeof *t.tables),
      .sequences = calloc(e->options.max_sequences, sizeof *t.sequences),
  };
  int rc = -ENOMEM;
  if (t.tokens != NULL && t.entries != NULL && t.lists != NULL && t.tables != NULL &&
      t.sequences != NULL)
    rc = steps(&t, err);
  else
    lls_fail(err, rc, "no memory for a trial step");
  if (e->table_cache.arena != NULL)
    lls_table_cache_forget(e);
  free(t.tokens);
  free(t.entries);
  free(t.lists);
  free(t.tables);
  free(t.sequences);
  return rc;
}

int lls_engine_try_steps(struct lls_engine *e, struct lls_error *err)
{
  return with_trial(e, run_all, err);
}

int lls_engine_prepare(struct lls_engine *e, struct lls_error *err)
{
  if (!e->device->prepares || lls_engine_is_shared(e) || e->config.encoder)
    return 0;
  e->prepares = true;
  int rc = with_trial(e, prepare_all, err);
  e->prepares = false;
  return rc;
}
