/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inputs that each layer of Gemma 3n and 4 has from the token itself. A row of the
 * layer's own table and a product of the embedding, normed, are added; at the layer's
 * end they pass a gate that x opens, and a product of the gate's output is added to x, or
 * to all streams of the token but the first one.
 * The first part is computed for one layer at a time, so that a step needs room for one.
 */
#include <math.h>

#include "core/engine/forward.h"

size_t lls_engine_input_numbers(const struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  size_t rows = e->options.max_tokens, picked = e->max_logit_rows;
  if (c->layer_inputs == 0)
    return 0;
  return rows * ((size_t)c->hidden + c->layer_inputs) + picked * c->layer_inputs;
}

int lls_engine_make_inputs(struct lls_engine *e)
{
  struct lls_activations *act = &e->act;
  size_t number = lls_dtype_bytes(e->device->activation_type);
  void *all = NULL;
  if (e->config.layer_inputs == 0)
    return 0;
  int rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE,
                                 lls_engine_input_numbers(e) * number, &all);
  size_t rows = e->options.max_tokens;
  act->embedded = all;
  act->inputs = (char *)all + rows * e->config.hidden * number;
  act->picked_inputs = (char *)act->inputs + rows * e->config.layer_inputs * number;
  return rc;
}

void lls_engine_keep_embedding(const struct lls_forward *s, float scale)
{
  const struct lls_engine *e = s->e;
  if (e->config.layer_inputs > 0)
    s->ops->embed(s->device, e->weights.embedding, scale, e->act.embedded);
}

void lls_engine_make_layer_input(struct lls_forward *s, uint32_t layer)
{
  const struct lls_engine *e = s->e;
  const struct lls_model_config *c = &e->config;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  if (c->layer_inputs == 0)
    return;
  s->inputs = e->act.inputs;
  s->ops->linear(s->device, w->inputs_projection, e->act.embedded, s->n_rows,
                 LLS_STORE_SET, e->act.inputs);
  /* The product is divided by sqrt(hidden), which the norm undoes but for its epsilon. */
  s->ops->norm(s->device, LLS_NORM_RMS, e->act.inputs, e->weights.inputs_norm, NULL,
               c->norm_epsilon * (float)c->hidden, s->n_rows, c->layer_inputs,
               e->act.inputs);
  s->ops->embed_layer(s->device, w->inputs_table, sqrtf((float)c->layer_inputs / 2),
                      e->act.inputs);
}

void lls_engine_pick_layer_input(struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  if (e->config.layer_inputs == 0)
    return;
  s->ops->gather(s->device, s->inputs, e->logit_rows, e->n_logit_rows,
                 e->config.layer_inputs, e->act.picked_inputs);
  s->inputs = e->act.picked_inputs;
}

void lls_engine_add_layer_input(const struct lls_forward *s, uint32_t layer)
{
  const struct lls_engine *e = s->e;
  const struct lls_model_config *c = &e->config;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  if (c->layer_inputs == 0)
    return;
  const void *opens = s->streams.n > 0 ? e->act.h : s->x;
  s->ops->linear(s->device, w->inputs_gate, opens, s->n_rows, LLS_STORE_SET,
                 e->act.narrow);
  s->ops->gate_inputs(s->device, c->activation, s->inputs, s->n_rows, c->layer_inputs,
                      e->act.narrow);
  s->ops->linear(s->device, w->inputs_up, e->act.narrow, s->n_rows, LLS_STORE_SET,
                 e->act.h);
  s->ops->norm(s->device, LLS_NORM_RMS, e->act.h, w->inputs_output_norm.weight, NULL,
               c->norm_epsilon, s->n_rows, c->hidden, e->act.h);
  if (s->streams.n == 0)
    s->ops->add(s->device, e->act.h, s->n_rows, c->hidden, s->x);
  for (uint32_t i = 1; i < s->streams.n; i++)
    s->ops->add(s->device, e->act.h, s->n_rows, c->hidden, s->streams.x[i]);
}
