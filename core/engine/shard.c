/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a model a rank has; see shard.h. */
#include "core/engine/shard.h"

#include <errno.h>

#include "core/device/quantised.h"

static struct lls_range part_of(size_t whole, uint32_t rank, uint32_t size)
{
  size_t first = lls_ranks_first(whole, rank, size);
  return (struct lls_range){first, lls_ranks_first(whole, rank + 1, size) - first, whole};
}

static struct lls_range kv_part_of(size_t whole, uint32_t rank, uint32_t size)
{
  if (whole >= size)
    return part_of(whole, rank, size);
  return (struct lls_range){whole * rank / size, 1, whole};
}

struct lls_range lls_shard_kv_heads(const struct lls_shard *s,
                                    const struct lls_model_config *whole, uint32_t layer)
{
  return kv_part_of(lls_layer_kv_heads(whole, layer), s->rank, s->size);
}

struct lls_range lls_shard_ffn(const struct lls_shard *s,
                               const struct lls_model_config *whole, uint32_t layer)
{
  return part_of(lls_layer_ffn(whole, layer), s->rank, s->size);
}

static int check_layer(const struct lls_model_config *c, uint32_t layer, uint32_t size,
                       struct lls_error *err)
{
  uint32_t kv_heads = lls_layer_kv_heads(c, layer), ffn = lls_layer_ffn(c, layer);
  if (kv_heads % size != 0 && size % kv_heads != 0)
    return lls_fail(err, -EINVAL,
                    "%u key-value heads can neither be shared out to %u "
                    "ranks nor be the same on some of them: use a divisor or a multiple "
                    "of %u",
                    kv_heads, size, kv_heads);
  if (ffn % size != 0)
    return lls_fail(err, -EINVAL,
                    "%u columns of the inner layer cannot be shared out to "
                    "%u ranks: use a number that divides %u",
                    ffn, size, ffn);
  return 0;
}

static int check(const struct lls_model_config *c, uint32_t size, struct lls_error *err)
{
  if (c->heads % size != 0)
    return lls_fail(err, -EINVAL,
                    "%u heads cannot be shared out to %u ranks: use a "
                    "number that divides %u",
                    c->heads, size, c->heads);
  for (uint32_t i = 0; i < c->layers; i++) {
    int rc = check_layer(c, i, size, err);
    if (rc < 0)
      return rc;
  }
  if (c->mixture.shared % size != 0)
    return lls_fail(
        err, -EINVAL,
        "%u inner columns of the shared expert cannot be shared out to %u ranks: use a "
        "number that divides %u",
        c->mixture.shared, size, c->mixture.shared);
  if (c->mixture.ffn % size != 0)
    return lls_fail(
        err, -EINVAL,
        "%u inner columns of an expert cannot be shared out to %u ranks: use a "
        "number that divides %u",
        c->mixture.ffn, size, c->mixture.ffn);
  return 0;
}

/* Ranks have whole key heads, and the value heads of each: the files of one kind have
 * them elsewhere. */
static int check_states(const struct lls_recurrent_config *r, uint32_t size,
                        struct lls_error *err)
{
  if (r->channels % size != 0 || r->key_heads % size != 0)
    return lls_fail(err, -EINVAL,
                    "%u channels and %u key heads of layers with a state cannot be "
                    "shared out to %u ranks: use a number that divides both",
                    r->channels, r->key_heads, size);
  if (size > 1 && r->tiled)
    return lls_fail(err, -ENOTSUP,
                    "the value heads of a GGUF file of this kind are not sorted by key "
                    "heads, which ranks have: use one rank, or the model's folder");
  return 0;
}

int lls_shard_make(const struct lls_model_config *c, const struct lls_ranks *ranks,
                   struct lls_shard *out, struct lls_error *err)
{
  uint32_t rank = ranks != NULL ? ranks->rank : 0, size = ranks != NULL ? ranks->size : 1;
  const struct lls_recurrent_config *r = &c->recurrent;
  int rc = check(c, size, err);
  if (rc == 0)
    rc = check_states(r, size, err);
  if (rc < 0)
    return rc;
  struct lls_range keys = part_of(r->key_heads, rank, size);
  *out = (struct lls_shard){
      .rank = rank,
      .size = size,
      .heads = part_of(c->heads, rank, size),
      .kv_heads = kv_part_of(c->kv_heads, rank, size),
      .ffn = part_of(c->ffn, rank, size),
      .expert_ffn = part_of(c->mixture.ffn, rank, size),
      .shared_ffn = part_of(c->mixture.shared, rank, size),
      .vocab = part_of(c->vocab, rank, size),
      .channels = part_of(r->channels, rank, size),
      .key_heads = keys,
      .value_heads =
          r->key_heads > 0 ? lls_range_times(keys, r->value_heads / r->key_heads) : keys,
  };
  return 0;
}

void lls_shard_config(const struct lls_shard *s, struct lls_model_config *c)
{
  for (uint32_t i = 0; i < c->layers; i++) {
    struct lls_layer_config *layer = &c->layer[i];
    if (layer->kv_heads > 0)
      layer->kv_heads = (uint32_t)kv_part_of(layer->kv_heads, s->rank, s->size).n;
    if (layer->ffn > 0)
      layer->ffn = (uint32_t)part_of(layer->ffn, s->rank, s->size).n;
  }
  c->heads = (uint32_t)s->heads.n;
  c->kv_heads = (uint32_t)s->kv_heads.n;
  c->ffn = (uint32_t)s->ffn.n;
  c->mixture.ffn = (uint32_t)s->expert_ffn.n;
  c->mixture.shared = (uint32_t)s->shared_ffn.n;
  c->recurrent.channels = (uint32_t)s->channels.n;
  c->recurrent.key_heads = (uint32_t)s->key_heads.n;
  c->recurrent.value_heads = (uint32_t)s->value_heads.n;
}

/* Returns the view `numbers` values later. Random values are splitmix64 of (seed,
 * index), so moving the seed gives a part the values that the whole tensor has there. */
static struct lls_tensor_view moved(const struct lls_tensor_view *whole, size_t numbers)
{
  struct lls_tensor_view part = *whole;
  if (whole->data != NULL)
    part.data = (const char *)whole->data + lls_dtype_row_bytes(whole->dtype, numbers);
  else
    part.seed = whole->seed + UINT64_C(0x9E3779B97F4A7C15) * numbers;
  return part;
}

struct lls_tensor_view lls_view_columns(const struct lls_tensor_view *whole, size_t first,
                                        size_t n)
{
  struct lls_tensor_view part = *whole;
  if (whole->dtype == LLS_CODED && whole->data != NULL)
    part.first_column += first;
  else
    part = moved(whole, first);
  part.columns = n;
  return part;
}

struct lls_tensor_view lls_view_rows(const struct lls_tensor_view *whole, size_t first,
                                     size_t n)
{
  if (whole->rows == 1)
    return lls_view_columns(whole, first, n);
  struct lls_tensor_view part = *whole;
  if (whole->dtype == LLS_CODED && whole->data != NULL)
    part.first_row += first;
  else
    part = moved(whole, first * whole->row_stride);
  part.rows = n;
  return part;
}
