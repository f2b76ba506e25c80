/* SPDX-License-Identifier: Apache-2.0 */
/* The front end's own state; for core/api only. Everything is of [main]. */
#ifndef LLS_API_API_INTERNAL_H
#define LLS_API_API_INTERNAL_H

#include <llmserve/types.h>

#include "core/base/check.h"
#include "core/api/access_log.h"
#include "core/api/api.h"
#include "core/api/api_error.h"
#include "core/api/keys.h"
#include "core/api/lives.h"
#include "core/api/api_request.h"
#include "core/api/routes.h"
#include "core/api/stats.h"
#include "core/api/tenants.h"
#include "core/api/viewers.h"
#include "core/loop/loop.h"
#include "text/tokenizer/tokenizer.h"

struct lls_generation;
struct lls_choice;
struct lls_wait;
struct lls_work;
struct lls_store_front;
struct lls_account;

#define LLS_ID_BYTES 33 /* 128 random bits in hex */

#define LLS_MAX_ROUTES     72
#define LLS_STATUS_CLASSES 6

/* The statistics of one path. */
struct lls_route_stats {
  const char *path, *method;            /* static; "none" of requests without a route */
  uint64_t answers[LLS_STATUS_CLASSES]; /* by the status' first digit */
  uint64_t received_bytes, sent_bytes;  /* of bodies */
  struct lls_histogram seconds;
};

struct lls_api {
  struct lls_api_config config;
  const void *thread; /* [main] */
  char *model_name;
  char replica[LLS_REPLICA_MAX + 1]; /* "": it is alone */
  char fingerprint[24]; /* of what answers: another model or version, another one */
  int64_t created_s;    /* Unix time */
  struct lls_http_server *http;
  struct lls_store_front *front;      /* files and batches; NULL: there is no store */
  struct lls_generation *generations; /* utlist: alive in the step loop */
  struct lls_choice *unflushed;       /* utlist: have text that was not sent */
  struct lls_wait *reload_waits;      /* asked for a reload, by its number */
  struct lls_wait *queue_waits;       /* asked for the queues, by looks */
  uint64_t looks;                     /* at the queues that were begun */
  bool looking;                       /* the last of them is not over */
  struct lls_viewers viewers;         /* of /admin/events */
  struct lls_lives lives;
  char *piece; /* room for the text of one token */
  struct lls_api_keyring keys;
  struct lls_access_log access_log;
  struct lls_tenants tenants;
  struct lls_account *accounts; /* uthash by name: accounts.h */
  struct lls_group_stats classes[LLS_CLASS_BEST_EFFORT + 1];
  struct lls_unknown_names unknown; /* parameters that were logged */
  struct lls_work *works;           /* utlist: wait for a thread, in order */
  unsigned n_working;               /* on a thread */
  unsigned n_errands;               /* in the store, that a client waits for */
  uv_timer_t timer;                 /* long silences, and requests that take too long */
  bool has_timer;
  void (*nothing_left)(struct lls_api *api); /* HTTP is closed, and no work runs */
  void (*closed)(void *context);
  void *closed_context;
  bool http_closed;
  struct lls_api_stats stats;
  struct lls_route_stats
      routes[LLS_MAX_ROUTES]; /* (n_routes) as in the table; then none */
  size_t n_routes;
  struct lls_histogram answer_seconds; /* of all of them */
  bool draining;
};

#define LLS_API_ON_MAIN(API) LLS_ON((API)->thread)

/* Fresh random hex digits. */
void lls_api_new_id(char *id); /* (LLS_ID_BYTES) */

/* To be called when work has ended: tells those that wait for the api to be idle or
 * closed.
 */
void lls_api_check_idle(struct lls_api *api);

/* After each wake: answers clients that asked for the queues when they are there; then
 * true, until the next look is begun. */
bool lls_api_look(struct lls_api *api);
/* Begins a look, if one is waited for and none is under way. */
void lls_api_begin_look(struct lls_api *api);

/* Starts the timer of timers.c, or sets it to what the limits are now. */
void lls_api_set_timer(struct lls_api *api);

/* routes.c: callbacks of the HTTP server; context is the struct lls_api. */
void lls_api_routes_init(struct lls_api *api);
void lls_api_on_request(void *context, struct lls_http_exchange *exchange);
bool lls_api_on_head(void *context, struct lls_http_exchange *exchange);
void lls_api_on_answered(void *context, struct lls_http_exchange *exchange);
void lls_api_on_over(void *context, struct lls_http_exchange *exchange);

#endif
