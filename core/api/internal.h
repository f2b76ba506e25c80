/* SPDX-License-Identifier: Apache-2.0 */
/* The front end's own state; for core/api only. Everything is of [main]. */
#ifndef LLS_API_INTERNAL_H
#define LLS_API_INTERNAL_H

#include <llmserve/types.h>

#include "core/api/api.h"
#include "core/api/error.h"
#include "core/api/stats.h"
#include "core/loop/loop.h"
#include "core/tokenizer/tokenizer.h"

struct lls_generation;
struct lls_choice;
struct lls_admin_wait;

#define LLS_ID_BYTES 33 /* 128 random bits in hex */

struct lls_api {
  struct lls_api_config config;
  char *model_name;
  int64_t created_s; /* Unix time */
  struct lls_http_server *http;
  struct lls_generation *generations; /* utlist: alive in the step loop */
  struct lls_choice *unflushed;       /* utlist: have text that was not sent */
  struct lls_admin_wait *admin_waits; /* utlist: asked for a reload */
  char *piece;                        /* room for the text of one token */
  struct lls_api_stats stats;
  bool draining;
};

/* Fresh random hex digits. */
void lls_api_new_id(char id[LLS_ID_BYTES]);

/* The id this request has in headers and logs: the client's own or a fresh one. */
const char *lls_api_request_id(struct lls_http_exchange *exchange,
                               char fresh[LLS_ID_BYTES]);

/* The request's body as a JSON object; the caller releases it. NULL and why. */
json_t *lls_api_body(struct lls_http_exchange *exchange, struct lls_api_error *error);

/* Fails where nothing new is taken: draining, or the engine is broken. */
int lls_api_check_open(struct lls_api *api, struct lls_api_error *error);

/* Seconds after which a refused request may find room. */
unsigned lls_api_retry_after(struct lls_api *api);

/* Handlers; context is the struct lls_api. */
void lls_handle_completions(void *context, struct lls_http_exchange *exchange);
void lls_handle_chat(void *context, struct lls_http_exchange *exchange);
void lls_handle_models(void *context, struct lls_http_exchange *exchange);
void lls_handle_model(void *context, struct lls_http_exchange *exchange);
void lls_handle_health(void *context, struct lls_http_exchange *exchange);
void lls_handle_metrics(void *context, struct lls_http_exchange *exchange);
void lls_handle_admin_status(void *context, struct lls_http_exchange *exchange);
void lls_handle_admin_config(void *context, struct lls_http_exchange *exchange);
void lls_handle_admin_reload(void *context, struct lls_http_exchange *exchange);
void lls_handle_admin_drain(void *context, struct lls_http_exchange *exchange);
void lls_handle_version(void *context, struct lls_http_exchange *exchange);

#endif
