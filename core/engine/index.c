/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of latent attention (DeepSeek V3.2's DSA): small queries and keys, by which a
 * row chooses the tokens that it attends to, for all its heads. A token's key is cached
 * behind its latent, so that it goes wherever the latent goes. Layers may attend to what
 * an earlier one has chosen; they cache no key.
 */
#include "core/engine/forward.h"

/* Numbers of a row in the index' buffers. */
static size_t row_numbers(const struct lls_index_config *index)
{
  return (size_t)index->heads * (index->dim + 1) + index->dim;
}

size_t lls_engine_index_bytes(const struct lls_engine *e)
{
  const struct lls_index_config *index = &e->config.latent.index;
  size_t rows = lls_engine_padded_rows(e->options.max_tokens);
  size_t number = lls_dtype_bytes(e->device->activation_type);
  if (index->chosen == 0)
    return 0;
  return rows * (row_numbers(index) * number + index->chosen * sizeof(uint32_t));
}

int lls_engine_make_index(struct lls_engine *e)
{
  const struct lls_index_config *index = &e->config.latent.index;
  size_t rows = lls_engine_padded_rows(e->options.max_tokens);
  size_t number = lls_dtype_bytes(e->device->activation_type);
  void *all = NULL;
  if (index->chosen == 0)
    return 0;
  int rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, lls_engine_index_bytes(e),
                                 &all);
  if (rc < 0)
    return rc;
  e->act.chosen = all;
  e->act.index_queries = e->act.chosen + rows * index->chosen;
  e->act.index_keys =
      (char *)e->act.index_queries + rows * index->heads * index->dim * number;
  e->act.index_weights = (char *)e->act.index_keys + rows * index->dim * number;
  return 0;
}

/* Rotates the first numbers of each of some heads. */
static void rotate(const struct lls_forward *s, uint32_t layer, uint32_t heads, void *x)
{
  const struct lls_engine *e = s->e;
  const struct lls_attention_shape shape = {.heads = heads,
                                            .kv_heads = 1,
                                            .head_dim = e->config.latent.index.dim,
                                            .latent = true,
                                            .queries_alone = true};
  struct lls_rope_shape rope = e->ropes[e->config.layer[layer].rope];
  rope.head_dim = shape.head_dim;
  rope.first = 0;
  s->ops->rope(s->device, &shape, &rope, x);
}

void lls_engine_make_index_rows(const struct lls_forward *s, uint32_t layer,
                                const void *h, const void *queries_of)
{
  const struct lls_engine *e = s->e;
  const struct lls_index_config *index = &e->config.latent.index;
  const struct lls_latent_weights *w = &e->weights.layers[layer].latent;
  const struct lls_activations *act = &e->act;
  if (w->index_key == NULL)
    return;
  s->ops->linear(s->device, w->index_query, queries_of, s->n_rows, LLS_STORE_SET,
                 act->index_queries);
  s->ops->linear(s->device, w->index_key, h, s->n_rows, LLS_STORE_SET, act->index_keys);
  s->ops->linear(s->device, w->index_weights, h, s->n_rows, LLS_STORE_SET,
                 act->index_weights);
  s->ops->norm(s->device, LLS_NORM_LAYER, act->index_keys, w->index_norm.weight,
               w->index_norm.bias, e->config.latent.norm_epsilon, s->n_rows, index->dim,
               act->index_keys);
  rotate(s, layer, index->heads, act->index_queries);
  rotate(s, layer, 1, act->index_keys);
}

void lls_engine_choose(const struct lls_forward *s, uint32_t layer,
                       struct lls_attention_shape *shape)
{
  const struct lls_engine *e = s->e;
  const struct lls_index_config *index = &e->config.latent.index;
  const struct lls_index_shape sizes = {index->heads, index->dim, index->chosen};
  if (index->chosen == 0)
    return;
  if (e->weights.layers[layer].latent.index_key != NULL)
    s->ops->choose(s->device, shape, &sizes, e->places[layer].index, e->act.index_queries,
                   e->act.index_weights, e->act.chosen);
  shape->chosen = e->act.chosen;
  shape->n_chosen = index->chosen;
}
