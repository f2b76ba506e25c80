/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /admin/events: a stream of the server's state, once a second. A viewer is a
 * connected client of it. One event of each kind is made each second and sent to all
 * viewers; none is made without a viewer. A viewer that has not read the previous
 * events is skipped until it has, so that unread events do not pile up.
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
  struct lls_viewer *list; /* utlist; NULL: no viewers */
  unsigned n;
  bool due;        /* the viewers wait for the queue snapshot */
  int64_t told_ns; /* when events were last sent */
};

/* [main] Once a second: requests a queue snapshot. Events are sent when it arrives; if
 * it takes longer than a second, without the event "queues". */
void lls_viewers_tick(struct lls_api *api, int64_t now_ns);
/* [main] Called when the queue snapshot has arrived: sends the events. */
void lls_viewers_show(struct lls_api *api);
/* [main] Ends the streams, which never end by themselves, at shutdown. */
void lls_viewers_end(struct lls_api *api);

/* figures.c: the data of the events "figures" and "queues"; doc/api.md describes them. */
json_t *lls_figures_json(struct lls_api *api, int64_t unix_ms);
json_t *lls_live_queues_json(struct lls_api *api);

#endif
