/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes an engine: weights, then the pool in the memory that is left, then the step's
 * buffers, each at the size of the largest step. See engine.h.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/engine/internal.h"

#define MIB(bytes) ((size_t)(bytes) >> 20)

static uint32_t larger(uint32_t a, uint32_t b)
{
  return a > b ? a : b;
}

static uint32_t up_columns(const struct lls_model_config *c)
{
  return c->gated ? 2 * c->ffn : c->ffn;
}

static uint32_t wide_columns(const struct lls_model_config *c)
{
  return larger(lls_qkv_columns(c), up_columns(c));
}

uint32_t lls_engine_max_columns(const struct lls_model_config *c)
{
  return larger(larger(wide_columns(c), c->vocab), larger(c->hidden, c->embed_dim));
}

/* ---- sizes ---------------------------------------------------------------------- */

static int check_options(const struct lls_engine_options *o,
                         const struct lls_device *device, struct lls_error *err)
{
  if (o->max_tokens == 0 || o->max_sequences == 0 || o->block_tokens == 0)
    return lls_fail(err, -EINVAL,
                    "the engine's step tokens, sequences and block size should be 1 or "
                    "more");
  if (o->cache_element != LLS_F32 && o->cache_element != LLS_BF16)
    return lls_fail(err, -ENOTSUP, "a cache of f32 or bf16 is supported");
  if (o->int8 != LLS_INT8_OFF && !device->has_int8)
    return lls_fail(err, -ENOTSUP,
                    "device %s has no cache of int8 numbers: set [cache] int8 = off",
                    device->ops->name);
  return 0;
}

/* The step's largest buffers, which are the ones that have to be counted. */
static size_t activation_bytes(const struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  size_t per_row = wide_columns(c) + larger(c->heads * c->head_dim, c->ffn) +
                   2 * (size_t)larger(c->hidden, c->embed_dim);
  return e->options.max_tokens * per_row * lls_dtype_bytes(e->device->activation_type) +
         (size_t)e->max_logit_rows * c->vocab * sizeof(float);
}

/* K and V units for one sequence of that many tokens. */
static size_t units_for(const struct lls_engine *e, size_t tokens)
{
  return 2 * ((tokens + e->options.block_tokens - 1) / e->options.block_tokens);
}

static uint32_t units_in(const struct lls_engine *e, size_t bytes, bool host)
{
  size_t units = bytes / lls_unit_room(&e->pool_shape, host);
  return units > UINT32_MAX ? UINT32_MAX : (uint32_t)units;
}

/* As many sequences as a step can have, each at full length; at most half of what the
 * weights left, so that the machine stays usable. */
static int default_cache_bytes(struct lls_engine *e, size_t *bytes)
{
  size_t total, available;
  int rc = e->device->ops->memory(e->device, &total, &available);
  if (rc < 0)
    return rc;
  size_t unit = lls_unit_room(&e->pool_shape, false);
  size_t full = units_for(e, e->caps.max_context) * e->options.max_sequences * unit;
  size_t least = units_for(e, e->options.max_tokens) * unit;
  *bytes = full < available / 2 ? full : available / 2;
  if (e->options.cache_share > 0)
    *bytes = (size_t)((double)available * e->options.cache_share);
  *bytes = *bytes > least ? *bytes : least;
  return 0;
}

/* ---- parts ---------------------------------------------------------------------- */

static int load_weights(struct lls_engine *e, struct lls_error *err)
{
  const struct lls_engine_options *o = &e->options;
  size_t cache = o->cache_bytes;
  if (cache == 0)
    cache = units_for(e, o->max_tokens) * lls_unit_room(&e->pool_shape, false);
  cache += e->device->is_host ? o->host_cache_bytes : 0;
  struct lls_weights_source source = {
      .folder = o->model_path,
      .dummy = o->dummy,
      .format = o->weights,
      .other_bytes = cache + activation_bytes(e),
      .progress = o->progress,
      .progress_context = o->progress_context,
  };
  snprintf(source.other_text, sizeof source.other_text,
           "%zu MiB of cache and %zu MiB of buffers", MIB(cache),
           MIB(activation_bytes(e)));
  return lls_weights_load(&e->weights, &source, &e->config, e->device, err);
}

static int make_pool(struct lls_engine *e, struct lls_error *err)
{
  size_t bytes = e->options.cache_bytes;
  int rc = bytes > 0 ? 0 : default_cache_bytes(e, &bytes);
  if (rc < 0)
    return lls_fail(err, rc, "the device does not tell its free memory");
  e->pool_shape.device_units = units_in(e, bytes, false);
  e->pool_shape.host_units = units_in(e, e->options.host_cache_bytes, true);
  if (e->pool_shape.device_units < 2)
    return lls_fail(
        err, -EINVAL,
        "a cache of %zu MiB does not hold one block of keys and one of values "
        "(%zu MiB)",
        MIB(bytes), MIB(2 * lls_unit_room(&e->pool_shape, false)));
  if (e->caps.forms & LLS_BIT_HIDDEN)
    e->pool_shape.scratch_units = lls_engine_scratch_units(e);
  rc = e->device->ops->pool_create(e->device, &e->pool_shape, &e->pool, err);
  return rc < 0 ? lls_fail_at(err, rc, "cache of %zu MiB", MIB(bytes)) : 0;
}

/* Lists of scratch units, whose number the pool's size decides. */
static int make_scratch(struct lls_engine *e, struct lls_error *err)
{
  size_t units = e->pool_shape.scratch_units;
  e->scratch_entries = calloc(units + 1, sizeof *e->scratch_entries);
  e->scratch_tables = calloc(e->options.max_sequences, sizeof *e->scratch_tables);
  if (e->scratch_entries == NULL || e->scratch_tables == NULL)
    return lls_fail(err, -ENOMEM, "no memory for lists of %zu unit blocks", units);
  return 0;
}

static int make_activations(struct lls_engine *e, struct lls_error *err)
{
  const struct lls_model_config *c = &e->config;
  struct lls_activations *act = &e->act;
  size_t number = lls_dtype_bytes(e->device->activation_type);
  size_t rows = e->options.max_tokens, picked = e->max_logit_rows;
  const struct {
    void **buffer;
    size_t bytes;
  } buffers[] = {
      {&act->x, rows * c->hidden * number},
      {&act->h, rows * larger(c->hidden, c->embed_dim) * number},
      {&act->wide, rows * wide_columns(c) * number},
      {&act->narrow, rows * larger(c->heads * c->head_dim, c->ffn) * number},
      {&act->picked, picked * c->hidden * number},
      {&act->projected, picked * c->embed_dim * number},
      {(void **)&act->logits, picked * c->vocab * sizeof(float)},
  };
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
    int rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, buffers[i].bytes,
                                   buffers[i].buffer);
    if (rc < 0)
      return lls_fail(err, rc, "no memory for %zu MiB of buffers for %zu tokens a step",
                      MIB(activation_bytes(e)), rows);
  }
  return 0;
}

static int make_tables(struct lls_engine *e, struct lls_error *err)
{
  size_t rows = e->options.max_tokens, sequences = e->options.max_sequences;
  const struct {
    void **array;
    size_t n, size;
  } arrays[] = {
      {(void **)&e->tokens, rows, sizeof *e->tokens},
      {(void **)&e->positions, rows, sizeof *e->positions},
      {(void **)&e->row_sequence, rows, sizeof *e->row_sequence},
      {(void **)&e->sequences, sequences, sizeof *e->sequences},
      {(void **)&e->logit_rows, e->max_logit_rows, sizeof *e->logit_rows},
      {(void **)&e->sampling, sequences, sizeof *e->sampling},
      {(void **)&e->sampled, sequences, sizeof *e->sampled},
      {(void **)&e->result, sequences, sizeof *e->result},
      {(void **)&e->score_rows, rows, sizeof *e->score_rows},
      {(void **)&e->score_params, rows, sizeof *e->score_params},
      {(void **)&e->score_sampling, rows, sizeof *e->score_sampling},
      {(void **)&e->scores, rows, sizeof *e->scores},
      {(void **)&e->score_targets, rows, sizeof *e->score_targets},
      {(void **)&e->first_logit, sequences, sizeof *e->first_logit},
      {(void **)&e->logits, (size_t)e->options.max_logits * e->config.vocab + 1,
       sizeof *e->logits},
      {(void **)&e->inverse_frequency, e->config.rope.dims / 2 + 1,
       sizeof *e->inverse_frequency},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    *arrays[i].array = calloc(arrays[i].n, arrays[i].size);
    if (*arrays[i].array == NULL)
      return lls_fail(err, -ENOMEM, "no memory for a step of %zu tokens", rows);
  }
  return 0;
}

/* ---- life ----------------------------------------------------------------------- */

static void describe_model(struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  const struct lls_engine_options *o = &e->options;
  uint32_t context = o->max_context;
  if (context == 0 || context > c->max_context)
    context = c->max_context;
  e->max_logit_rows = o->max_sequences + o->max_logits;
  if (e->max_logit_rows > o->max_tokens)
    e->max_logit_rows = o->max_tokens;
  e->attention = (struct lls_attention_shape){
      .heads = c->heads,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .scale = 1 / sqrtf((float)c->head_dim),
      .window = c->window,
  };
  e->pool_shape = (struct lls_pool_shape){
      .layers = c->layers,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .block_tokens = o->block_tokens,
      .element = o->cache_element,
      .max_context = context,
      .int8 = o->int8,
  };
  e->caps = (struct lls_engine_caps){
      .size = sizeof e->caps,
      .max_step_tokens = o->max_tokens,
      .max_sequences = o->max_sequences,
      .max_context = context,
      .forms = LLS_BIT_KV | (lls_engine_why_no_hidden(e) == NULL ? LLS_BIT_HIDDEN : 0),
      .elements = 1u << LLS_ELEMENT_MODEL |
                  (o->int8 == LLS_INT8_ALL ? 1u << LLS_ELEMENT_INT8 : 0),
      .preempt_modes = 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER,
      .mixed_batch = true,
      .chunked_prefill = true,
      .right_to_left = true,
      .layers = c->layers,
      .hidden = c->hidden,
      .heads = c->heads,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .hidden_ratio = (double)c->hidden / (2.0 * c->kv_heads * c->head_dim),
  };
  if (o->host_cache_bytes > 0)
    e->caps.preempt_modes |= 1u << LLS_PREEMPT_SWAP;
}

static void describe_rope(struct lls_engine *e)
{
  lls_rope_frequencies(&e->config.rope, e->inverse_frequency);
  e->rope = (struct lls_rope_shape){
      .head_dim = e->config.head_dim,
      .rotary_dims = e->config.rope.dims,
      .inverse_frequency = e->inverse_frequency,
      .attention_factor = 1,
  };
}

int lls_engine_create(const struct lls_engine_options *options,
                      const struct lls_model_config *config, struct lls_device *device,
                      struct lls_engine **out, struct lls_error *err)
{
  int rc = check_options(options, device, err);
  if (rc < 0)
    return rc;
  struct lls_engine *e = calloc(1, sizeof *e);
  if (e == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  e->options = *options;
  e->config = *config;
  e->device = device;
  describe_model(e);
  rc = make_tables(e, err);
  if (rc == 0)
    rc = load_weights(e, err);
  if (rc == 0)
    rc = make_activations(e, err);
  if (rc == 0)
    rc = make_pool(e, err);
  if (rc == 0)
    rc = make_scratch(e, err);
  if (rc < 0) {
    lls_engine_destroy(e);
    return rc;
  }
  describe_rope(e);
  *out = e;
  return 0;
}

static void release_activations(struct lls_engine *e)
{
  const struct lls_activations *act = &e->act;
  void *const buffers[] = {act->x,      act->h,         act->wide,  act->narrow,
                           act->picked, act->projected, act->logits};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
    if (buffers[i] != NULL)
      e->device->ops->release(e->device, LLS_MEMORY_DEVICE, buffers[i]);
}

void lls_engine_destroy(struct lls_engine *e)
{
  if (e == NULL)
    return;
  if (e->pool != NULL)
    e->device->ops->pool_destroy(e->device, e->pool);
  release_activations(e);
  lls_weights_unload(&e->weights, e->device);
  free(e->tokens);
  free(e->positions);
  free(e->row_sequence);
  free(e->sequences);
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
  free(e->logits);
  free(e->inverse_frequency);
  free(e->scratch_entries);
  free(e->scratch_tables);
  free(e);
}

const struct lls_engine_caps *lls_engine_caps(const struct lls_engine *e)
{
  return &e->caps;
}

const struct lls_pool_shape *lls_engine_pool_shape(const struct lls_engine *e)
{
  return &e->pool_shape;
}

const struct lls_model_config *lls_engine_config(const struct lls_engine *e)
{
  return &e->config;
}

size_t lls_engine_weight_bytes(const struct lls_engine *e)
{
  return e->weights.bytes;
}
