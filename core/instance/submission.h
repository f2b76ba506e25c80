/* SPDX-License-Identifier: Apache-2.0 */
/* A request as it is submitted to the step loop. */
#ifndef LLS_INSTANCE_SUBMISSION_H
#define LLS_INSTANCE_SUBMISSION_H

#include <llmserve/types.h>

#include "core/device/sampling.h"
#include "core/instance/block_keys.h"
#include "core/instance/dry.h"
#include "core/instance/thought.h"
#include "core/model/pooling.h"

struct lls_grammar;
struct lls_lora; /* core/lora/lora.h */

/* The session of a request (core/loop/sessions.h): of none if all members are 0. A
 * request without a name that continues no known answer begins a session. */
struct lls_session_use {
  const char *name;      /* the client's name for it, or NULL */
  const char *continues; /* the id of the answer before, or NULL */
  const char *becomes;   /* the id of this answer, if others can continue it, or NULL */
  int64_t away_ns; /* the session's next request comes that long after this answer; 0: the
                      client does not say */
  int64_t keep_ns; /* the client wants the prompt kept for that long; 0: does not say */
};

struct lls_submission {
  const int32_t *tokens; /* (n_tokens), n_tokens >= 1; copied */
  uint32_t n_tokens;
  const char *text; /* the prompt as text for the predictor, or NULL; copied */
  size_t text_bytes;
  const char *label; /* the client's request id or NULL; copied */
  /* the loop sets history and banned; bias and allowed are copied */
  struct lls_sampling sampling;
  struct lls_dry dry;
  struct lls_dry_breakers dry_breakers; /* copied */
  struct lls_thought thought;
  /* NULL, or the answer's grammar, of which the request takes a reference. Compiled for
   * the model's vocabulary and its end-of-sequence tokens. */
  struct lls_grammar *grammar;
  uint32_t max_new_tokens;    /* 1..; cut to the context; with pooling always 0 */
  uint32_t min_new_tokens;    /* no stop token is drawn before this many tokens */
  const int32_t *stop_tokens; /* (n_stop_tokens) besides the model's own; copied */
  uint32_t n_stop_tokens;
  /* (n_bad_words) words that the answer must not have: for each the number of its
   * tokens, 1.., then the tokens; copied */
  const int32_t *bad_words;
  uint32_t n_bad_words;
  bool ignore_eos;
  bool reports_progress; /* an event follows each step that computes a part of the prompt
                          */
  bool score_prompt;     /* events have the prompt tokens' log probabilities */
  uint32_t score_logprobs; /* alternatives for each token */
  uint32_t pooling;     /* enum lls_pooling: NONE, LAST, CLS, or MEAN, which leaves a sum;
                           an encoder needs one */
  uint32_t second_text; /* lls_engine_sequence.second_text */
  uint32_t request_class; /* enum lls_class */
  int32_t priority;
  uint32_t tenant;
  const char *tenant_name; /* NULL: none; copied */
  /* (salt_bytes) only requests with equal salts share prefixes; with salt_bytes 0: the
   * key root computed in another process (block_keys.h) */
  const void *salt;
  size_t salt_bytes;
  struct lls_key salted;
  /* the adapter, of which the request takes a reference, with its number and name; NULL,
   * 0, NULL: none */
  struct lls_lora *lora;
  float lora_scale; /* of the changes that it makes; 1: as its files have them */
  uint32_t adapter;
  const char *adapter_name; /* copied */
  /* (n_expected) the answer as the client expects it, or NULL; copied */
  const int32_t *expected;
  uint32_t n_expected;
  struct lls_session_use session;
  struct lls_slo slo; /* LLS_NEVER where unset */
  void *owner;        /* copied to every event */
  int64_t arrival_ns; /* arrival time, if the caller knows it; 0: now */
};

#endif
