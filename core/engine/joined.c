/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that guess (core/model/heads.h): the model's engine keeps the rows that its head
 * reads, and the engine of the layer makes its x of them and of the tokens' embeddings.
 * The rows go through the caller's memory, so that both engines are in host memory.
 */
#include <math.h>
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

static size_t number_bytes(const struct lls_engine *e)
{
  return lls_dtype_bytes(e->device->activation_type);
}

size_t lls_engine_hidden_bytes(const struct lls_engine *e)
{
  return e->config.hidden * number_bytes(e);
}

size_t lls_engine_joined_bytes(const struct lls_engine *e)
{
  const struct lls_eagle_config *eagle = &e->config.eagle;
  size_t numbers = eagle->rows > 0 ? LLS_EAGLE_LAYERS * (size_t)eagle->hidden
                                   : (size_t)e->config.hidden;
  return numbers * number_bytes(e);
}

static size_t kept_bytes(const struct lls_engine *e)
{
  return e->options.n_kept_layers * lls_engine_hidden_bytes(e);
}

const void *lls_engine_hidden_rows(const struct lls_engine *e, uint32_t sequence)
{
  size_t row;
  if (sequence >= e->step.n_sequences)
    return NULL;
  if (e->keeps_hidden) {
    row = e->sequences[sequence].first_row;
    return kept_bytes(e) > 0 ? (const char *)e->act.kept + row * kept_bytes(e)
                             : (const char *)e->act.h + row * lls_engine_hidden_bytes(e);
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
  if (s->e->keeps_hidden && kept_bytes(s->e) == 0) /* no branch follows, which needs h */
    s->ops->norm(s->device, c->norm, s->x, w->weight, w->bias, c->norm_epsilon, s->n_rows,
                 c->hidden, s->e->act.h);
}

void lls_engine_keep_layer(const struct lls_forward *s, uint32_t layer)
{
  const struct lls_engine *e = s->e;
  size_t bytes = lls_engine_hidden_bytes(e);
  for (uint32_t i = 0; e->keeps_hidden && i < e->options.n_kept_layers; i++)
    if (e->options.kept_layers[i] == layer)
      for (uint32_t row = 0; row < s->n_rows; row++)
        memcpy((char *)e->act.kept + row * kept_bytes(e) + i * bytes,
               (const char *)s->x + row * bytes, bytes);
}

/* ---- the layer that guesses ----------------------------------------------------- */

size_t lls_engine_joined_numbers(const struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  size_t kept = e->options.n_kept_layers * (size_t)c->hidden;
  size_t entry = c->eagle.rows > 0 ? c->hidden : 0;
  return kept + entry + (c->joins ? lls_engine_joined_bytes(e) / number_bytes(e) : 0);
}

int lls_engine_make_joined(struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  const struct {
    void **buffer;
    size_t bytes;
  } buffers[] = {
      {&e->act.joined, c->joins ? lls_engine_joined_bytes(e) : 0},
      {&e->act.entry, c->eagle.rows > 0 ? lls_engine_hidden_bytes(e) : 0},
      {&e->act.kept, kept_bytes(e)},
  };
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof buffers / sizeof *buffers; i++)
    if (buffers[i].bytes > 0)
      rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE,
                                 e->options.max_tokens * buffers[i].bytes,
                                 buffers[i].buffer);
  return rc;
}

void lls_engine_bring_hidden(struct lls_engine *e, const struct lls_engine_batch *batch)
{
  size_t bytes = e->own_hidden ? lls_engine_hidden_bytes(e) : lls_engine_joined_bytes(e);
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

static void norm_half(const struct lls_forward *s, uint32_t half, const void *rows,
                      void *to)
{
  const struct lls_model_config *c = &s->e->config;
  const struct lls_norm_weights *w = &s->e->weights.join_norm[half];
  s->ops->norm(s->device, c->norm, rows, w->weight, w->bias, c->norm_epsilon, s->n_rows,
               c->hidden, to);
}

/* Sets x to the product of the normed rows of one half, or adds the product to x. */
static void add_half(const struct lls_forward *s, uint32_t half, const void *rows,
                     enum lls_linear_store store)
{
  const struct lls_engine *e = s->e;
  norm_half(s, half, rows, e->act.h);
  s->ops->linear(s->device, e->weights.join[half], e->act.h, s->n_rows, store, s->x);
}

/* Keeps the normed embeddings, and sets x to the product of the model's rows, or to rows
 * that the layer has made itself. */
static void enter(const struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  norm_half(s, 0, s->x, e->act.entry);
  if (e->own_hidden)
    memcpy(s->x, e->act.joined, s->n_rows * lls_engine_hidden_bytes(e));
  else
    s->ops->linear(s->device, e->weights.join[0], e->act.joined, s->n_rows, LLS_STORE_SET,
                   s->x);
}

void lls_engine_join(const struct lls_forward *s)
{
  if (!s->e->config.joins)
    return;
  if (s->e->config.eagle.rows > 0) {
    enter(s);
    return;
  }
  add_half(s, 0, s->x, LLS_STORE_SET);
  add_half(s, 1, s->e->act.joined, LLS_STORE_ADD);
}

void lls_engine_add_entry(const struct lls_forward *s, void *qkv)
{
  const struct lls_engine *e = s->e;
  if (e->weights.entry != NULL)
    s->ops->linear(s->device, e->weights.entry, e->act.entry, s->n_rows, LLS_STORE_ADD,
                   qkv);
}

/* The rows of logits that the head has written are as wide as it; the last one is moved
 * first, from its end on, so that none is written over before it is read. */
void lls_engine_spread_logits(const struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  const int32_t *tokens = e->weights.tokens;
  size_t n = e->config.eagle.rows, all = e->config.vocab;
  for (size_t row = s->n_rows; tokens != NULL && row-- > 0;) {
    const float *from = e->act.logits + row * n;
    float *to = e->act.logits + row * all;
    size_t left = n;
    for (size_t token = all; token-- > 0;) {
      bool known = left > 0 && (size_t)tokens[left - 1] == token;
      to[token] = known ? from[--left] : -INFINITY;
    }
  }
}
