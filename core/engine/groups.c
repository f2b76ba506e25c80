/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of layers that keep, forget and share alike, as policies see them
 * (llmserve/types.h): made from the model's configuration and the shape of the pool.
 * Nothing outside of core/model, core/engine and kernels sees a layer.
 *
 * Layers with the same window, or chunk, and heads are a group, and those that attend to
 * all tokens are the first one. Where the cache manager keeps fewer groups the layers
 * with the narrowest windows share the last group, which keeps what the widest of them
 * reads. Layers that attend to the K and V of an earlier one are of no group. Layers that
 * keep a state are a group behind the others.
 */
#include <errno.h>

#include "core/base/least.h"
#include "core/base/text.h"
#include "core/engine/engine_internal.h"

/* ---- layers ------------------------------------------------------------------------ */

/* Does a layer read a chunk, which the cache manager gives back by the chunk's rule? */
static bool is_chunked(const struct lls_engine *e, uint32_t layer)
{
  return !e->config.encoder && e->config.layer[layer].chunked && e->options.keeps_chunks;
}

/* A layer without a window reads more than all others; one that does not attend nothing.
 * Chunks are kept in whole by a cache manager that lacks their rule. */
static uint32_t reach_of(const struct lls_engine *e, uint32_t layer)
{
  if (!lls_layer_attends(&e->config, layer))
    return 0;
  uint32_t window = e->config.encoder ? 0 : e->config.layer[layer].window;
  if (e->config.layer[layer].chunked && !is_chunked(e, layer))
    return UINT32_MAX;
  return window > 0 ? window : UINT32_MAX;
}

#define CHUNKED (UINT64_C(1) << 31)

/* A number of which layers of one group have the same: by the reach, then the rule of
 * chunks, then the heads. */
static uint64_t kind_of(const struct lls_engine *e, uint32_t layer)
{
  uint32_t heads = lls_layer_kv_heads(&e->config, layer);
  uint32_t head_dim = lls_layer_head_dim(&e->config, layer);
  uint64_t rule = is_chunked(e, layer) ? CHUNKED : 0;
  return (uint64_t)reach_of(e, layer) << 32 | rule | heads << 16 | head_dim;
}

/* The layers' largest kind below `limit`; 0: no layer has one. */
static uint64_t next_kind(const struct lls_engine *e, uint64_t limit)
{
  uint64_t largest = 0;
  for (uint32_t i = 0; i < e->config.layers; i++) {
    uint64_t kind = kind_of(e, i);
    if (reach_of(e, i) > 0 && !e->config.layer[i].shares && kind < limit &&
        kind > largest)
      largest = kind;
  }
  return largest;
}

/* Makes a group of the layers of a kind. */
static void make_group(struct lls_engine *e, uint32_t group, uint64_t kind)
{
  struct lls_pool_shape *pool = &e->pool_shape;
  uint32_t reach = (uint32_t)(kind >> 32);
  e->groups[group].kind = kind;
  e->groups[group].seen = (struct lls_group){
      .size = sizeof e->groups[group].seen,
      .kind = reach == UINT32_MAX     ? LLS_GROUP_FULL
              : (kind & CHUNKED) != 0 ? LLS_GROUP_CHUNK
                                      : LLS_GROUP_WINDOW,
      .window = reach == UINT32_MAX ? 0 : reach,
  };
  pool->group_kv_heads[group] = (kind >> 16) & 0x7fff;
  pool->group_head_dim[group] = kind & 0xffff;
}

/* Finds the group of a layer: the last of `n` for those that have none of their own. */
static int place_layer(struct lls_engine *e, uint32_t layer, uint32_t n,
                       struct lls_error *err)
{
  uint64_t kind = kind_of(e, layer);
  uint32_t group = 0;
  while (group + 1 < n && e->groups[group].kind != kind)
    group++;
  uint64_t differ = (e->groups[group].kind ^ kind) & UINT32_MAX & ~CHUNKED;
  if (differ != 0 ||
      (e->groups[group].seen.kind == LLS_GROUP_CHUNK && e->groups[group].kind != kind))
    return lls_fail(err, -ENOTSUP,
                    "layers of this model have heads of different sizes, or chunks of "
                    "different lengths, which need groups of blocks of their own, and "
                    "the cache manager keeps %u: set [plugins] cache = paged",
                    n);
  e->places[layer] =
      (struct lls_layer_place){.group = group, .index = e->groups[group].seen.layers++};
  return 0;
}

/* States begin where vectors do. */
#define STATE_ALIGNMENT 64

/* Places a layer with a state into group n. */
static void place_state(struct lls_engine *e, uint32_t layer, uint32_t n)
{
  size_t bytes = lls_mix_state(&e->config, layer) * sizeof(float);
  uint64_t *all = &e->pool_shape.group_state[n];
  uint32_t index = e->groups[n].seen.layers++;
  if (!lls_layer_attends(&e->config, layer)) /* those that do have a place there */
    e->places[layer] = (struct lls_layer_place){.group = n, .index = index};
  e->places[layer].at = *all;
  *all += (bytes + STATE_ALIGNMENT - 1) / STATE_ALIGNMENT * STATE_ALIGNMENT;
}

static bool is_state(const struct lls_engine *e, uint32_t layer)
{
  return !e->config.encoder && lls_mix_state(&e->config, layer) > 0;
}

static bool has_states(const struct lls_engine *e)
{
  bool any = false;
  for (uint32_t i = 0; i < e->config.layers; i++)
    any |= is_state(e, i);
  return any;
}

/* Can the cache manager keep groups of states beside the others? */
static int check_states(const struct lls_engine *e, uint32_t most, struct lls_error *err)
{
  bool attends = next_kind(e, UINT64_MAX) > 0;
  if (e->options.keeps_states && most >= 1u + attends)
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "layers of this model keep a state of each sequence, which this cache "
                  "manager cannot: set [plugins] cache = tiered or paged");
}

int lls_engine_divide_layers(struct lls_engine *e, struct lls_error *err)
{
  struct lls_pool_shape *pool = &e->pool_shape;
  uint32_t most = lls_least_u32(e->options.groups, LLS_MAX_GROUPS), n = 0;
  bool states = has_states(e);
  int rc = states ? check_states(e, most, err) : 0;
  most -= states;
  uint64_t kind = next_kind(e, UINT64_MAX);
  for (; kind > 0 && (n == 0 || n < most); kind = next_kind(e, kind))
    make_group(e, n++, kind);
  if (states)
    e->groups[n].seen =
        (struct lls_group){.size = sizeof e->groups[n].seen, .kind = LLS_GROUP_STATE};
  for (uint32_t i = 0; i < e->config.layers && rc == 0; i++) {
    const struct lls_layer_config *layer = &e->config.layer[i];
    if (layer->shares)
      e->places[i] = e->places[layer->keeper];
    else if (e->config.encoder || lls_layer_attends(&e->config, i))
      rc = place_layer(e, i, n, err);
    if (is_state(e, i))
      place_state(e, i, n);
  }
  if (rc < 0)
    return rc;
  n += states;
  e->caps.n_groups = n;
  pool->n_groups = e->config.encoder ? 0 : n;
  for (uint32_t i = 0; i < n; i++)
    pool->group_layers[i] = e->groups[i].seen.layers;
  if (e->config.encoder)
    return 0;
  *pool = lls_group_shape(pool, 0);
  return 0;
}

/* ---- forms ------------------------------------------------------------------------- */

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

static void add_forms(const struct lls_engine *e, uint32_t group,
                      struct lls_engine_group *g)
{
  const struct lls_pool_shape pool = lls_group_shape(&e->pool_shape, group);
  bool state = lls_engine_group_is_state(e, group);
  for (uint32_t form = 0; form <= LLS_FORM_STATE; form++)
    if (state || form <= LLS_FORM_INT8)
      g->form_units[form] = lls_form_units(&pool, form);
  g->seen.forms = g->forms;
  if (state) {
    add_form(g, &pool, LLS_FORM_STATE, LLS_FORM_WRITTEN | LLS_FORM_READ);
    return;
  }
  add_form(g, &pool, LLS_FORM_KV, LLS_FORM_WRITTEN | LLS_FORM_READ);
  if (e->caps.forms & LLS_BIT_HIDDEN)
    add_form(g, &pool, LLS_FORM_HIDDEN, LLS_FORM_WRITTEN | LLS_FORM_READ);
  if (pool.int8 != LLS_INT8_OFF)
    add_form(g, &pool, LLS_FORM_INT8, pool.int8 == LLS_INT8_ALL ? LLS_FORM_READ : 0);
}

void lls_engine_make_groups(struct lls_engine *e)
{
  for (uint32_t i = 0; i < e->caps.n_groups; i++) {
    add_forms(e, i, &e->groups[i]);
    e->seen_groups[i] = &e->groups[i].seen;
  }
  e->caps.groups = e->seen_groups;
}

/* ---- sizes ------------------------------------------------------------------------- */

/* The most tokens of a group that a sequence holds at once, in steps of at most `step` of
 * its tokens: a window ends inside of a block, and a step in another. */
static size_t held_tokens(const struct lls_engine *e, const struct lls_group *g,
                          size_t tokens, size_t step)
{
  size_t slides = (size_t)g->window + step + 2 * (size_t)e->options.block_tokens;
  bool gives_back = g->kind == LLS_GROUP_CHUNK ||
                    (e->options.gives_back && g->kind == LLS_GROUP_WINDOW);
  return gives_back ? lls_least_size(slides, tokens) : tokens;
}

/* States of a sequence: its own. Its checkpoints in the prefix index are kept while no
 * sequence needs their memory, as blocks of ended requests are. A step that leaves one
 * reads a state, writes it, and writes the next. */
static size_t states_for(size_t step)
{
  return step > 0 ? 3 : 1;
}

static size_t units_for(const struct lls_engine *e, size_t tokens, size_t step)
{
  size_t units = 0, room = e->options.block_tokens;
  for (uint32_t i = 0; i < e->caps.n_groups; i++) {
    const struct lls_engine_group *g = &e->groups[i];
    if (g->seen.kind == LLS_GROUP_STATE) {
      units += states_for(step) * g->form_units[LLS_FORM_STATE];
      continue;
    }
    size_t blocks = (held_tokens(e, &g->seen, tokens, step) + room - 1) / room;
    units += blocks * g->form_units[LLS_FORM_KV];
  }
  return units;
}

size_t lls_engine_units_for(const struct lls_engine *e, size_t tokens)
{
  return units_for(e, tokens, e->options.max_tokens);
}

size_t lls_engine_resting_units(const struct lls_engine *e, size_t tokens)
{
  return units_for(e, tokens, 0);
}

/* Appends what a group's layers keep of a token, and of how many tokens. */
static void describe_group(const struct lls_engine *e, const struct lls_engine_group *g,
                           struct lls_text *out)
{
  double unit = (double)lls_unit_bytes(&e->pool_shape) / e->options.block_tokens;
  if (g->seen.kind == LLS_GROUP_STATE) {
    lls_text_printf(out, "a state of %g KiB of %u layers",
                    unit * e->options.block_tokens * g->form_units[LLS_FORM_STATE] / 1024,
                    g->seen.layers);
    return;
  }
  lls_text_printf(out, "%g KiB a token in %u layers",
                  unit * g->form_units[LLS_FORM_KV] / 1024, g->seen.layers);
  if (g->seen.kind == LLS_GROUP_CHUNK)
    lls_text_printf(out, " that keep a chunk of %u tokens", g->seen.window);
  if (g->seen.kind == LLS_GROUP_WINDOW)
    lls_text_printf(out, "%s%u tokens",
                    e->options.gives_back ? " that keep " : ", all kept, window ",
                    g->seen.window);
}

void lls_engine_describe_cache(const struct lls_engine *e, uint32_t tokens,
                               struct lls_text *out)
{
  double mib = (double)lls_unit_bytes(&e->pool_shape) / (1 << 20);
  size_t blocks = (tokens + e->options.block_tokens - 1) / e->options.block_tokens;
  size_t units = lls_engine_resting_units(e, tokens);
  size_t all = blocks * lls_all_units(&e->pool_shape);
  for (uint32_t i = 0; i < e->caps.n_groups; i++) {
    lls_text_puts(out, i > 0 ? ", " : "");
    describe_group(e, &e->groups[i], out);
  }
  lls_text_printf(out, "; %.1f MiB a sequence of %u tokens", (double)units * mib, tokens);
  if (units < all)
    lls_text_printf(out, ", %.1f MiB if every layer kept all", (double)all * mib);
}
