/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens for which a request gets memory when it starts, in the three variants of Orca
 * that "PagedAttention" (Kwon et al., SOSP 2023, 6.1) compares with. Used by the
 * scheduler orca, which counts these tokens, and by the cache contiguous, which allocates
 * them.
 */
#ifndef RESERVATION_H
#define RESERVATION_H

#include <llmserve/types.h>

enum reservation { RESERVE_MAX, RESERVE_POW2, RESERVE_ORACLE };

#define RESERVATION_PARAMETERS(STRUCT)                                                   \
  LLS_PARAM_CHOICE(STRUCT, reserve, "max", "max|pow2|oracle",                            \
                   "room a request gets when it starts: max_len tokens, the power of "   \
                   "two that holds prompt and predicted answer, or just these"),         \
      LLS_PARAM_INT(                                                                     \
          STRUCT, max_len, "2048", 1, 1e6, "tokens",                                     \
          "longest sequence, for reserve = max; a request that may get longer "          \
          "has its own longest reserved")

/* Returns the tokens of prompt and answer: the predicted number, or prompt and
 * max_new_tokens if there is no prediction or the request has outgrown it. */
static inline uint32_t reservation_length(const struct lls_request *r)
{
  uint32_t most = r->prompt_tokens + r->max_new_tokens;
  uint32_t predicted = r->prompt_tokens + r->prediction.length;
  bool usable = r->prediction.source != LLS_PREDICTED_NOT && predicted < most &&
                predicted > lls_request_length(r);
  return usable ? predicted : most;
}

/* Returns the tokens to reserve for the whole of r by rule `how`: at most `limit`, the
 * size of the cache, unless the request itself is longer. */
static inline uint32_t reservation_of(const struct lls_request *r, int64_t how,
                                      uint32_t max_len, uint32_t limit)
{
  uint32_t length = reservation_length(r), tokens = length;
  if (how == RESERVE_MAX)
    tokens = max_len > length ? max_len : length;
  if (how == RESERVE_POW2)
    for (tokens = 1; tokens < length;)
      tokens *= 2;
  if (tokens > limit)
    return length > limit ? length : limit;
  return tokens;
}

#endif
