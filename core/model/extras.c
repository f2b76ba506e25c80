/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the operations a model needs that only some devices have. */
#include "core/model/model_config.h"

bool lls_heads_differ(const struct lls_model_config *c)
{
  for (uint32_t i = 0; i < c->layers; i++)
    if (c->layer[i].shares || lls_layer_kv_heads(c, i) != c->kv_heads ||
        lls_layer_head_dim(c, i) != c->head_dim)
      return true;
  return false;
}

static bool has_chunks(const struct lls_model_config *c)
{
  for (uint32_t i = 0; i < c->layers; i++)
    if (c->layer[i].chunked)
      return true;
  return false;
}

static bool cuts_gates(const struct lls_model_config *c)
{
  for (uint32_t i = 0; i < c->layers; i++)
    if (c->layer[i].cuts_gates)
      return true;
  return false;
}

uint32_t lls_model_extras(const struct lls_model_config *c, uint32_t context)
{
  const struct lls_mixture_config *m = &c->mixture;
  const struct {
    bool needed;
    enum lls_device_extra bit;
  } rows[] = {
      {c->activation == LLS_ACT_SQUARED_RELU, LLS_EXTRA_SQUARED_RELU},
      {c->xielu, LLS_EXTRA_XIELU},
      {c->alibi > 0, LLS_EXTRA_ALIBI},
      {c->growth.factor != 0 && (uint64_t)context + c->growth.offset > c->growth.every,
       LLS_EXTRA_QUERY_GROWTH},
      {m->logistic || m->corrected || m->beside || m->weighs_input || m->groups > 1 ||
           (m->scale != 0 && m->scale != 1),
       LLS_EXTRA_ROUTER},
      {m->shared_gate, LLS_EXTRA_SHARED_GATE},
      {m->experts > 0 && !c->gated, LLS_EXTRA_PLAIN_EXPERTS},
      {c->latent.rank > 0, LLS_EXTRA_LATENT},
      {c->v_norm || lls_heads_differ(c), LLS_EXTRA_HEAD_SIZES},
      {c->layer_inputs > 0 || c->layer_scalars || c->factors.attended > 0,
       LLS_EXTRA_LAYER_INPUTS},
      {c->recurrent.conv_width > 0 || c->output_gate, LLS_EXTRA_STATES},
      {has_chunks(c), LLS_EXTRA_CHUNKS},
      {c->streams.n > 0 || cuts_gates(c), LLS_EXTRA_STREAMS},
      {c->latent.index.chosen > 0 && context > c->latent.index.chosen, LLS_EXTRA_INDEX},
  };
  uint32_t extras = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].needed)
      extras |= rows[i].bit;
  return extras;
}

const char *lls_extra_name(uint32_t extras)
{
  static const struct {
    enum lls_device_extra bit;
    const char *name;
  } names[] = {
      {LLS_EXTRA_SQUARED_RELU, "the squared ReLU"},
      {LLS_EXTRA_XIELU, "xIELU"},
      {LLS_EXTRA_ALIBI, "ALiBi"},
      {LLS_EXTRA_QUERY_GROWTH,
       "queries that grow with their position (in contexts beyond "
       "the one of the first training)"},
      {LLS_EXTRA_ROUTER, "a router of experts other than a softmax"},
      {LLS_EXTRA_SHARED_GATE, "a gate of the shared expert"},
      {LLS_EXTRA_LATENT, "multi-head latent attention (MLA)"},
      {LLS_EXTRA_HEAD_SIZES, "layers with heads of different sizes, or with those of "
                             "earlier layers"},
      {LLS_EXTRA_LAYER_INPUTS, "inputs of each layer from the tokens, or scales of "
                               "layers' outputs"},
      {LLS_EXTRA_STATES, "layers that keep a state of the sequence"},
      {LLS_EXTRA_CHUNKS, "attention within chunks of tokens"},
      {LLS_EXTRA_PLAIN_EXPERTS, "experts without a gate"},
      {LLS_EXTRA_STREAMS,
       "several hidden states of a token (AltUp), or gates that are cut "
       "by their mean"},
      {LLS_EXTRA_INDEX, "an index of tokens (DSA), for contexts of more tokens than it "
                        "chooses ([engine] max_context)"},
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if ((extras & names[i].bit) != 0)
      return names[i].name;
  return "nothing";
}

void lls_model_fit_index(struct lls_model_config *c, uint32_t context)
{
  struct lls_index_config *index = &c->latent.index;
  if (index->chosen == 0 || context > index->chosen)
    return;
  c->head_dim -= index->dim;
  *index = (struct lls_index_config){0};
}
