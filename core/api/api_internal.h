/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the front end; included by core/api only. Everything runs on [main]. */
#ifndef LLS_API_API_INTERNAL_H
#define LLS_API_API_INTERNAL_H

#include <llmserve/types.h>

#include "core/base/check.h"
#include "core/api/access_log.h"
#include "core/api/api.h"
#include "core/api/api_error.h"
#include "core/api/held_refusals.h"
#include "core/api/keys.h"
#include "core/api/lives.h"
#include "core/api/api_request.h"
#include "core/api/routes.h"
#include "core/api/stats.h"
#include "core/api/tenants.h"
#include "core/api/viewers.h"
#include "core/http/router.h"
#include "core/loop/loop.h"
#include "text/tokenizer/tokenizer.h"

struct lls_generation;
struct lls_choice;
struct lls_wait;
struct lls_work;
struct lls_store_front;
struct lls_account;
struct lls_background;

#define LLS_ID_BYTES 33 /* 128 random bits in hex */

#define LLS_MAX_ROUTES     192
#define LLS_STATUS_CLASSES 6

/* One path and its statistics. */
struct lls_route_stats {
  const char *path, *method; /* static; path "none" for requests without a route */
  /* dialect of requests that generate; NULL: requests of this endpoint do not */
  const struct lls_dialect *dialect;
  uint64_t answers[LLS_STATUS_CLASSES]; /* answers by the first digit of the status */
  uint64_t received_bytes, sent_bytes;  /* bytes of bodies */
  struct lls_histogram seconds;
};

struct lls_api {
  struct lls_api_config config;
  const void *thread; /* [main] */
  char *model_name;
  char replica[LLS_REPLICA_MAX + 1]; /* name of this replica; "": it is the only one */
  char *openapi;                     /* /openapi.json once it was asked for, or NULL */
  char fingerprint[24]; /* changes with the model and with llmserve's version */
  int64_t created_s;    /* Unix time */
  struct lls_http_server *http;
  struct lls_store_front *front;      /* files and batches; NULL: no store */
  struct lls_generation *generations; /* utlist: not finished in the step loop */
  struct lls_choice *unflushed;       /* utlist: choices with text not sent yet */
  struct lls_wait *reload_waits;      /* exchanges waiting for a reload, by its number */
  struct lls_wait *queue_waits;       /* exchanges waiting for snapshot number `looks` */
  uint64_t looks;                     /* queue snapshots requested so far */
  bool looking;                       /* the last snapshot has not arrived yet */
  struct lls_viewers viewers;         /* clients of /admin/events */
  struct lls_kv_events kv_events;
  struct lls_held_refusals held_refusals;
  struct lls_background *backgrounds; /* utlist: responses without their clients */
  size_t background_bytes;            /* bytes of events kept for `backgrounds` */
  struct lls_lives lives;
  char *piece; /* room for the text of one token */
  struct lls_api_keyring keys;
  struct lls_access_log access_log;
  struct lls_tenants tenants;
  struct lls_account *accounts; /* uthash by name: accounts.h */
  struct lls_group_stats classes[LLS_CLASS_BEST_EFFORT + 1];
  struct lls_unknown_names unknown; /* unknown parameters already logged */
  struct lls_work *works;           /* utlist: jobs waiting for a thread, oldest first */
  unsigned n_working;               /* jobs running on a thread */
  unsigned n_errands;               /* jobs in the store with a client waiting for them */
  uv_timer_t timer; /* keep-alive comments and request timeouts: timers.c */
  bool has_timer;
  void (*nothing_left)(struct lls_api *api); /* called when HTTP is closed and idle */
  void (*closed)(void *context);
  void *closed_context;
  bool http_closed;
  struct lls_api_stats stats;
  struct lls_http_route table[LLS_MAX_ROUTES]; /* the routes of requests */
  /* (n_routes) in the order of LLS_ROUTES; the last one is for no route */
  struct lls_route_stats routes[LLS_MAX_ROUTES];
  size_t n_routes;
  struct lls_histogram answer_seconds; /* sum over all routes */
  bool draining;
};

#define LLS_API_ON_MAIN(API) LLS_ON((API)->thread)

/* Writes fresh random hex digits. */
void lls_api_new_id(char *id); /* (LLS_ID_BYTES) */

/* Called when work has ended: calls on_idle or the close callback if the api is now
 * idle or closed. */
void lls_api_check_idle(struct lls_api *api);

/* Called after each wake: if the requested queue snapshot has arrived, answers the
 * clients that wait for it and returns true; the snapshot stays valid until the next
 * lls_api_begin_look. */
bool lls_api_look(struct lls_api *api);
/* Requests a queue snapshot if a client waits for one and none is pending. */
void lls_api_begin_look(struct lls_api *api);

/* Starts the timer of timers.c, or adapts its interval to the current limits. */
void lls_api_set_timer(struct lls_api *api);

/* routes.c: callbacks of the HTTP server; context is the struct lls_api. */
void lls_api_routes_init(struct lls_api *api);
void lls_api_on_request(void *context, struct lls_http_exchange *exchange);
bool lls_api_on_head(void *context, struct lls_http_exchange *exchange);
void lls_api_on_answered(void *context, struct lls_http_exchange *exchange);
void lls_api_on_over(void *context, struct lls_http_exchange *exchange);

#endif
