/* SPDX-License-Identifier: Apache-2.0 */
/* The batches of KV events, and their readers by HTTP; see kv_events.h. */
#include "core/api/kv_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "core/api/api_internal.h"
#include "core/http/sse.h"

/* A reader with more than that unread misses the batch. */
#define MOST_UNREAD (256 * 1024)

struct lls_kv_reader {
  struct lls_api *api;
  struct lls_http_exchange *exchange;
  struct lls_kv_reader *prev, *next;
};

/* ---- batches ----------------------------------------------------------------------- */

static double unix_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void send_to_readers(struct lls_api *api, const struct lls_kv_batch *batch,
                            uint64_t number)
{
  struct lls_kv_reader *reader;
  if (api->kv_events.readers == NULL)
    return;
  json_t *json = lls_kv_batch_json(batch, number);
  char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  if (text == NULL)
    return;
  DL_FOREACH (api->kv_events.readers, reader)
    if (lls_http_stream_unsent(reader->exchange) <= MOST_UNREAD)
      lls_sse_data(reader->exchange, text, strlen(text));
  free(text);
}

static void publish(struct lls_api *api, const struct lls_kv_batch *batch,
                    uint64_t number)
{
  struct lls_pack pack = {0};
  if (api->kv_events.publisher == NULL)
    return;
  lls_kv_batch_pack(batch, &pack);
  if (pack.failed)
    free(pack.data);
  else
    lls_kv_publisher_send(api->kv_events.publisher, number, pack.data, pack.n);
}

static void take(void *context, uint32_t instance, const struct lls_block_event_list *all)
{
  struct lls_api *api = context;
  struct lls_kv_batch batch = {.unix_s = unix_seconds(),
                               .instance = instance,
                               .list = *all,
                               .maps = api->config.kv_events.maps};
  for (size_t i = 0; i < all->n; i += batch.list.n) {
    batch.list.events = all->events + i;
    batch.list.n = all->n - i < LLS_KV_BATCH_EVENTS ? all->n - i : LLS_KV_BATCH_EVENTS;
    uint64_t number = api->kv_events.next++;
    send_to_readers(api, &batch, number);
    publish(api, &batch, number);
  }
}

int lls_kv_events_open(struct lls_api *api, struct lls_error *err)
{
  const struct lls_kv_config *c = &api->config.kv_events;
  LLS_API_ON_MAIN(api);
  if (!c->on || c->endpoint[0] == '\0')
    return 0;
  return lls_kv_publisher_open(c, &api->kv_events.publisher, err);
}

void lls_kv_events_feed(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (!api->config.kv_events.on)
    return;
  lls_loop_block_events(api->config.loop, take, api);
  lls_kv_events_tick(api);
}

void lls_kv_events_tick(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (api->kv_events.publisher != NULL)
    lls_kv_publisher_answer(api->kv_events.publisher);
}

void lls_kv_events_close(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (api->kv_events.publisher != NULL)
    lls_kv_publisher_close(api->kv_events.publisher);
  api->kv_events.publisher = NULL;
}

/* ---- GET /admin/kv_events ---------------------------------------------------------- */

static void forget(struct lls_kv_reader *reader)
{
  struct lls_kv_events *events = &reader->api->kv_events;
  DL_DELETE(events->readers, reader);
  events->n_readers--;
  free(reader);
}

static void on_gone(void *owner)
{
  forget(owner);
}

void lls_kv_events_end(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  while (api->kv_events.readers != NULL) {
    struct lls_kv_reader *reader = api->kv_events.readers;
    struct lls_http_exchange *exchange = reader->exchange;
    exchange->on_gone = NULL;
    forget(reader);
    lls_http_stream_end(exchange);
  }
}

void lls_handle_admin_kv_events(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error = {0};
  struct lls_kv_reader *reader = NULL;
  if (lls_http_is_head(exchange)) {
    lls_http_reply(exchange, 200, LLS_SSE_TYPE, NULL, 0);
    return;
  }
  if (!api->config.kv_events.on)
    lls_api_fail(&error, 404, "no_kv_events", NULL,
                 "this server makes no KV events: start it with [server] kv_events");
  else if (api->draining)
    lls_api_fail(&error, 503, "draining", NULL, "the server is shutting down");
  else if (api->kv_events.n_readers >= LLS_KV_READERS_MAX)
    lls_api_fail(&error, 503, "too_many_readers", NULL,
                 "%d clients read KV events already, which is the limit: close one",
                 LLS_KV_READERS_MAX);
  else if ((reader = calloc(1, sizeof *reader)) == NULL)
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
  if (reader == NULL) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  reader->api = api;
  reader->exchange = exchange;
  exchange->owner = reader;
  exchange->on_gone = on_gone;
  DL_APPEND(api->kv_events.readers, reader);
  api->kv_events.n_readers++;
  lls_sse_begin(exchange);
  lls_sse_comment(exchange);
}
