/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences in hidden form, for one step. The cache manager gives each a list of X
 * blocks. If K and V are linear in X, rows of decodes and of small chunks attend to X
 * itself (attend_hidden: absorbed). Otherwise the device restores K and V layer by
 * layer into its scratch: this file gives such a sequence a list of scratch blocks, and
 * every operation except hidden_write and restore treats it like any other sequence.
 *
 * A sequence in KV form that also has X blocks is being converted: K and V are restored
 * from X into its K and V blocks, and the manager may free the X blocks afterwards.
 */
#include <errno.h>

#include "core/base/least.h"
#include "core/engine/engine_internal.h"

static uint32_t blocks_of(const struct lls_engine *e, uint32_t tokens)
{
  uint32_t room = e->pool_shape.block_tokens;
  return (tokens + room - 1) / room;
}

const char *lls_model_why_no_hidden(const struct lls_model_config *c)
{
  if (c->encoder)
    return "this model is an encoder, which caches nothing";
  if (c->latent.rank > 0)
    return "this model caches latent vectors (MLA), which are smaller than its hidden "
           "states";
  if (c->recurrent.conv_width > 0)
    return "layers of this model keep a state of the sequence, and no tokens";
  if (c->hidden > c->kv_heads * c->head_dim)
    return "heads of this model share keys and values, so that its hidden states are no "
           "smaller than those";
  if (c->hidden < c->kv_heads * c->head_dim)
    return "its hidden states are smaller than a unit block";
  if (c->qk_norm != LLS_QK_NORM_NONE)
    return "this model norms its keys, which restoring does not";
  if (c->local_rope.dims > 0)
    return "layers of this model rotate positions differently";
  return NULL;
}

/* Returns the reason why this model on this device cannot have the hidden form under
 * any options. */
static const char *why_impossible(const struct lls_engine *e)
{
  if (e->device->ops->restore == NULL)
    return "this device cannot restore keys and values";
  if (e->options.adapters)
    return "adapters change keys and values, which restoring does not";
  if (e->caps.n_groups > 1)
    return "layers of this model keep different tokens";
  return lls_model_why_no_hidden(&e->model);
}

bool lls_engine_gave_up_hidden(const struct lls_engine *e)
{
  return e->options.kv_only && e->device->has_own_memory && why_impossible(e) == NULL;
}

const char *lls_engine_why_no_hidden(const struct lls_engine *e)
{
  if (lls_engine_gave_up_hidden(e))
    return "the cache manager has no use for it, and got its memory";
  return why_impossible(e);
}

/* ---- absorbed attention ---------------------------------------------------------- */

static bool turns_keys(const struct lls_model_config *c)
{
  return c->rope.dims > 0 || c->local_rope.dims > 0;
}

/* Decides whether rows may be absorbed, which takes all steps between X and a score to
 * be linear in X. Models that rotate K or a part of it (NeoX) restore instead: the
 * rotation of a token lies between Wk and the query, so the rotated dimensions of K
 * must be computed anyway. */
void lls_engine_decide_on_absorbing(struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  const struct lls_device_ops *ops = e->device->ops;
  e->absorbs = (e->caps.forms & LLS_BIT_HIDDEN) && ops->absorbs != NULL &&
               !turns_keys(c) && c->heads == c->kv_heads && c->attention_cap <= 0 &&
               c->alibi <= 0 && lls_widest_window(c) == 0;
  for (uint32_t i = 0; i < e->weights.n_layers && e->absorbs; i++) {
    const struct lls_layer_weights *w = &e->weights.layers[i];
    e->absorbs = w->sinks == NULL && ops->absorbs(e->device, w->qkv, c->head_dim);
  }
}

/* True if a sequence is absorbed. Restoring costs 4 d d operations for each token,
 * attending to its X 4 d H for each row: the same for head_dim rows. A sequence that
 * finds no free scratch is absorbed too. */
static bool absorb(const struct lls_engine *e, const struct lls_step_sequence *s)
{
  uint32_t blocks = blocks_of(e, s->context + s->n_rows);
  return e->absorbs && (s->n_rows < e->config.head_dim ||
                        e->scratch_used + blocks > e->pool_shape.scratch_blocks);
}

/* ---- scratch --------------------------------------------------------------------- */

/* Returns the scratch blocks to allocate. If rows may be absorbed, the prompts of a step
 * and one sequence at full length are enough. */
uint32_t lls_engine_scratch_blocks(const struct lls_engine *e)
{
  uint64_t most = (uint64_t)e->options.max_sequences * blocks_of(e, e->caps.max_context);
  /* if all of them hold X */
  uint32_t cached = e->pool_shape.device_units / e->groups[0].form_units[LLS_FORM_HIDDEN];
  uint32_t prompts = e->options.max_tokens / e->config.head_dim;
  uint64_t few =
      blocks_of(e, e->options.max_tokens) + prompts + blocks_of(e, e->caps.max_context);
  most = e->absorbs && few < most ? few : most;
  return most < cached ? (uint32_t)most : cached;
}

/* A block of X takes a side of memory, and a block of scratch two sides of one layer. */
size_t lls_engine_without_scratch(struct lls_engine *e, size_t bytes)
{
  size_t layers = e->pool_shape.layers, by_unit = bytes / (layers + 2) * layers;
  if ((e->caps.forms & LLS_BIT_HIDDEN) == 0)
    return bytes;
  e->pool_shape.device_units = UINT32_MAX / 2;
  size_t scratch = 2 * (lls_side_bytes(&e->pool_shape) / layers);
  size_t most = lls_engine_scratch_blocks(e) * scratch;
  return bytes > most && bytes - most > by_unit ? bytes - most : by_unit;
}

int lls_engine_check_hidden(const struct lls_engine *e,
                            const struct lls_engine_batch *batch, struct lls_error *err)
{
  uint64_t blocks = 0;
  for (uint32_t i = 0; i < batch->n_sequences && !e->absorbs; i++) {
    const struct lls_engine_sequence *s = &batch->sequences[i];
    if (lls_list_is_hidden(lls_engine_list(e, s, 0)))
      blocks += blocks_of(e, s->context + s->n_tokens);
  }
  if (blocks <= e->pool_shape.scratch_blocks)
    return 0;
  return lls_fail(err, -EINVAL,
                  "%llu blocks of restored keys and values in a step where %u are the "
                  "most",
                  (unsigned long long)blocks, e->pool_shape.scratch_blocks);
}

/* Returns a list of the next free scratch blocks, for `tokens` tokens. */
static struct lls_step_list scratch_list(struct lls_engine *e, uint32_t tokens)
{
  uint32_t room = e->pool_shape.block_tokens, n = blocks_of(e, tokens);
  struct lls_block_entry *list = e->table_cache.arena != NULL
                                     ? e->table_cache.arena + e->table_cache.scratch_at
                                     : e->scratch_entries;
  LLS_CHECK(e->scratch_used + n <= e->pool_shape.scratch_blocks);
  list += e->scratch_used;
  for (uint32_t i = 0; i < n; i++)
    list[i] = (struct lls_block_entry){
        .block = e->scratch_used++,
        .first_token = i * room,
        .count = (uint16_t)lls_least_u32(room, tokens - i * room),
    };
  return (struct lls_step_list){.entries = list, .n = n, .tidy = true};
}

void lls_engine_lay_out_hidden(struct lls_engine *e, struct lls_step_sequence *s)
{
  uint32_t tokens = s->context + s->n_rows;
  bool is_hidden = s->kv.n == 0; /* else K and V are restored into its own blocks */
  if (s->hidden.n == 0)
    return;
  if (is_hidden && absorb(e, s)) {
    s->absorbed = e->attends_hidden = true;
    return;
  }
  s->n_restored = s->context;
  e->restores = true;
  if (!is_hidden)
    return;
  LLS_CHECK(s->hidden.n >= blocks_of(e, tokens));
  s->kv = scratch_list(e, tokens);
  s->scratch = true;
}
