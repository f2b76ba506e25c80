/* SPDX-License-Identifier: Apache-2.0 */
/* A request as it is submitted to the step loop. */
#ifndef LLS_INSTANCE_SUBMISSION_H
#define LLS_INSTANCE_SUBMISSION_H

#include <llmserve/types.h>

#include "core/device/sampling.h"
#include "core/instance/block_keys.h"
#include "core/model/pooling.h"

struct lls_grammar;

struct lls_submission {
  const int32_t *tokens; /* (n_tokens), n_tokens >= 1; copied */
  uint32_t n_tokens;
  const char *text; /* the prompt as text for the predictor, or NULL; copied */
  size_t text_bytes;
  const char *label; /* the client's request id or NULL; copied */
  /* history and banned are the loop's business; bias and allowed are copied */
  struct lls_sampling sampling;
  /* NULL, or what the answer keeps to; the request takes a reference of its own. Compiled
   * for the model's vocabulary and its end-of-sequence tokens. */
  struct lls_grammar *grammar;
  uint32_t max_new_tokens;    /* 1..; cut to what the context has room for; 0 with
                                 pooling, and only then */
  uint32_t min_new_tokens;    /* no stop token is drawn before that many */
  const int32_t *stop_tokens; /* (n_stop_tokens) besides the model's own; copied */
  uint32_t n_stop_tokens;
  /* (n_bad_words) what the answer never has: of each word how many tokens it has, 1..,
   * and then they; copied */
  const int32_t *bad_words;
  uint32_t n_bad_words;
  bool ignore_eos;
  bool score_prompt;       /* events tell how likely the prompt's tokens were */
  uint32_t score_logprobs; /* alternatives of each */
  uint32_t pooling; /* enum lls_pooling: NONE, LAST, CLS, or MEAN, which leaves a sum; of
                     * an encoder not NONE */
  uint32_t second_text;   /* lls_engine_sequence.second_text */
  uint32_t request_class; /* enum lls_class */
  int32_t priority;
  uint32_t tenant;
  const char *tenant_name; /* NULL: none; copied */
  /* (salt_bytes) requests find each other's prefixes where this is equal; or, without
   * any, what it has become in another process (block_keys.h, the root) */
  const void *salt;
  size_t salt_bytes;
  struct lls_key salted;
  struct lls_slo slo; /* LLS_NEVER where unset */
  void *owner;        /* comes back in every event */
  int64_t arrival_ns; /* when it came, for a load that knows better; 0 = now */
};

#endif
