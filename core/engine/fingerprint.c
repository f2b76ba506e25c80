/* SPDX-License-Identifier: Apache-2.0 */
/* See fingerprint.h. The values of weights are left out, and so is their path. */
#include "core/engine/fingerprint.h"

#include <stdio.h>

#include "core/engine/engine_internal.h"
#include "core/model/architecture.h"

static const char *number_name(enum lls_dtype t)
{
  static const char *const names[] = {"f32", "f16", "bf16", "int8"};
  return names[t]; /* the element type of a cache is one of these four */
}

static void identify_model(const struct lls_model_config *c, char *text, size_t size)
{
  snprintf(text, size, "%s, %u layers of %u, %u and %u heads of %u, inner %u, %u tokens",
           c->architecture->names[0], c->layers, c->hidden, c->heads, c->kv_heads,
           c->head_dim, c->ffn, c->vocab);
}

/* Writes the number of tokens that fit into the pool instead of its bytes: on a GPU the
 * bytes depend on how much memory was free. */
static void identify_engine(const struct lls_engine *e, char *text, size_t size)
{
  const struct lls_pool_shape *pool = &e->pool_shape;
  uint32_t room = (uint32_t)lls_pool_tokens(pool, pool->device_units);
  int n = snprintf(
      text, size,
      "%zu bytes of weights, cached in %s, blocks of %u, contexts to %u, ranks %u",
      lls_engine_weight_bytes(e), number_name(pool->element), pool->block_tokens,
      room < e->caps.max_context ? room : e->caps.max_context,
      e->options.ranks != NULL ? e->options.ranks->size : 1);
  for (uint32_t i = 1; i < e->caps.n_groups && n > 0 && (size_t)n < size; i++)
    n += snprintf(text + n, size - (size_t)n, ", %u layers to %u",
                  e->groups[i].seen.layers, e->groups[i].seen.window);
}

void lls_engine_take_fingerprint(const struct lls_engine *e,
                                 struct lls_engine_fingerprint *out)
{
  const struct lls_device_ops *ops = e->device->ops;
  if (ops->identify != NULL)
    ops->identify(e->device, out->device, sizeof out->device);
  else
    snprintf(out->device, sizeof out->device, "%s", ops->name);
  identify_model(&e->model, out->model, sizeof out->model);
  identify_engine(e, out->engine, sizeof out->engine);
}
