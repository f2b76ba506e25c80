/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mlp branch: an MLP's inner layer, and mixtures of experts. The router's scores
 * choose some experts for each row; the rows of each expert are copied next to each other
 * and go through its matrices together, and the results of a row are added, each times
 * the expert's weight. So a step reads the matrices of each expert that it needs once.
 * The result of a row does not depend on the other rows: its products do not, and its
 * experts are added in the order of their weights, largest first.
 */
#include "core/engine/forward.h"

#define PADDING 8 /* rows that a device may add for each expert */

size_t lls_engine_slots(const struct lls_engine *e)
{
  const struct lls_mixture_config *m = &e->config.mixture;
  return m->experts == 0 ? 0 : (e->options.max_tokens + PADDING) * (size_t)m->active;
}

int lls_engine_make_mixture(struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  struct lls_activations *act = &e->act;
  struct lls_route *route = &act->route;
  size_t slots = lls_engine_slots(e), rows = e->options.max_tokens + PADDING;
  route->experts = c->mixture.experts;
  route->active = c->mixture.active;
  route->logistic = c->mixture.logistic;
  route->groups = c->mixture.groups;
  route->best_counts = c->mixture.best_counts;
  route->used_groups = c->mixture.used_groups;
  route->weighs_input = c->mixture.weighs_input;
  route->scale = c->mixture.scale == 1 ? 0 : c->mixture.scale;
  const struct {
    void **buffer;
    size_t bytes;
  } buffers[] = {
      {(void **)&act->scores, rows * c->mixture.experts * sizeof *act->scores},
      {&act->routed, slots * c->hidden * lls_dtype_bytes(e->device->activation_type)},
      {(void **)&route->expert, slots * sizeof *route->expert},
      {(void **)&route->weight, slots * sizeof *route->weight},
      {(void **)&route->place, slots * sizeof *route->place},
      {(void **)&route->row, slots * sizeof *route->row},
      {(void **)&route->first, (c->mixture.experts + 1) * sizeof *route->first},
  };
  int rc = 0;
  for (size_t i = 0; slots > 0 && rc == 0 && i < sizeof buffers / sizeof buffers[0]; i++)
    rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, buffers[i].bytes,
                               buffers[i].buffer);
  return rc;
}

void lls_engine_free_mixture(struct lls_engine *e)
{
  const struct lls_route *route = &e->act.route;
  void *const buffers[] = {e->act.scores, e->act.routed, route->expert, route->weight,
                           route->place,  route->row,    route->first};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
    if (buffers[i] != NULL)
      e->device->ops->release(e->device, LLS_MEMORY_DEVICE, buffers[i]);
}

/* Applies the activation to rows of `wide`; returns the buffer of the results. */
static void *activate(const struct lls_forward *s, uint32_t n_rows, uint32_t columns)
{
  const struct lls_activations *act = &s->e->act;
  enum lls_activation kind = s->e->config.activation;
  if (!s->e->config.gated) {
    s->ops->activate(s->device, kind, act->wide, n_rows, columns);
    return act->wide;
  }
  s->ops->gated(s->device, kind, act->wide, n_rows, columns, act->narrow);
  return act->narrow;
}

const void *lls_engine_mlp_inner(const struct lls_forward *s, uint32_t layer,
                                 const void *input)
{
  const struct lls_engine *e = s->e;
  const struct lls_model_config *c = &e->config;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  uint32_t ffn = lls_layer_ffn(c, layer);
  s->ops->linear(s->device, w->up, input, s->n_rows, LLS_STORE_SET, e->act.wide);
  lls_engine_adapt(s, layer, LLS_ADAPTED_UP, input, e->act.wide);
  if (c->xielu) {
    s->ops->xielu(s->device, &w->xielu, e->act.wide, s->n_rows, ffn);
    return e->act.wide;
  }
  lls_engine_cut_gates(s, layer);
  void *inner = activate(s, s->n_rows, ffn);
  lls_engine_scale(s, c->factors.mlp_inner, ffn, inner);
  return inner;
}

void lls_engine_sum_shares(const struct lls_forward *s, void *x)
{
  if (lls_engine_is_shared(s->e))
    s->ops->all_reduce(s->device, x, s->n_rows, s->e->config.hidden);
}

/* Computes the MLP that all rows go through, times its gate. */
static void add_shared(const struct lls_forward *s, uint32_t layer, const void *input,
                       enum lls_linear_store store, void *y)
{
  const struct lls_layer_weights *w = &s->e->weights.layers[layer];
  const struct lls_model_config *c = &s->e->config;
  const struct lls_activations *act = &s->e->act;
  s->ops->linear(s->device, w->shared_up, input, s->n_rows, LLS_STORE_SET, act->wide);
  lls_engine_adapt(s, layer, LLS_ADAPTED_SHARED_UP, input, act->wide);
  void *inner = activate(s, s->n_rows, c->mixture.shared);
  if (w->shared_score != NULL) {
    s->ops->logits(s->device, w->shared_score, input, s->n_rows, act->scores);
    s->ops->gate_rows(s->device, act->scores, inner, s->n_rows, c->mixture.shared);
  }
  s->ops->linear(s->device, w->shared_down, inner, s->n_rows, store, y);
  lls_engine_adapt(s, layer, LLS_ADAPTED_SHARED_DOWN, inner, y);
}

/* Applies the activation to the experts' rows of `wide`; returns the results' buffer. */
static void *activate_experts(const struct lls_forward *s, const struct lls_route *route)
{
  const struct lls_model_config *c = &s->e->config;
  const struct lls_activations *act = &s->e->act;
  if (!c->gated)
    return activate(s, s->n_rows * c->mixture.active, c->mixture.ffn);
  s->ops->gated_experts(s->device, route, c->activation, act->wide, s->n_rows,
                        c->mixture.ffn, act->narrow);
  return act->narrow;
}

/* Sends rows of input through the experts that scores choose. With mixture.latent the
 * experts' input and output are in `narrow`. */
static void mix(const struct lls_forward *s, uint32_t layer, const void *input,
                enum lls_linear_store store, void *y)
{
  const struct lls_layer_weights *w = &s->e->weights.layers[layer];
  const struct lls_model_config *c = &s->e->config;
  const struct lls_activations *act = &s->e->act;
  struct lls_route own = act->route;
  const struct lls_route *route = &own;
  uint32_t width = c->mixture.latent > 0 ? c->mixture.latent : c->hidden;
  own.bias = w->router_bias;
  own.factor = w->expert_factor;
  LLS_CHECK(s->n_rows * (size_t)c->mixture.active <= lls_engine_slots(s->e));
  s->ops->route(s->device, act->scores, s->n_rows, c->mixture.normalise, route);
  if (w->mixture_in != NULL) {
    s->ops->linear(s->device, w->mixture_in, input, s->n_rows, LLS_STORE_SET,
                   act->narrow);
    input = act->narrow;
  }
  s->ops->gather_routed(s->device, route, input, s->n_rows, width, act->routed);
  s->ops->linear_experts(s->device, w->expert_up, route, act->routed, s->n_rows,
                         act->wide);
  lls_engine_adapt_experts(s, layer, LLS_ADAPTED_EXPERT_UP, route, act->routed,
                           act->wide);
  const void *inner = activate_experts(s, route);
  s->ops->linear_experts(s->device, w->expert_down, route, inner, s->n_rows, act->routed);
  lls_engine_adapt_experts(s, layer, LLS_ADAPTED_EXPERT_DOWN, route, inner, act->routed);
  if (w->mixture_out == NULL) {
    s->ops->combine(s->device, route, act->routed, s->n_rows, width, store, y);
    return;
  }
  s->ops->combine(s->device, route, act->routed, s->n_rows, width, LLS_STORE_SET,
                  act->narrow);
  s->ops->linear(s->device, w->mixture_out, act->narrow, s->n_rows, store, y);
}

void lls_engine_mix(const struct lls_forward *s, uint32_t layer, const void *input,
                    enum lls_linear_store store, void *y)
{
  const struct lls_layer_weights *w = &s->e->weights.layers[layer];
  if (w->shared_up != NULL) {
    add_shared(s, layer, input, store, y);
    store = LLS_STORE_ADD;
  }
  s->ops->logits(s->device, w->router, input, s->n_rows, s->e->act.scores);
  mix(s, layer, input, store, y);
}

static void norm_rows(const struct lls_forward *s, const float *weight, const void *x,
                      void *y)
{
  const struct lls_model_config *c = &s->e->config;
  s->ops->norm(s->device, LLS_NORM_RMS, x, weight, NULL, c->norm_epsilon, s->n_rows,
               c->hidden, y);
}

/* `routed` is free before and behind the experts: there the router's input and the MLP's
 * output have room. */
void lls_engine_mix_beside(const struct lls_forward *s, uint32_t layer, void *y)
{
  const struct lls_model_config *c = &s->e->config;
  const struct lls_activations *act = &s->e->act;
  const struct lls_layer_weights *w = &s->e->weights.layers[layer];
  norm_rows(s, w->router_norm, s->x, act->routed);
  s->ops->logits(s->device, w->router, act->routed, s->n_rows, act->scores);
  norm_rows(s, w->mixture_norm.weight, s->x, y);
  mix(s, layer, y, LLS_STORE_SET, y);
  lls_engine_sum_shares(s, y);
  norm_rows(s, w->mixture_output_norm.weight, y, y);

  norm_rows(s, w->mlp_norm.weight, s->x, act->routed);
  const void *inner = lls_engine_mlp_inner(s, layer, act->routed);
  s->ops->linear(s->device, w->down, inner, s->n_rows, LLS_STORE_SET, act->routed);
  lls_engine_sum_shares(s, act->routed);
  norm_rows(s, w->beside_output_norm.weight, act->routed, act->routed);
  s->ops->add(s->device, act->routed, s->n_rows, c->hidden, y);
}
