/* SPDX-License-Identifier: Apache-2.0 */
/* See viewers.h. figures.c and MOST_LIVES bound the rows of an event, so that a viewer
 * takes less than 50 KB a second at any load (experiments/results/console). */
#include "core/api/viewers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "core/api/api_internal.h"
#include "core/http/sse.h"

#define PERIOD_NS  (900 * LLS_NS_PER_MS) /* slightly less than the timer's second */
#define MOST_LIVES 80                    /* requests in an event */
#define PAST_LIVES 300                   /* requests in a viewer's first event */

struct lls_viewer {
  struct lls_api *api;
  struct lls_http_exchange *exchange;
  uint64_t next_life;
  struct lls_viewer *prev, *next;
};

/* The data of an event, shared by all viewers. */
struct text {
  char *data;
  size_t length;
};

static struct text text_of(json_t *json)
{
  struct text text = {0};
  if (json != NULL)
    text.data = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9));
  if (text.data != NULL)
    text.length = strlen(text.data);
  json_decref(json);
  return text;
}

static void send_text(struct lls_viewer *viewer, const char *name,
                      const struct text *text)
{
  if (text->data != NULL)
    lls_sse_event(viewer->exchange, name, text->data, text->length);
}

static int64_t unix_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / LLS_NS_PER_MS;
}

static void send_lives(struct lls_viewer *viewer, uint32_t most)
{
  const struct lls_lives *lives = &viewer->api->lives;
  if (viewer->next_life == lives->n)
    return;
  struct text text = text_of(
      lls_lives_json(lives, &viewer->next_life, most, (int64_t)uv_hrtime(), unix_ms()));
  send_text(viewer, "lives", &text);
  free(text.data);
}

/* ---- viewers --------------------------------------------------------------------- */

static void forget(struct lls_viewer *viewer)
{
  struct lls_viewers *viewers = &viewer->api->viewers;
  DL_DELETE(viewers->list, viewer);
  viewers->n--;
  viewers->due &= viewers->n > 0;
  free(viewer);
}

static void on_gone(void *owner)
{
  forget(owner);
}

static void tell(struct lls_api *api, bool with_queues)
{
  struct lls_viewer *viewer;
  struct text figures = text_of(lls_figures_json(api, unix_ms()));
  struct text queues = text_of(with_queues ? lls_live_queues_json(api) : NULL);
  DL_FOREACH (api->viewers.list, viewer) {
    if (lls_http_stream_unsent(viewer->exchange) > 0)
      continue;
    send_text(viewer, "figures", &figures);
    send_text(viewer, "queues", &queues);
    send_lives(viewer, MOST_LIVES);
  }
  free(figures.data);
  free(queues.data);
  api->viewers.told_ns = (int64_t)uv_hrtime();
}

/* Requests a snapshot of the queues every second. If the previous one is not complete (a
 * long step, or a plugin that hangs), the figures are sent without it. */
void lls_viewers_tick(struct lls_api *api, int64_t now_ns)
{
  struct lls_viewers *viewers = &api->viewers;
  LLS_API_ON_MAIN(api);
  if (viewers->list == NULL || now_ns - viewers->told_ns < PERIOD_NS)
    return;
  if (viewers->due)
    tell(api, false);
  viewers->due = true;
  lls_api_begin_look(api);
}

void lls_viewers_show(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (!api->viewers.due)
    return;
  api->viewers.due = false;
  tell(api, true);
}

void lls_viewers_end(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  while (api->viewers.list != NULL) {
    struct lls_viewer *viewer = api->viewers.list;
    struct lls_http_exchange *exchange = viewer->exchange;
    exchange->on_gone = NULL;
    forget(viewer);
    lls_http_stream_end(exchange);
  }
}

static void welcome(struct lls_viewer *viewer)
{
  struct text figures = text_of(lls_figures_json(viewer->api, unix_ms()));
  lls_sse_begin(viewer->exchange);
  send_text(viewer, "figures", &figures);
  send_lives(viewer, PAST_LIVES);
  free(figures.data);
}

void lls_handle_admin_events(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error = {0};
  struct lls_viewer *viewer = NULL;
  if (lls_http_is_head(exchange)) {
    lls_http_reply(exchange, 200, LLS_SSE_TYPE, NULL, 0);
    return;
  }
  if (api->draining)
    lls_api_fail(&error, 503, "draining", NULL, "the server is shutting down");
  else if (api->viewers.n >= LLS_VIEWERS_MAX)
    lls_api_fail(&error, 503, "too_many_viewers", NULL,
                 "%d clients watch already, which is the limit: close one",
                 LLS_VIEWERS_MAX);
  else if ((viewer = calloc(1, sizeof *viewer)) == NULL)
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
  if (viewer == NULL) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  viewer->api = api;
  viewer->exchange = exchange;
  exchange->owner = viewer;
  exchange->on_gone = on_gone;
  DL_APPEND(api->viewers.list, viewer);
  api->viewers.n++;
  welcome(viewer);
}
