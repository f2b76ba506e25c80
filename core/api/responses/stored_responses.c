/* SPDX-License-Identifier: Apache-2.0 */
/* GET, DELETE and cancellation of stored /v1/responses (core/batch/response_table.h), and
 * of those in the background. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/responses/detached.h"
#include "core/api/store/store_call.h"
#include "core/batch/response_table.h"

#define LIST_DEFAULT 20 /* items in a list, as OpenAI's default */
#define LIST_MOST    100
#define LATEST       (INT64_C(1) << 40) /* no stream has as many events */

/* Says that a response has failed if nothing completes it any more: it is not in the
 * background of this server, nor of another one that is alive. */
static void give_up(json_t *object)
{
  const char *status = json_string_value(json_object_get(object, "status"));
  if (status == NULL ||
      (strcmp(status, "queued") != 0 && strcmp(status, "in_progress") != 0))
    return;
  json_object_set_new(object, "status", json_string("failed"));
  json_object_set_new(object, "error",
                      json_pack("{s:s, s:s}", "code", "server_error", "message",
                                "the server stopped before the response was complete"));
}

static void ask_response(struct lls_store_call *call, struct lls_store *store)
{
  bool elsewhere;
  call->answer = lls_responses_find(store, call->tenant, call->id, &elsewhere,
                                    &call->status, &call->error);
  if (!elsewhere)
    give_up(call->answer);
}

/* A cancelled response that is over stays as it is. */
static void ask_cancel(struct lls_store_call *call, struct lls_store *store)
{
  bool elsewhere;
  call->answer = lls_responses_find(store, call->tenant, call->id, &elsewhere,
                                    &call->status, &call->error);
  bool in_background = json_is_true(json_object_get(call->answer, "background"));
  if (call->status != 0 || (in_background && !elsewhere)) {
    give_up(call->answer);
    return;
  }
  json_decref(call->answer);
  call->answer = NULL;
  if (elsewhere)
    call->status = lls_fail(&call->error, -EBUSY,
                            "another replica generates this response: only that one can "
                            "cancel it or stream its events");
  else
    call->status = lls_fail(&call->error, -EINVAL,
                            "Cannot cancel a synchronous response: only responses with "
                            "\"background\" can be cancelled, for "
                            "others close the connection");
}

static void ask_delete(struct lls_store_call *call, struct lls_store *store)
{
  call->status = lls_responses_delete(store, call->tenant, call->id, &call->error);
  if (call->status == 0)
    call->answer = json_pack("{s:s, s:s, s:b}", "id", call->id, "object", "response",
                             "deleted", true);
}

/* ---- items ------------------------------------------------------------------------- */

static void ask_items(struct lls_store_call *call, struct lls_store *store)
{
  json_t *items = lls_responses_items(store, call->tenant, call->id, false, &call->status,
                                      &call->error);
  if (items == NULL)
    return;
  call->answer = lls_store_page(call, items);
  json_decref(items);
}

/* ---- the paths --------------------------------------------------------------------- */

static void post(struct lls_store_call *call, size_t id_length,
                 void (*ask)(struct lls_store_call *, struct lls_store *))
{
  snprintf(call->id, sizeof call->id, "%.*s", (int)id_length,
           call->exchange->request.tail);
  call->ask = ask;
  lls_store_call_post(call);
}

/* Returns the length of the id before `verb` at the path's end; 0 if the path ends
 * otherwise. */
static size_t before(const char *tail, const char *verb)
{
  size_t length = strlen(tail), verb_length = strlen(verb);
  bool ends = length > verb_length && strcmp(tail + length - verb_length, verb) == 0;
  return ends ? length - verb_length : 0;
}

/* Reads starting_after, the number of the last event that the client has. Returns 0, or
 * -1 after answering the client. */
static int read_after(struct lls_http_exchange *exchange, long long *after)
{
  char word[LLS_STORE_WORD], *end;
  struct lls_api_error error;
  lls_http_query(exchange->request.query, "starting_after", word, sizeof word);
  *after = word[0] != '\0' ? strtoll(word, &end, 10) : -1;
  if (word[0] == '\0' || (*end == '\0' && *after >= 0 && *after < LATEST))
    return 0;
  lls_api_fail(&error, 400, NULL, "starting_after",
               "'starting_after' must be the sequence_number of an event");
  lls_api_error_reply(exchange, &error);
  return -1;
}

static void stream(struct lls_api *api, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  long long after;
  if (read_after(exchange, &after) != 0 ||
      lls_background_watch(api, exchange, exchange->request.tail, after))
    return;
  lls_api_fail(&error, 400, "no_events", "stream",
               "there is no response '%.80s' whose events are kept, which they are for "
               "five minutes with \"background\" and \"stream\": ask without 'stream'",
               exchange->request.tail);
  lls_api_error_reply(exchange, &error);
}

void lls_handle_response(void *context, struct lls_http_exchange *exchange)
{
  const char *tail = exchange->request.tail;
  size_t id_length = before(tail, "/input_items");
  char streams[LLS_STORE_WORD];
  lls_http_query(exchange->request.query, "stream", streams, sizeof streams);
  if (id_length == 0 && streams[0] != '\0' && strcmp(streams, "false") != 0) {
    stream(context, exchange);
    return;
  }
  if (id_length == 0 && lls_background_get(context, exchange, tail))
    return;
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call == NULL)
    return;
  if (id_length == 0)
    post(call, strlen(tail), ask_response);
  else if (lls_store_call_read_query(call, LIST_DEFAULT, LIST_MOST) == 0)
    post(call, id_length, ask_items);
}

void lls_handle_response_delete(void *context, struct lls_http_exchange *exchange)
{
  lls_background_drop(context, exchange, exchange->request.tail);
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call != NULL)
    post(call, strlen(exchange->request.tail), ask_delete);
}

void lls_handle_response_cancel(void *context, struct lls_http_exchange *exchange)
{
  size_t id_length = before(exchange->request.tail, "/cancel");
  char id[LLS_STORE_WORD];
  struct lls_api_error error;
  snprintf(id, sizeof id, "%.*s", (int)id_length, exchange->request.tail);
  if (id_length == 0) {
    lls_api_fail(&error, 404, "not_found", NULL, "POST %s: there is no such path",
                 exchange->request.path);
    lls_api_error_reply(exchange, &error);
    return;
  }
  if (lls_background_cancel(context, exchange, id))
    return;
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call != NULL)
    post(call, id_length, ask_cancel);
}
