/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer's multi-head latent attention (arXiv 2405.04434): each head's query is
 * multiplied by its keys' matrix and attends to the cached latents themselves, which all
 * heads share. So a token of the cache is read once for all heads, and no key or value is
 * ever made.
 */
#include "core/engine/forward.h"

static struct lls_latent_shape latent_shape(const struct lls_engine *e, uint32_t layer)
{
  const struct lls_model_config *c = &e->config;
  const struct lls_latent_weights *w = &e->weights.layers[layer].latent;
  return (struct lls_latent_shape){
      .heads = c->heads,
      .nope = c->latent.nope,
      .rope = c->latent.rope,
      .rank = c->latent.rank,
      .value = c->latent.value,
      .norm = w->norm.weight,
      .epsilon = c->latent.norm_epsilon,
      .index = c->latent.index.dim,
      .index_keys = w->index_key != NULL ? e->act.index_keys : NULL,
  };
}

/* Computes the heads' queries from a branch's input into `narrow`; `wide` has the vector
 * that they are made of meanwhile. */
static void make_queries(const struct lls_forward *s, uint32_t layer, const void *h)
{
  const struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_latent_config *l = &e->config.latent;
  const void *from = h;
  if (l->query_rank > 0) {
    s->ops->linear(s->device, w->latent.query_down, h, s->n_rows, LLS_STORE_SET,
                   e->act.wide);
    s->ops->norm(s->device, LLS_NORM_RMS, e->act.wide, w->latent.query_norm.weight, NULL,
                 l->norm_epsilon, s->n_rows, l->query_rank, e->act.wide);
    from = e->act.wide;
  }
  lls_engine_make_index_rows(s, layer, h, from);
  s->ops->linear(s->device, w->qkv, from, s->n_rows, LLS_STORE_SET, e->act.narrow);
}

void lls_engine_attend_latent(struct lls_forward *s, uint32_t layer,
                              struct lls_attention_shape *shape, const void *h)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_latent_shape latent = latent_shape(e, layer);
  const struct lls_rope_shape *rope = &e->ropes[e->config.layer[layer].rope];
  uint32_t index = e->places[layer].index;
  void *rows = e->act.wide;
  s->ops->linear(s->device, w->latent.down, h, s->n_rows, LLS_STORE_SET, e->act.latent);
  make_queries(s, layer, h);
  s->ops->latent_rows(s->device, &latent, w->latent.keys, e->act.narrow, e->act.latent,
                      rows);
  s->ops->rope(s->device, shape, rope, rows);
  if (e->grows_queries)
    s->ops->grow_queries(s->device, shape, &e->config.growth, rows);
  s->ops->cache_write(s->device, shape, index, rows);
  lls_engine_choose(s, layer, shape);
  s->ops->attention(s->device, shape, index, rows, e->act.narrow);
  s->ops->latent_values(s->device, &latent, w->latent.values, e->act.narrow, rows);
  s->attended = rows;
}
