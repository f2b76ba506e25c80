/* SPDX-License-Identifier: Apache-2.0 */
/* The expected length of an answer, for schedulers that order by it. */
#ifndef LLS_POL_LENGTH_H
#define LLS_POL_LENGTH_H

#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the tokens of the whole answer: the prediction, at most max_new_tokens;
 * without a prediction max_new_tokens, which is the client's own estimate. */
static inline uint32_t lls_pol_predicted_output(const struct lls_request *r)
{
  bool none = r->prediction.source == LLS_PREDICTED_NOT || r->prediction.length == 0;
  return none || r->prediction.length > r->max_new_tokens ? r->max_new_tokens
                                                          : r->prediction.length;
}

#ifdef __cplusplus
}
#endif

#endif
