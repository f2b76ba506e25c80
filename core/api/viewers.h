/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /admin/events: what the server does, once a second, for as long as somebody looks.
 * One event of each kind is made a second and sent to all that look; nothing is made
 * where nobody does. A viewer that has not read the events before gets no others until it
 * has: it lags, it does not pile up.
 */
#ifndef LLS_API_VIEWERS_H
#define LLS_API_VIEWERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct lls_api;
struct lls_snapshot;
struct lls_viewer;

#define LLS_VIEWERS_MAX 8

struct lls_viewers {
  struct lls_viewer *list; /* utlist; NULL: nobody looks */
  unsigned n;
  bool due;        /* they wait for the queues */
  int64_t told_ns; /* the last time that they were told anything */
};

/* [main] Once a second they are told, if the queues are there soon, with these. */
void lls_viewers_tick(struct lls_api *api, int64_t now_ns);
/* [main] The queues are there. */
void lls_viewers_show(struct lls_api *api);
/* [main] The server ends: so do the streams, which otherwise never do. */
void lls_viewers_end(struct lls_api *api);

/* figures.c: the data of the events "figures" and "queues"; doc/api.md describes them. */
json_t *lls_figures_json(struct lls_api *api, int64_t unix_ms);
json_t *lls_live_queues_json(struct lls_api *api);

#endif
