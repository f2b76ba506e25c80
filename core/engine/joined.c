/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that guess (core/model/heads.h): the model's engine keeps the rows that its head
 * reads, and the engine of the layer makes its x of them and of the tokens' embeddings.
 * The rows go through the caller's memory, so that both engines are in host memory.
 */
#include <string.h>

#include "core/engine/forward.h"

const char *lls_engine_why_no_heads(const struct lls_device *device, bool shared)
{
  if (shared)
    return "tensor parallel ranks share the model's head";
  if (!device->is_host || device->is_empty)
    return "only the CPU computes it";
  return NULL;
}

size_t lls_engine_hidden_bytes(const struct lls_engine *e)
{
  return e->config.hidden * lls_dtype_bytes(e->device->activation_type);
}

const void *lls_engine_hidden_rows(const struct lls_engine *e, uint32_t sequence)
{
  size_t row;
  if (sequence >= e->step.n_sequences)
    return NULL;
  if (e->keeps_hidden) {
    row = e->sequences[sequence].first_row;
    return (const char *)e->act.h + row * lls_engine_hidden_bytes(e);
  }
  if (!e->config.joins || e->result[sequence] == NULL)
    return NULL;
  row = (size_t)(e->result[sequence] - e->sampled);
  return (const char *)e->act.picked + row * lls_engine_hidden_bytes(e);
}

/* ---- the model ------------------------------------------------------------------ */

void lls_engine_keep_hidden(const struct lls_forward *s)
{
  const struct lls_model_config *c = &s->e->config;
  const struct lls_norm_weights *w = &s->e->weights.final_norm;
  if (s->e->keeps_hidden) /* no branch follows, which would need h */
    s->ops->norm(s->device, c->norm, s->x, w->weight, w->bias, c->norm_epsilon, s->n_rows,
                 c->hidden, s->e->act.h);
}

/* ---- the layer that guesses ----------------------------------------------------- */

int lls_engine_make_joined(struct lls_engine *e)
{
  size_t bytes = e->options.max_tokens * lls_engine_hidden_bytes(e);
  if (!e->config.joins)
    return 0;
  return e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, bytes, &e->act.joined);
}

void lls_engine_bring_hidden(struct lls_engine *e, const struct lls_engine_batch *batch)
{
  size_t bytes = lls_engine_hidden_bytes(e);
  char *to = e->act.joined;
  for (uint32_t i = 0; to != NULL && i < batch->n_sequences; i++) {
    const struct lls_engine_sequence *s = &batch->sequences[i];
    size_t n = s->n_tokens * bytes;
    if (s->hidden != NULL)
      memcpy(to, s->hidden, n);
    else
      memset(to, 0, n);
    to += n;
  }
}

/* Sets x to the product of the normed rows of one half, or adds the product to x. */
static void add_half(const struct lls_forward *s, uint32_t half, const void *rows,
                     enum lls_linear_store store)
{
  const struct lls_engine *e = s->e;
  const struct lls_model_config *c = &e->config;
  const struct lls_norm_weights *w = &e->weights.join_norm[half];
  s->ops->norm(s->device, c->norm, rows, w->weight, w->bias, c->norm_epsilon, s->n_rows,
               c->hidden, e->act.h);
  s->ops->linear(s->device, e->weights.join[half], e->act.h, s->n_rows, store, s->x);
}

void lls_engine_join(const struct lls_forward *s)
{
  if (!s->e->config.joins)
    return;
  add_half(s, 0, s->x, LLS_STORE_SET);
  add_half(s, 1, s->e->act.joined, LLS_STORE_ADD);
}
