/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model over windows of a text; see scorer.h. */
#include "tools/perplexity/scorer.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/progress_bar.h"
#include "kernels/cpu/device.h"

#define BLOCK_TOKENS 16
#define STEP_TOKENS  512 /* most tokens in one step */

static int create_engine(struct lls_scorer *s, const struct lls_scorer_options *o,
                         uint32_t blocks, struct lls_error *err)
{
  const struct lls_model_config *c = &s->config;
  /* the same choice as [cache] element = auto */
  enum lls_dtype element = c->dtype == LLS_F32 ? LLS_F32 : LLS_BF16;
  const struct lls_pool_shape shape = {
      .layers = c->layers,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .block_tokens = BLOCK_TOKENS,
      .element = element,
      .int8 = o->int8 ? LLS_INT8_ALL : LLS_INT8_OFF,
      .latent = c->latent.rank > 0,
  };
  struct lls_progress loading;
  s->units[0] = lls_form_units(&shape, LLS_FORM_KV);
  s->units[1] = o->int8 ? lls_form_units(&shape, LLS_FORM_INT8) : 0;
  const struct lls_engine_options engine = {
      .model_path = o->model,
      .weights = o->weights,
      .cache_element = element,
      .max_tokens = STEP_TOKENS,
      .max_sequences = 1,
      .max_context = o->context,
      .max_logits = LLS_SCORER_ROWS,
      .block_tokens = BLOCK_TOKENS,
      .cache_bytes =
          (s->units[0] + (size_t)s->units[1]) * blocks * lls_unit_bytes(&shape),
      .pool.int8 = shape.int8,
      .no_hidden = true,
      .progress = lls_progress_weights,
      .progress_context = &loading,
  };
  const struct lls_device_options device = {
      .threads = o->threads,
      .max_rows = STEP_TOKENS,
      .max_sequences = 1,
      .max_columns = lls_engine_max_columns(c),
  };
  int rc = lls_cpu_device_create(&device, &s->device, err);
  if (rc < 0)
    return rc;
  lls_progress_begin(&loading, !o->quiet, "llmserve-perplexity");
  rc = lls_engine_create(&engine, c, s->device, &s->engine, err);
  lls_progress_end(&loading);
  return rc;
}

/* Sets the window's blocks to their state before any token is cached. */
static void begin_window(struct lls_scorer *s)
{
  for (uint32_t i = 0; i < s->list.n_entries; i++)
    s->entries[i] = (struct lls_block_entry){
        .block = i * s->units[0], .first_token = i * BLOCK_TOKENS, .count = BLOCK_TOKENS};
  s->n_int8 = 0;
}

/* Creates a block table for the whole window. */
static int create_table(struct lls_scorer *s, uint32_t blocks, bool int8,
                        struct lls_error *err)
{
  s->entries = calloc(blocks, sizeof *s->entries);
  if (int8)
    s->copies = calloc(blocks, sizeof *s->copies);
  if (s->entries == NULL || (int8 && s->copies == NULL))
    return lls_fail(err, -ENOMEM, "no memory for a window of %u blocks", blocks);
  s->list = (struct lls_group_list){.entries = s->entries, .n_entries = blocks};
  s->table = (struct lls_block_table){.n_groups = 1, .lists = &s->list};
  return 0;
}

int lls_scorer_open(struct lls_scorer *s, const struct lls_scorer_options *o,
                    struct lls_error *err)
{
  uint32_t blocks = (o->context + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
  *s = (struct lls_scorer){.rows = o->int8 ? BLOCK_TOKENS : LLS_SCORER_ROWS};
  int rc = lls_generator_config_read(o->model, &s->config, err);
  if (rc == 0 && o->context > s->config.max_context)
    rc = lls_fail(err, -EINVAL, "%s: has %u positions, and --context asks for %u",
                  o->model, s->config.max_context, o->context);
  if (rc == 0)
    rc = create_table(s, blocks, o->int8, err);
  if (rc == 0)
    rc = create_engine(s, o, blocks, err);
  if (rc < 0)
    lls_scorer_close(s);
  return rc;
}

void lls_scorer_close(struct lls_scorer *s)
{
  lls_engine_destroy(s->engine);
  if (s->device != NULL)
    s->device->ops->destroy(s->device);
  free(s->entries);
  free(s->copies);
  *s = (struct lls_scorer){.device = NULL};
}

/* Makes the copy that quantises a block after all of its tokens are cached. */
static struct lls_copy quantise(struct lls_block_entry *e, uint32_t to)
{
  const struct lls_copy copy = {
      .n_slots = BLOCK_TOKENS,
      .source = e->block,
      .target = to,
      .target_form = LLS_FORM_INT8,
  };
  e->block = to;
  e->form = LLS_FORM_INT8;
  return copy;
}

/* Lists copies for the blocks that `cached` tokens fill and that are not int8 yet;
 * returns their number. */
static uint32_t quantise_full(struct lls_scorer *s, uint32_t cached)
{
  const uint32_t behind = s->list.n_entries * s->units[0]; /* the blocks in KV form */
  uint32_t n = 0;
  for (; s->copies != NULL && s->n_int8 < cached / BLOCK_TOKENS; s->n_int8++)
    s->copies[n++] = quantise(&s->entries[s->n_int8], behind + s->n_int8 * s->units[1]);
  return n;
}

static int step(struct lls_scorer *s, const int32_t *tokens, uint32_t first, uint32_t n,
                bool logits, struct lls_error *err)
{
  const struct lls_engine_sequence sequence = {.tokens = tokens,
                                               .n_tokens = n,
                                               .context = first,
                                               .table = &s->table,
                                               .all_logits = logits};
  const struct lls_engine_batch batch = {.n_sequences = 1,
                                         .sequences = &sequence,
                                         .n_copies = quantise_full(s, first),
                                         .copies = s->copies};
  struct lls_engine_result result;
  int rc = lls_engine_submit(s->engine, &batch, err);
  return rc == 0 ? lls_engine_wait(s->engine, &result, err) : rc;
}

int lls_scorer_skip(struct lls_scorer *s, const int32_t *tokens, uint32_t first,
                    uint32_t n, struct lls_error *err)
{
  int rc = 0;
  if (first == 0)
    begin_window(s);
  for (uint32_t at = 0, some; rc == 0 && at < n; at += some) {
    some = n - at < STEP_TOKENS ? n - at : STEP_TOKENS;
    rc = step(s, tokens + at, first + at, some, false, err);
  }
  return rc;
}

int lls_scorer_rows(struct lls_scorer *s, const int32_t *tokens, uint32_t first,
                    uint32_t n, const float **logits, struct lls_error *err)
{
  int rc = step(s, tokens, first, n, true, err);
  *logits = rc == 0 ? lls_engine_logits(s->engine, 0) : NULL;
  return rc;
}
