/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes an engine: weights, then the pool in the memory that is left, then the step's
 * buffers, each sized for the largest step. See engine.h.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "core/engine/forward.h"

#define MIB(bytes) ((size_t)(bytes) >> 20)

/* ---- options -------------------------------------------------------------------- */

/* Returns the tokens of the longest sequence of a generator. */
static uint32_t context_of(const struct lls_engine_options *o, uint32_t most)
{
  uint32_t context = o->max_context;
  return context == 0 || context > most ? most : context;
}

static int check_options(const struct lls_engine_options *o,
                         const struct lls_model_config *config,
                         const struct lls_device *device, struct lls_error *err)
{
  if (o->max_tokens == 0 || o->max_sequences == 0 || o->block_tokens == 0)
    return lls_fail(err, -EINVAL,
                    "the engine's step tokens, sequences and block size should be 1 or "
                    "more");
  if (o->cache_element != LLS_F32 && o->cache_element != LLS_BF16)
    return lls_fail(err, -ENOTSUP, "a cache of f32 or bf16 is supported");
  if (config->joins &&
      (o->ends_of == NULL || !device->is_host ||
       lls_engine_why_no_heads(o->ends_of->device, lls_engine_is_shared(o->ends_of)) !=
           NULL ||
       o->ends_of->device->activation_type != device->activation_type))
    return lls_fail(err, -EINVAL,
                    "a layer that guesses needs the embedding and the head of a model in "
                    "host memory, and its type of activations");
  if (config->encoder && device->ops->attention_both_ways == NULL)
    return lls_fail(err, -ENOTSUP,
                    "device %s has no attention in both directions, which an encoder "
                    "needs: set [engine] device = cpu",
                    device->ops->name);
  uint32_t lacking =
      lls_model_extras(config, context_of(o, config->max_context)) & ~device->extras;
  if (lacking != 0)
    return lls_fail(err, -ENOTSUP,
                    "device %s does not have %s, which this model needs: set [engine] "
                    "device = cpu",
                    device->ops->name, lls_extra_name(lacking));
  if (o->pool.int8 != LLS_INT8_OFF && !device->has_int8)
    return lls_fail(err, -ENOTSUP,
                    "device %s has no cache of int8 numbers: set [cache] int8 = off",
                    device->ops->name);
  return 0;
}

/* ---- parts ---------------------------------------------------------------------- */

static int load_weights(struct lls_engine *e, struct lls_error *err)
{
  const struct lls_engine_options *o = &e->options;
  if (o->weights_of != NULL && e->device->is_host && o->weights_of->device->is_host) {
    e->weights = o->weights_of->weights;
    e->borrows_weights = true;
    return 0;
  }
  size_t cache = o->cache_bytes;
  if (cache == 0)
    cache = lls_engine_units_for(e, o->max_tokens) * lls_unit_bytes(&e->pool_shape);
  if (e->device->is_host && o->pool.host_memory != LLS_NEVER)
    cache += (size_t)o->pool.host_memory;
  struct lls_weights_source source = {
      .folder = o->model_path,
      .dummy = o->dummy,
      .format = o->weights,
      .ends = o->ends_of != NULL ? &o->ends_of->weights : NULL,
      .sharers = lls_engine_sharers(e),
      .other_bytes = cache + lls_engine_buffer_bytes(e),
      .progress = o->progress,
      .progress_context = o->progress_context,
  };
  snprintf(source.other_text, sizeof source.other_text,
           "%zu MiB of cache and %zu MiB of buffers", MIB(cache),
           MIB(lls_engine_buffer_bytes(e)));
  return lls_weights_load(&e->weights, &source, &e->model, &e->shard, e->device, err);
}

/* ---- agreement of the ranks ------------------------------------------------------ */

/* FNV-1a hash of everything that the meaning of a step depends on. */
static uint64_t fingerprint(const struct lls_engine *e)
{
  const struct lls_model_config *c = &e->model;
  const struct lls_engine_options *o = &e->options;
  const uint32_t facts[] = {
      c->layers,        c->hidden,        c->heads,          c->kv_heads,
      c->head_dim,      c->ffn,           c->vocab,          e->caps.max_context,
      o->max_tokens,    o->max_sequences, o->max_logits,     o->block_tokens,
      o->weights,       o->cache_element, e->caps.forms,     (uint32_t)o->pool.int8,
      e->caps.n_groups, o->adapters,      e->caps.max_drafts};
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    hash = (hash ^ facts[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* Checks that all ranks have the same model and limits. The exchange also makes each
 * rank wait until all have loaded. */
static int agree_on_shape(struct lls_engine *e, struct lls_error *err)
{
  struct lls_ranks *ranks = e->options.ranks;
  uint64_t mine = fingerprint(e), all[LLS_MAX_RANKS];
  if (!lls_engine_is_shared(e))
    return 0;
  if (ranks->ops->exchange(ranks, &mine, sizeof mine, all) < 0)
    return lls_ranks_failed(ranks, err);
  for (uint32_t rank = 1; rank < ranks->size; rank++)
    if (all[rank] != all[0])
      return lls_fail(err, -EINVAL,
                      "rank %u has another model or other limits than rank 0: start all "
                      "with the same configuration",
                      rank);
  return 0;
}

/* Allocates the list of scratch blocks, whose length depends on the size of the pool. */
static int make_scratch(struct lls_engine *e, struct lls_error *err)
{
  size_t blocks = e->pool_shape.scratch_blocks;
  e->scratch_entries = calloc(blocks + 1, sizeof *e->scratch_entries);
  if (e->scratch_entries == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a list of %zu blocks", blocks);
  return 0;
}

static int make_tables(struct lls_engine *e, struct lls_error *err)
{
  size_t rows = e->options.max_tokens, sequences = e->options.max_sequences;
  size_t draws = sequences + e->draft_rows;
  uint32_t widest = lls_most_u32(e->config.hidden, e->config.embed_dim);
  const struct {
    void **array;
    size_t n, size;
  } arrays[] = {
      {(void **)&e->tokens, rows, sizeof *e->tokens},
      {(void **)&e->positions, rows, sizeof *e->positions},
      {(void **)&e->row_sequence, rows, sizeof *e->row_sequence},
      {(void **)&e->sequences, sequences * e->caps.n_groups, sizeof *e->sequences},
      {(void **)&e->spans, 2 * rows, sizeof *e->spans},
      {(void **)&e->logit_rows, e->max_logit_rows, sizeof *e->logit_rows},
      {(void **)&e->sampling, draws, sizeof *e->sampling},
      {(void **)&e->sampled, draws, sizeof *e->sampled},
      {(void **)&e->result, sequences, sizeof *e->result},
      {(void **)&e->score_rows, rows, sizeof *e->score_rows},
      {(void **)&e->score_params, rows, sizeof *e->score_params},
      {(void **)&e->score_sampling, rows, sizeof *e->score_sampling},
      {(void **)&e->scores, rows, sizeof *e->scores},
      {(void **)&e->score_targets, rows, sizeof *e->score_targets},
      {(void **)&e->pooled_rows, rows, sizeof *e->pooled_rows},
      {(void **)&e->pooled_sums, rows, sizeof *e->pooled_sums},
      {&e->pooled, e->max_logit_rows * (size_t)widest, sizeof(float)},
      {(void **)&e->first_logit, sequences, sizeof *e->first_logit},
      {(void **)&e->logits, (size_t)e->options.max_logits * e->config.vocab + 1,
       sizeof *e->logits},
      {(void **)&e->inverse_frequency,
       (e->config.rope.dims + e->config.local_rope.dims) / 2 + 1,
       sizeof *e->inverse_frequency},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    *arrays[i].array = calloc(arrays[i].n, arrays[i].size);
    if (*arrays[i].array == NULL)
      return lls_fail(err, -ENOMEM, "no memory for a step of %zu tokens", rows);
  }
  return 0;
}

/* ---- guesses --------------------------------------------------------------------- */

const char *lls_engine_why_no_drafts(const struct lls_engine *e)
{
  if (e->config.encoder)
    return "an encoder makes no tokens";
  return NULL;
}

uint32_t lls_engine_draft_rows(const struct lls_engine *e)
{
  return e->draft_rows;
}

/* ---- life ----------------------------------------------------------------------- */

/* Returns the most tokens of an encoder's text, which one step must compute whole. */
static uint32_t longest_text(const struct lls_engine *e, uint32_t context)
{
  uint32_t most = lls_longest_text(&e->config);
  most = lls_least_u32(most, e->options.max_tokens);
  return lls_least_u32(most, context);
}

/* Makes blocks as small as possible for an encoder: policies assign blocks to its texts
 * as to all requests, but the engine writes nothing to them. */
static void shrink_blocks(struct lls_pool_shape *shape)
{
  shape->layers = shape->kv_heads = shape->head_dim = 1;
  shape->int8 = LLS_INT8_OFF;
}

static int describe_model(struct lls_engine *e, struct lls_error *err)
{
  const struct lls_model_config *c = &e->config;
  const struct lls_engine_options *o = &e->options;
  uint32_t context = context_of(o, c->max_context);
  if (c->encoder)
    context = longest_text(e, context);
  e->attention = (struct lls_attention_shape){
      .heads = c->heads,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .scale =
          c->attention_scale > 0 ? c->attention_scale : 1 / sqrtf((float)c->head_dim),
      .soft_cap = c->attention_cap,
      .latent = c->latent.rank > 0,
  };
  e->pool_shape = (struct lls_pool_shape){
      .layers = c->layers,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .block_tokens = o->block_tokens,
      .element = o->cache_element,
      .max_context = context,
      .int8 = (uint32_t)o->pool.int8,
      .latent = c->latent.rank > 0,
  };
  e->grows_queries = (lls_model_extras(c, context) & LLS_EXTRA_QUERY_GROWTH) != 0;
  int rc = lls_engine_divide_layers(e, err);
  if (rc < 0)
    return rc;
  if (c->encoder)
    shrink_blocks(&e->pool_shape);
  bool hidden = !o->no_hidden && lls_engine_why_no_hidden(e) == NULL;
  e->caps = (struct lls_engine_caps){
      .size = sizeof e->caps,
      .max_step_tokens = o->max_tokens,
      .max_sequences = o->max_sequences,
      .max_context = context,
      .n_groups = e->caps.n_groups,
      .forms = LLS_BIT_KV | (hidden ? LLS_BIT_HIDDEN : 0),
      .preempt_modes = 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER,
      .mixed_batch = true,
      .chunked_prefill = !c->encoder,
      .right_to_left = true,
  };
  if (o->pool.host_memory != 0)
    e->caps.preempt_modes |= 1u << LLS_PREEMPT_SWAP;
  lls_engine_make_groups(e);
  if (lls_engine_why_no_drafts(e) == NULL)
    e->caps.max_drafts = o->max_drafts;
  if (e->caps.max_drafts > 0)
    e->draft_rows = lls_most_u32(e->caps.max_drafts, o->max_sequences);
  e->max_logit_rows = o->max_sequences + e->draft_rows + o->max_logits;
  if (e->max_logit_rows > o->max_tokens)
    e->max_logit_rows = o->max_tokens;
  return 0;
}

static struct lls_rope_shape rope_shape(const struct lls_engine *e,
                                        const struct lls_rope_config *rope, float *room)
{
  lls_rope_frequencies(rope, e->caps.max_context, room);
  double factor = rope->attention_factor;
  return (struct lls_rope_shape){
      .head_dim = e->config.head_dim,
      .rotary_dims = rope->dims,
      .first = e->config.latent.rank,
      .inverse_frequency = room,
      .attention_factor = factor > 0 ? (float)factor : 1,
  };
}

static void describe_ropes(struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  e->ropes[LLS_LAYER_ROPE] = rope_shape(e, &c->rope, e->inverse_frequency);
  e->ropes[LLS_LAYER_ROPE_LOCAL] =
      rope_shape(e, &c->local_rope, e->inverse_frequency + c->rope.dims / 2);
  e->ropes[LLS_LAYER_ROPE_OFF] = (struct lls_rope_shape){.head_dim = c->head_dim};
}

/* Takes this rank's share of the model. */
static int take_share(struct lls_engine *e, const struct lls_model_config *model,
                      struct lls_error *err)
{
  int rc = lls_shard_make(model, e->options.ranks, &e->shard, err);
  e->model = *model;
  lls_model_fit_index(&e->model, context_of(&e->options, model->max_context));
  e->config = e->model;
  lls_shard_config(&e->shard, &e->config);
  if (rc < 0 || !lls_engine_is_shared(e))
    return rc;
  if (e->device->ops->all_reduce == NULL)
    return lls_fail(err, -ENOTSUP, "the device %s cannot share a model among ranks",
                    e->device->ops->name);
  rc = lls_engine_message_init(e);
  if (rc == 0 && e->options.adapters && !e->options.ranks->ops->one_process)
    rc = lls_rank_adapters_init(&e->rank_adapters, model, e->options.max_sequences);
  return rc < 0 ? lls_fail(err, -ENOMEM, "out of memory") : 0;
}

static int make_parts(struct lls_engine *e, struct lls_error *err)
{
  size_t total;
  int rc = lls_engine_measures_memory(e)
               ? e->device->ops->memory(e->device, &total, &e->memory_before)
               : 0;
  if (rc < 0)
    return lls_fail(err, rc, "the device does not tell its free memory");
  rc = make_tables(e, err);
  if (rc == 0 && (rc = lls_table_cache_init(e)) < 0)
    lls_fail(err, rc, "no memory for block tables");
  if (rc == 0)
    describe_ropes(e);
  if (rc == 0)
    rc = load_weights(e, err);
  lls_engine_decide_on_absorbing(e);
  if (rc == 0)
    rc = lls_engine_make_activations(e, err);
  if (rc == 0)
    rc = agree_on_shape(e, err);
  if (rc == 0)
    rc = lls_engine_make_pool(e, err);
  return rc < 0 ? rc : make_scratch(e, err);
}

int lls_engine_create(const struct lls_engine_options *options,
                      const struct lls_model_config *config, struct lls_device *device,
                      struct lls_engine **out, struct lls_error *err)
{
  struct lls_error why = {0};
  struct lls_engine *e = calloc(1, sizeof *e);
  if (e == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  e->options = *options;
  e->device = device;
  int rc = check_options(options, config, device, &why);
  if (rc == 0)
    rc = take_share(e, config, &why);
  if (rc == 0)
    rc = describe_model(e, &why);
  if (rc == 0)
    rc = make_parts(e, &why);
  if (rc < 0) {
    if (options->ranks != NULL)
      lls_ranks_fail(options->ranks, lls_error_text(&why, rc));
    lls_engine_destroy(e);
    return lls_fail(err, rc, "%s", lls_error_text(&why, rc));
  }
  *out = e;
  return 0;
}

void lls_engine_destroy(struct lls_engine *e)
{
  if (e == NULL)
    return;
  if (e->pool != NULL)
    e->device->ops->pool_destroy(e->device, e->pool);
  lls_engine_free_activations(e);
  lls_table_cache_free(e);
  if (!e->borrows_weights)
    lls_weights_unload(&e->weights, e->device);
  free(e->tokens);
  free(e->positions);
  free(e->row_sequence);
  free(e->sequences);
  free(e->spans);
  free(e->logit_rows);
  free(e->sampling);
  free(e->sampled);
  free(e->result);
  free(e->first_logit);
  free(e->score_rows);
  free(e->score_params);
  free(e->score_sampling);
  free(e->scores);
  free(e->score_targets);
  free(e->pooled_rows);
  free(e->pooled_sums);
  free(e->pooled);
  free(e->logits);
  free(e->inverse_frequency);
  free(e->scratch_entries);
  lls_engine_message_free(&e->message);
  lls_rank_adapters_free(&e->rank_adapters);
  free(e);
}

const struct lls_engine_caps *lls_engine_caps(const struct lls_engine *e)
{
  return &e->caps;
}

bool lls_engine_reads_blocks(const struct lls_engine *e)
{
  const struct lls_device_ops *ops = e->device->ops;
  bool alone = e->options.ranks == NULL || e->options.ranks->size == 1;
  return alone && ops->pool_read != NULL && ops->pool_write != NULL;
}

int lls_engine_read_block(struct lls_engine *e, uint32_t group, uint32_t block, void *to)
{
  return lls_engine_reads_blocks(e)
             ? e->device->ops->pool_read(e->device, e->pool, group, block, to)
             : -ENOTSUP;
}

int lls_engine_write_block(struct lls_engine *e, uint32_t group, uint32_t block,
                           const void *from)
{
  return lls_engine_reads_blocks(e)
             ? e->device->ops->pool_write(e->device, e->pool, group, block, from)
             : -ENOTSUP;
}

struct lls_ranks *lls_engine_ranks(const struct lls_engine *e)
{
  return lls_engine_is_shared(e) ? e->options.ranks : NULL;
}

struct lls_device *lls_engine_device(const struct lls_engine *e)
{
  return e->device;
}

const struct lls_pool_shape *lls_engine_pool_shape(const struct lls_engine *e)
{
  return &e->pool_shape;
}

const char *lls_engine_device_name(const struct lls_engine *e)
{
  return e->device->ops->name;
}

const char *lls_engine_pool_reason(const struct lls_engine *e)
{
  return e->pool_reason;
}

const struct lls_model_config *lls_engine_config(const struct lls_engine *e)
{
  return &e->model;
}

bool lls_engine_is_asynchronous(const struct lls_engine *e)
{
  return e->device->asynchronous;
}

size_t lls_engine_weight_bytes(const struct lls_engine *e)
{
  return e->weights.bytes;
}

uint32_t lls_engine_vector_columns(const struct lls_engine *e)
{
  return lls_engine_columns(e);
}
