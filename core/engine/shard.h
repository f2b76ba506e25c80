/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of a model that one tensor parallel rank computes (Megatron-LM, arXiv
 * 1909.08053, section 3): its heads and its columns of the inner layer. Query, key,
 * value and up are cut by outputs, output and down by inputs, so that a branch needs
 * one sum over ranks at its end; the head is cut by tokens. Norms, embedding and
 * projections are on every rank.
 *
 * Key-value heads are cut like heads. If there are fewer key-value heads than ranks,
 * size / kv_heads ranks have a copy of each.
 */
#ifndef LLS_ENGINE_SHARD_H
#define LLS_ENGINE_SHARD_H

#include "core/model/model_config.h"
#include "core/ranks/ranks.h"

/* Items [first, first + n) of `whole` items. */
struct lls_range {
  size_t first, n, whole;
};

/* Returns the range of all n items. */
static inline struct lls_range lls_range_all(size_t n)
{
  return (struct lls_range){0, n, n};
}

/* Returns the rows of a part in a tensor in which `before` rows precede it. */
static inline struct lls_range lls_range_after(struct lls_range part, size_t before,
                                               size_t whole)
{
  return (struct lls_range){before + part.first, part.n, whole};
}

/* Returns the range of values of items that have `each` values. */
static inline struct lls_range lls_range_times(struct lls_range r, size_t each)
{
  return (struct lls_range){r.first * each, r.n * each, r.whole * each};
}

struct lls_shard {
  uint32_t rank, size;
  struct lls_range heads, kv_heads, ffn, expert_ffn, shared_ffn, vocab;
  struct lls_range channels, key_heads, value_heads; /* of layers with a state */
};

/* Divides the model among ranks; NULL = one rank. Returns -EINVAL if the model cannot
 * be divided by their number. */
int lls_shard_make(const struct lls_model_config *, const struct lls_ranks *,
                   struct lls_shard *out, struct lls_error *err);
/* Return a layer's key-value heads, or columns of its inner layer, of this rank. */
struct lls_range lls_shard_kv_heads(const struct lls_shard *,
                                    const struct lls_model_config *whole, uint32_t layer);
struct lls_range lls_shard_ffn(const struct lls_shard *,
                               const struct lls_model_config *whole, uint32_t layer);
/* Reduces a configuration to this rank's heads and inner columns. */
void lls_shard_config(const struct lls_shard *, struct lls_model_config *);

/* Return the part [first, first + n) of a matrix's rows or columns; a vector has one
 * row. */
struct lls_tensor_view lls_view_rows(const struct lls_tensor_view *, size_t first,
                                     size_t n);
struct lls_tensor_view lls_view_columns(const struct lls_tensor_view *, size_t first,
                                        size_t n);

#endif
