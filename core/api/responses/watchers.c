/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kept events of a response in the background, and the clients that read them. A
 * client gets events only as fast as it takes them, so that one that begins late does not
 * need memory for all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/api/responses/detached.h"
#include "core/api/responses/detached_internal.h"
#include "core/base/json_memory.h"
#include "core/http/sse.h"

#define AHEAD       ((size_t)64 << 10) /* bytes that may wait for a client */
#define EVENTS_MOST ((size_t)64 << 20) /* bytes of the events of all responses */
#define NEXT        following          /* the member that utlist's macros use here */

/* ---- clients ----------------------------------------------------------------------- */

static void leave(struct lls_watcher *watcher)
{
  DL_DELETE2(watcher->background->watchers, watcher, prev, NEXT);
  free(watcher);
}

static void on_gone(void *owner)
{
  leave(owner);
}

static bool is_at_end(const struct lls_watcher *watcher)
{
  const struct lls_background *background = watcher->background;
  return background->generation == NULL && watcher->next >= background->n_events;
}

/* Sends the events that the client takes now. The watcher may be freed. */
static void pump(struct lls_watcher *watcher)
{
  const struct lls_background *background = watcher->background;
  struct lls_http_exchange *exchange = watcher->exchange;
  while (watcher->next < background->n_events &&
         lls_http_stream_unsent(exchange) < AHEAD) {
    const struct lls_kept_event *event = &background->events[watcher->next++];
    lls_sse_event(exchange, event->name, event->text, event->length);
    watcher->sent_ns = (int64_t)uv_hrtime();
  }
  if (!is_at_end(watcher))
    return;
  exchange->on_gone = NULL;
  exchange->on_drained = NULL;
  leave(watcher);
  lls_http_stream_end(exchange);
}

static void on_drained(void *owner)
{
  pump(owner);
}

void lls_watcher_add(struct lls_background *background,
                     struct lls_http_exchange *exchange, long long after)
{
  struct lls_watcher *watcher = calloc(1, sizeof *watcher);
  LLS_API_ON_MAIN(background->api);
  if (watcher == NULL || lls_http_is_head(exchange)) {
    free(watcher);
    lls_http_reply(exchange, lls_http_is_head(exchange) ? 200 : 503, LLS_SSE_TYPE, NULL,
                   0);
    return;
  }
  watcher->background = background;
  watcher->exchange = exchange;
  watcher->next = (size_t)(after + 1);
  watcher->sent_ns = (int64_t)uv_hrtime();
  exchange->owner = watcher;
  exchange->on_gone = on_gone;
  exchange->on_drained = on_drained;
  DL_APPEND2(background->watchers, watcher, prev, NEXT);
  lls_sse_begin(exchange);
  pump(watcher);
}

void lls_watchers_pump(struct lls_background *background)
{
  struct lls_watcher *watcher, *next;
  LLS_API_ON_MAIN(background->api);
  DL_FOREACH_SAFE2(background->watchers, watcher, next, NEXT)
  pump(watcher);
}

/* Sends a comment to each client that has got nothing for long. */
void lls_watchers_tick(struct lls_background *background, int64_t now_ns)
{
  struct lls_watcher *watcher;
  int64_t most_ns = background->api->config.limits.keep_alive;
  LLS_API_ON_MAIN(background->api);
  if (most_ns <= 0)
    return;
  DL_FOREACH2(background->watchers, watcher, NEXT)
  {
    if (now_ns - watcher->sent_ns < most_ns)
      continue;
    lls_sse_comment(watcher->exchange);
    watcher->sent_ns = now_ns;
  }
}

/* ---- events ------------------------------------------------------------------------ */

static void free_events(struct lls_background *background)
{
  for (size_t i = 0; i < background->n_events; i++)
    free(background->events[i].text);
  free(background->events);
  background->api->background_bytes -= background->bytes;
  background->events = NULL;
  background->n_events = background->capacity = background->bytes = 0;
}

void lls_watchers_forget(struct lls_background *background)
{
  LLS_API_ON_MAIN(background->api);
  while (background->watchers != NULL) {
    struct lls_http_exchange *exchange = background->watchers->exchange;
    exchange->on_gone = NULL;
    exchange->on_drained = NULL;
    leave(background->watchers);
    lls_http_stream_abort(exchange);
  }
  free_events(background);
}

static void lose(struct lls_background *background)
{
  lls_watchers_forget(background);
  background->lost = true;
}

/* Drops the events of other responses that are over, the oldest first; if that is not
 * enough, those of this one. */
static void make_room(struct lls_background *background)
{
  struct lls_api *api = background->api;
  struct lls_background *other;
  DL_FOREACH (api->backgrounds, other) {
    if (api->background_bytes <= EVENTS_MOST)
      return;
    if (other->generation == NULL && other->watchers == NULL && other != background)
      lose(other);
  }
  if (api->background_bytes > EVENTS_MOST)
    lose(background);
}

static bool keep(struct lls_background *background, const json_t *event)
{
  if (background->n_events == background->capacity) {
    size_t capacity = background->capacity > 0 ? background->capacity * 2 : 32;
    struct lls_kept_event *more =
        realloc(background->events, capacity * sizeof background->events[0]);
    if (more == NULL)
      return false;
    background->events = more;
    background->capacity = capacity;
  }
  struct lls_kept_event *kept = &background->events[background->n_events];
  const char *name = json_string_value(json_object_get(event, "type"));
  kept->text = lls_json_text(event, JSON_COMPACT);
  if (kept->text == NULL)
    return false;
  snprintf(kept->name, sizeof kept->name, "%s", name != NULL ? name : "");
  kept->length = strlen(kept->text);
  background->n_events++;
  background->bytes += kept->length + sizeof *kept;
  background->api->background_bytes += kept->length + sizeof *kept;
  return true;
}

void lls_watchers_add_events(struct lls_background *background, const json_t *events)
{
  size_t i;
  const json_t *event;
  bool kept = events != NULL;
  LLS_API_ON_MAIN(background->api);
  if (background->lost)
    return;
  json_array_foreach(events, i, event)
  {
    kept = kept && keep(background, event);
  }
  if (!kept)
    lose(background);
  else if (background->api->background_bytes > EVENTS_MOST)
    make_room(background);
  lls_watchers_pump(background);
}
