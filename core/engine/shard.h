/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of a model that one tensor parallel rank computes (Megatron-LM, arXiv
 * 1909.08053, section 3): its heads and its columns of the inner layer. Query, key, value
 * and up are cut by outputs, output and down by inputs, so that a branch needs one sum
 * over ranks at its end; the head is cut by tokens. Norms, embedding and projections are
 * on every rank.
 *
 * Key-value heads are cut like heads. Where there are fewer than ranks, each is on
 * size / kv_heads of them.
 */
#ifndef LLS_ENGINE_SHARD_H
#define LLS_ENGINE_SHARD_H

#include "core/model/model_config.h"
#include "core/ranks/ranks.h"

/* Part [first, first + n) of `whole` things. */
struct lls_range {
  size_t first, n, whole;
};

/* All of n things. */
static inline struct lls_range lls_range_all(size_t n)
{
  return (struct lls_range){0, n, n};
}

/* The numbers of a part of things of `each` numbers. */
static inline struct lls_range lls_range_times(struct lls_range r, size_t each)
{
  return (struct lls_range){r.first * each, r.n * each, r.whole * each};
}

struct lls_shard {
  uint32_t rank, size;
  struct lls_range heads, kv_heads, ffn, expert_ffn, vocab;
};

/* ranks NULL = one. -EINVAL: the model cannot be cut into so many. */
int lls_shard_make(const struct lls_model_config *, const struct lls_ranks *,
                   struct lls_shard *out, struct lls_error *err);
/* The model as this rank sees it: its own heads and inner columns. */
void lls_shard_config(const struct lls_shard *, struct lls_model_config *);

/* Those rows of a matrix, or numbers of a vector (one row). */
struct lls_tensor_view lls_view_rows(const struct lls_tensor_view *, size_t first,
                                     size_t n);
struct lls_tensor_view lls_view_columns(const struct lls_tensor_view *, size_t first,
                                        size_t n);

#endif
