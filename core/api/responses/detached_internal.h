/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by detached.c and watchers.c. */
#ifndef LLS_API_RESPONSES_DETACHED_INTERNAL_H
#define LLS_API_RESPONSES_DETACHED_INTERNAL_H

#include "core/api/generation.h"

#define LLS_EVENT_NAME 64

/* One event of a response, as it was sent. */
struct lls_kept_event {
  char name[LLS_EVENT_NAME];
  char *text; /* JSON */
  size_t length;
};

/* A client that reads the events of a response. */
struct lls_watcher {
  struct lls_background *background;
  struct lls_http_exchange *exchange;
  size_t next;     /* the event to send next */
  int64_t sent_ns; /* when bytes were last sent */
  struct lls_watcher *prev, *following;
};

struct lls_background {
  struct lls_answer_sink sink; /* first */
  struct lls_api *api;
  struct lls_generation *generation; /* NULL: over */
  struct lls_account *account;       /* counts the response among its tenant's */
  struct lls_http_exchange *asker;   /* waits for the row; NULL: answered, or left */
  char id[64], tenant[LLS_TENANT_BYTES];
  bool streamed; /* asked for with "stream": the events are kept */
  bool stored;   /* the end is in the store */
  bool unsaved;  /* it is not, because the database did not answer */
  bool deleted;
  bool lost;                     /* the events took too much memory */
  struct lls_kept_event *events; /* (n_events) */
  size_t n_events, capacity;
  size_t bytes; /* memory of the events */
  char *final;  /* the response as JSON once it is over; NULL: no memory */
  int64_t over_ns;
  unsigned n_jobs; /* jobs in the store that refer to this */
  struct lls_watcher *watchers;
  struct lls_background *prev, *next;
};

/* Adds a client that gets the events after number `after`. */
void lls_watcher_add(struct lls_background *background,
                     struct lls_http_exchange *exchange, long long after);
/* Keeps the events, borrowed, and sends them. */
void lls_watchers_add_events(struct lls_background *background, const json_t *events);
/* Sends what the clients take now; ends their streams after the last event. */
void lls_watchers_pump(struct lls_background *background);
void lls_watchers_tick(struct lls_background *background, int64_t now_ns);
/* Frees the events and the clients' places; their exchanges are cut off. */
void lls_watchers_forget(struct lls_background *background);

#endif
