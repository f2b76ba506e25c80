/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenAI-compatible front end of one model: an HTTP server on the libuv loop that
 * turns requests into submissions to the step loop and events into answers.
 *
 * Everything here runs on [main]. Order of life:
 *
 *   lls_api_create        once the model, its tokenizer and the step loop exist
 *   lls_api_listen        once per address, unless config.http is already listening
 *   lls_api_on_wake       from the uv_async that the step loop's `wake` sends
 *   lls_api_drain         SIGTERM: new requests get 503, running ones continue (the
 *                         step loop's owner drains the step loop)
 *   lls_api_idle          true when all requests are answered
 *   lls_api_close         closes the listeners and every connection, cancels unfinished
 *                         requests, then calls back once
 *   lls_api_destroy       after that callback, once the step loop sends no more events
 *
 * Invariant: an accepted request is answered exactly once, unless its client
 * disconnects; in both cases its memory is freed when its last LLS_EVENT_FINISHED
 * arrives.
 */
#ifndef LLS_API_API_H
#define LLS_API_API_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/device/sampling.h"
#include "core/api/admin.h"
#include "core/api/keys.h"
#include "core/api/kv_events.h"
#include "core/config/limits.h"
#include "core/http/server.h"
#include "core/model/pooling.h"
#include "core/obs/log.h"
#include "text/tools/tool_dialect.h"

struct lls_api;
struct lls_chat_template;
struct lls_loop;
struct lls_lora_set; /* core/lora/lora_set.h */
struct lls_tokenizer;

/* A model that returns vectors or scores instead of text. */
struct lls_api_encoder {
  bool is_one;
  bool headless; /* a generator without a head, which makes vectors only */
  /* an array of names of a classifier's classes, whose scores are its result; or NULL */
  const json_t *labels;
  bool independent_labels; /* a text may be of several classes */
  bool scores_pairs;       /* a prompt is two texts, its result a score */
  const char *form; /* a generator's that scores pairs, see lls_reranker_form; or NULL */
  bool plain_score; /* the score is not passed through the logistic function */
  bool tells_texts; /* token types mark the second text of a pair */
};

/* A server of several models has none itself: `handle` answers each request that the
 * front end has admitted, in place of the route's own handler. */
struct lls_api_router {
  void *context;
  void (*handle)(void *context, struct lls_http_exchange *exchange); /* NULL: no router */
  /* The head of an upload is complete: sets request.sink. Returns false if the body is
   * not wanted: `handle` refuses the request. */
  bool (*on_upload)(void *context, struct lls_http_exchange *exchange);
};

/* All pointers are borrowed and outlive the api; strings are copied. */
struct lls_exporter;

struct lls_api_config {
  uv_loop_t *uv;
  /* Already listening, without open requests; taken over if create succeeds. NULL: create
   * a new one. */
  struct lls_http_server *http;
  struct lls_loop *loop;
  const struct lls_tokenizer *tokenizer;
  struct lls_grammar_cache *grammars; /* for the tokeniser; NULL: no structured output */
  const struct lls_chat_template *chat_template; /* NULL: chat requests are refused */
  const json_t *template_variables; /* an object of defaults for it, or NULL */
  struct lls_tool_dialect dialect;  /* unset members are derived from the chat template */
  const char *model_name;           /* the name that clients use for the model */
  _Atomic uint32_t max_context;     /* most tokens of prompt and answer */
  uint32_t vocab;
  uint32_t block_tokens;             /* tokens of a cache block, for /metrics */
  struct lls_sampling sampling;      /* defaults, from generation_config.json */
  uint64_t seed;                     /* of requests that set none; 0: a random one each */
  bool few_samplers;                 /* the device has no chain of filters */
  bool drafts;                       /* there is a drafter, for `prediction` */
  struct lls_pooling_config pooling; /* NONE: requests for vectors are refused */
  uint32_t vector_columns;           /* elements of a vector */
  struct lls_api_encoder encoder;
  struct lls_lora_set *adapters; /* NULL: none, and none can be added */
  bool changes_adapters;         /* requests may add and remove adapters */
  struct lls_api_limits limits;
  int64_t isolate; /* enum lls_isolate */
  struct lls_admin admin;
  struct lls_api_keyring keys; /* taken over by create */
  const char *state;           /* folder of files and batches; NULL or "": none */
  /* database and folder of files that replicas share; NULL or "": in `state` */
  const char *state_database, *state_files;
  const char *replica;       /* name in ids, <= LLS_REPLICA_MAX bytes; NULL or "": none */
  const struct lls_log *log; /* may be NULL */
  struct lls_exporter *traces;    /* borrowed; NULL: none */
  struct lls_kv_config kv_events; /* copied, and its strings outlive create */
  /* With a router there are no loop, tokenizer, state and replica. */
  struct lls_api_router router;
  /* Called when the last answer has been sent while draining, unless lls_api_on_wake
   * sent it; may be NULL. */
  void (*on_idle)(void *context);
  void *on_idle_context;
};

int lls_api_create(const struct lls_api_config *config, struct lls_api **out,
                   struct lls_error *err);

/* "host:port", "[v6]:port" or ":port"; port 0 takes a free one. */
int lls_api_listen(struct lls_api *api, const char *address, struct lls_error *err);

/* Takes the step loop's events and passes each to its request. */
void lls_api_on_wake(struct lls_api *api);

/* Sets the limits for requests that arrive from now on. */
void lls_api_set_limits(struct lls_api *api, const struct lls_api_limits *limits);
/* [main] Says after a reload whether there is a drafter. */
void lls_api_set_drafts(struct lls_api *api, bool drafts);

/* Sets the context limit for requests that arrive from now on, after a reload has
 * changed what the cache can hold. */
void lls_api_set_context(struct lls_api *api, uint32_t max_context);

/* Sets the keys for requests that arrive from now on; takes ownership of the keys. */
void lls_api_set_keys(struct lls_api *api, const struct lls_api_keyring *keys);

/* Answers the clients that requested a reload; the daemon calls it when the reload
 * ends. */
void lls_api_reloaded(struct lls_api *api);

void lls_api_drain(struct lls_api *api);
/* The server accepts no more connections and will close: refusals that were held back
 * are answered. */
void lls_api_last_call(struct lls_api *api);
bool lls_api_idle(const struct lls_api *api);

void lls_api_close(struct lls_api *api, void (*closed)(void *context), void *context);
void lls_api_destroy(struct lls_api *api);

#endif
