/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers of a step's activations: as wide as the widest layer needs, for the rows of
 * the largest step. */
#include "core/base/least.h"
#include "core/engine/forward.h"

#define MIB(bytes) ((size_t)(bytes) >> 20)

/* The widest layers' sizes. */
static uint32_t widest_ffn(const struct lls_model_config *c)
{
  return lls_most_of_layers(c, lls_layer_ffn);
}

static uint32_t widest_head(const struct lls_model_config *c)
{
  return lls_most_of_layers(c, lls_layer_head_dim);
}

static uint32_t up_columns(const struct lls_model_config *c)
{
  uint32_t plain = (c->gated ? 2 : 1) * widest_ffn(c);
  return lls_most_u32(plain, 2 * c->mixture.shared);
}

/* The gates of a layer follow its first product in the buffer. */
static uint32_t mix_columns(const struct lls_model_config *c, uint32_t layer)
{
  return lls_mix_columns(c, layer) + lls_mix_gates(c, layer);
}

/* A latent model's `wide` also holds the vector that queries are made of, and what
 * attention gives. */
static uint32_t wide_columns(const struct lls_model_config *c)
{
  uint32_t latent =
      lls_most_u32(c->latent.query_rank, lls_most_of_layers(c, lls_attended_columns));
  uint32_t plain = lls_most_u32(lls_most_of_layers(c, mix_columns), up_columns(c));
  if (c->classifier.mean)
    plain = lls_most_u32(plain, 3 * c->hidden);
  if (c->laurel > 0 || c->streams.n > 0)
    plain = lls_most_u32(plain, c->hidden);
  return lls_most_u32(plain, c->latent.rank > 0 ? latent : 0);
}

/* With latent attention `narrow` also holds the queries before they are absorbed. */
static uint32_t narrow_columns(const struct lls_model_config *c)
{
  uint32_t plain = lls_most_u32(widest_ffn(c), c->mixture.shared);
  plain = lls_most_u32(plain, lls_most_of_layers(c, lls_mix_width));
  uint32_t heads = c->heads * lls_most_u32(widest_head(c), lls_latent_query(c));
  plain = lls_most_u32(lls_most_u32(plain, heads), c->layer_inputs);
  plain = lls_most_u32(plain, c->classifier.mean ? c->hidden : 0);
  plain = lls_most_u32(plain, c->recurrent.value_heads * c->recurrent.value_dim);
  return lls_most_u32(lls_most_u32(plain, c->mixture.latent), c->laurel);
}

static uint32_t latent_columns(const struct lls_model_config *c)
{
  return c->latent.rank > 0 ? c->head_dim : 0;
}

/* Returns the width of a row of logits: 0 for an encoder, which has no head over the
 * vocabulary. */
static uint32_t logit_columns(const struct lls_model_config *c)
{
  return c->encoder ? 0 : c->vocab;
}

uint32_t lls_engine_max_columns(const struct lls_model_config *c)
{
  uint32_t wide = lls_most_u32(wide_columns(c), 2 * c->mixture.ffn);
  wide = lls_most_u32(wide, c->latent.index.heads * c->latent.index.dim);
  if (c->eagle.rows > 0)
    wide = lls_most_u32(wide, LLS_EAGLE_LAYERS * c->eagle.hidden);
  return lls_most_u32(lls_most_u32(wide, logit_columns(c)),
                      lls_most_u32(c->hidden, c->embed_dim));
}

/* Returns the number of values in the buffer `wide`, which both branches and the slots
 * of a mixture use in turn. */
static size_t wide_numbers(const struct lls_engine *e)
{
  size_t plain = lls_engine_padded_rows(e->options.max_tokens) * wide_columns(&e->config);
  size_t mixed = lls_engine_slots(e) * 2 * e->config.mixture.ffn;
  return plain > mixed ? plain : mixed;
}

static size_t narrow_numbers(const struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  size_t plain = (size_t)e->options.max_tokens * narrow_columns(c);
  size_t mixed = lls_engine_slots(e) * c->mixture.ffn;
  return plain > mixed ? plain : mixed;
}

size_t lls_engine_buffer_bytes(const struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  size_t per_row = 2 * (size_t)lls_most_u32(c->hidden, c->embed_dim) + latent_columns(c) +
                   lls_engine_joined_numbers(e);
  size_t vocab = (e->shard.rank == 0 ? logit_columns(c) : 0) +
                 (lls_engine_is_shared(e) && !c->encoder ? e->shard.vocab.n : 0);
  size_t inner = wide_numbers(e) + narrow_numbers(e) + lls_engine_slots(e) * c->hidden +
                 lls_engine_input_numbers(e) + lls_engine_stream_numbers(e) +
                 lls_engine_tail_numbers(e);
  return (e->options.max_tokens * per_row + inner) *
             lls_dtype_bytes(e->device->activation_type) +
         lls_engine_index_bytes(e) + lls_engine_spares_bytes(e) +
         e->max_logit_rows * vocab * sizeof(float);
}

int lls_engine_make_activations(struct lls_engine *e, struct lls_error *err)
{
  const struct lls_model_config *c = &e->config;
  struct lls_activations *act = &e->act;
  size_t number = lls_dtype_bytes(e->device->activation_type);
  size_t rows = e->options.max_tokens, picked = e->max_logit_rows;
  size_t vocab = e->shard.rank == 0 ? logit_columns(c) : 0;
  size_t part = lls_engine_is_shared(e) && !c->encoder ? e->shard.vocab.n : 0;
  const struct {
    void **buffer;
    size_t bytes;
  } buffers[] = {
      {&act->x, rows * c->hidden * number},
      {&act->h, rows * lls_most_u32(c->hidden, c->embed_dim) * number},
      {&act->wide, wide_numbers(e) * number},
      {&act->narrow, narrow_numbers(e) * number},
      {&act->latent, rows * latent_columns(c) * number},
      {&act->picked, picked * c->hidden * number},
      {&act->projected, picked * c->embed_dim * number},
      {(void **)&act->logits, picked * vocab * sizeof(float)},
      {(void **)&act->part, picked * part * sizeof(float)},
  };
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
    if (buffers[i].bytes == 0)
      continue;
    int rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, buffers[i].bytes,
                                   buffers[i].buffer);
    if (rc < 0)
      return lls_fail(err, rc, "no memory for %zu MiB of buffers for %zu tokens a step",
                      MIB(lls_engine_buffer_bytes(e)), rows);
  }
  int rc = lls_engine_make_mixture(e);
  if (rc == 0)
    rc = lls_engine_make_joined(e);
  if (rc == 0)
    rc = lls_engine_make_inputs(e);
  if (rc == 0)
    rc = lls_engine_make_streams(e);
  if (rc == 0)
    rc = lls_engine_make_index(e);
  if (rc == 0)
    rc = lls_engine_make_tails(e);
  if (rc == 0)
    rc = lls_engine_make_adapters(e, lls_engine_slots(e));
  return rc < 0
             ? lls_fail(err, rc, "no memory for %zu MiB of buffers for %zu tokens a step",
                        MIB(lls_engine_buffer_bytes(e)), rows)
             : 0;
}

void lls_engine_free_activations(struct lls_engine *e)
{
  const struct lls_activations *act = &e->act;
  void *const buffers[] = {act->x,      act->h,        act->wide,      act->narrow,
                           act->latent, act->picked,   act->projected, act->logits,
                           act->part,   act->embedded, act->streams,   act->stream_scores,
                           act->chosen, act->joined,   act->entry,     act->kept};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
    if (buffers[i] != NULL)
      e->device->ops->release(e->device, LLS_MEMORY_DEVICE, buffers[i]);
  lls_engine_free_mixture(e);
  lls_engine_free_tails(e);
  lls_engine_free_adapters(e);
}
