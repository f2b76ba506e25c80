/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenAI-compatible front end of one model: an HTTP server on the libuv loop that
 * turns requests into submissions to the step loop and events into answers.
 *
 * Everything here runs on [main]. Order of life:
 *
 *   lls_api_create        once the model, its tokenizer and the step loop are there
 *   lls_api_listen        once per address, where no config.http listens already
 *   lls_api_on_wake       from the uv_async that the step loop's `wake` sends
 *   lls_api_drain         SIGTERM: new requests get 503, running ones go on (the step
 *                         loop is told by its owner)
 *   lls_api_idle          true when nothing is left to answer
 *   lls_api_close         closes the listeners and every connection (cancelling what is
 *                         alive), then calls back once
 *   lls_api_destroy       after that callback, and once no event can come any more
 *
 * Invariant: a request that was accepted is answered once, or its client is gone; either
 * way everything it held is freed when its last LLS_EVENT_FINISHED arrives.
 */
#ifndef LLS_API_API_H
#define LLS_API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/device/sampling.h"
#include "core/api/admin.h"
#include "core/api/keys.h"
#include "core/config/limits.h"
#include "core/http/server.h"
#include "core/model/pooling.h"
#include "core/obs/log.h"
#include "text/tools/tool_dialect.h"

struct lls_api;
struct lls_chat_template;
struct lls_loop;
struct lls_tokenizer;

/* All pointers are borrowed and outlive the api; strings are copied. */
/* A model that makes no text. */
struct lls_api_encoder {
  bool is_one;
  bool scores_pairs; /* a cross-encoder: a prompt is two texts, and its vector their score
                      */
  bool plain_score;  /* which is not put through the logistic function */
  bool tells_texts;  /* the second of a pair by the type of its tokens */
};

struct lls_api_config {
  uv_loop_t *uv;
  struct lls_http_server *http; /* that listens already and has no request in hand; taken
                                   over when create succeeds; NULL: a new one */
  struct lls_loop *loop;
  const struct lls_tokenizer *tokenizer;
  struct lls_grammar_cache *grammars; /* of the tokeniser; NULL: answers are free */
  const struct lls_chat_template *chat_template; /* NULL: chat requests are refused */
  struct lls_tool_dialect dialect; /* what it leaves open, the template shows */
  const char *model_name;          /* what clients call it */
  _Atomic uint32_t max_context;    /* tokens of prompt and answer */
  uint32_t vocab;
  uint32_t block_tokens;             /* of the cache, for /metrics */
  struct lls_sampling sampling;      /* defaults, from generation_config.json */
  struct lls_pooling_config pooling; /* NONE: requests for vectors are refused */
  uint32_t vector_columns;           /* numbers of a vector */
  struct lls_api_encoder encoder;
  struct lls_api_limits limits;
  int64_t isolate; /* enum lls_isolate */
  struct lls_admin admin;
  struct lls_api_keyring keys; /* who may ask; taken over by create */
  const char *state;           /* folder of files and batches; NULL or "": none */
  const char *replica;         /* in ids, of at most LLS_REPLICA_MAX; NULL or "": alone */
  const struct lls_log *log;   /* may be NULL */
  /* Called when the last answer has been given while draining, if that is not in
   * lls_api_on_wake; may be NULL. */
  void (*on_idle)(void *context);
  void *on_idle_context;
};

int lls_api_create(const struct lls_api_config *config, struct lls_api **out,
                   struct lls_error *err);

/* "host:port", "[v6]:port" or ":port"; port 0 takes a free one. */
int lls_api_listen(struct lls_api *api, const char *address, struct lls_error *err);

/* The first listener's address as "host:port", with the real port. */
const char *lls_api_address(const struct lls_api *api);

/* Hands out the step loop's events. */
void lls_api_on_wake(struct lls_api *api);

/* For what comes from now on. */
void lls_api_set_limits(struct lls_api *api, const struct lls_api_limits *limits);

/* Likewise, as the cache that has been taken over holds it. */
void lls_api_set_context(struct lls_api *api, uint32_t max_context);

/* Likewise; the keys are taken over. */
void lls_api_set_keys(struct lls_api *api, const struct lls_api_keyring *keys);

/* The daemon's reload is over: clients that asked for it are answered. */
void lls_api_reloaded(struct lls_api *api);

void lls_api_drain(struct lls_api *api);
bool lls_api_idle(const struct lls_api *api);

void lls_api_close(struct lls_api *api, void (*closed)(void *context), void *context);
void lls_api_destroy(struct lls_api *api);

#endif
