/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of layers that keep, forget and share alike, as policies see them
 * (llmserve/types.h): made from the model's configuration and the shape of the pool.
 * Nothing outside of core/model, core/engine and kernels sees a layer.
 *
 * All layers are one group, since a block holds all of them: if every layer has a sliding
 * window the group's window is the widest of them, else the group is FULL.
 */
#include "core/engine/engine_internal.h"

static void add_form(struct lls_engine_group *g, const struct lls_pool_shape *pool,
                     uint32_t form, uint32_t flags)
{
  g->forms[g->seen.n_forms++] = (struct lls_group_form){
      .form = form,
      .block_units = lls_form_units(pool, form),
      .flags = flags,
      .ratio = (float)((double)lls_form_bytes(pool, form) /
                       (double)lls_form_bytes(pool, LLS_FORM_KV)),
  };
}

void lls_engine_make_groups(struct lls_engine *e)
{
  const struct lls_pool_shape *pool = &e->pool_shape;
  struct lls_engine_group *g = &e->group;
  uint32_t window = lls_widest_window(&e->config);
  for (uint32_t form = 0; form <= LLS_FORM_INT8; form++)
    e->form_units[form] = lls_form_units(pool, form);
  *g = (struct lls_engine_group){
      .seen = {
          .size = sizeof g->seen,
          .kind = window > 0 ? LLS_GROUP_WINDOW : LLS_GROUP_FULL,
          .window = window,
          .layers = e->config.layers,
          .forms = g->forms,
      }};
  add_form(g, pool, LLS_FORM_KV, LLS_FORM_WRITTEN | LLS_FORM_READ);
  if (e->caps.forms & LLS_BIT_HIDDEN)
    add_form(g, pool, LLS_FORM_HIDDEN, LLS_FORM_WRITTEN | LLS_FORM_READ);
  if (pool->int8 != LLS_INT8_OFF)
    add_form(g, pool, LLS_FORM_INT8, pool->int8 == LLS_INT8_ALL ? LLS_FORM_READ : 0);
  e->seen_groups[0] = &g->seen;
  e->caps.n_groups = 1;
  e->caps.groups = e->seen_groups;
}

size_t lls_engine_units_for(const struct lls_engine *e, size_t tokens)
{
  size_t blocks = (tokens + e->options.block_tokens - 1) / e->options.block_tokens;
  return blocks * e->form_units[LLS_FORM_KV];
}
