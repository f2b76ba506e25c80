/* SPDX-License-Identifier: Apache-2.0 */
/* GET and DELETE of stored /v1/responses (core/batch/response_table.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/store/store_call.h"
#include "core/batch/response_table.h"

#define LIST_DEFAULT 20 /* items in a list, as OpenAI's default */
#define LIST_MOST    100

static void ask_response(struct lls_store_call *call, struct lls_store *store)
{
  call->answer =
      lls_responses_find(store, call->tenant, call->id, &call->status, &call->error);
}

static void ask_delete(struct lls_store_call *call, struct lls_store *store)
{
  call->status = lls_responses_delete(store, call->tenant, call->id, &call->error);
  if (call->status == 0)
    call->answer = json_pack("{s:s, s:s, s:b}", "id", call->id, "object", "response",
                             "deleted", true);
}

/* ---- items ------------------------------------------------------------------------- */

static json_t *item_at(const struct lls_store_call *call, json_t *items, size_t i)
{
  size_t n = json_array_size(items);
  return json_array_get(items, call->oldest_first ? i : n - 1 - i);
}

/* Returns the index after the item that the client saw last; the end if there is no such
 * item. */
static size_t first_unseen(const struct lls_store_call *call, json_t *items)
{
  size_t i = 0, n = json_array_size(items);
  if (call->seen[0] == '\0')
    return 0;
  while (i < n) {
    const char *id = json_string_value(json_object_get(item_at(call, items, i++), "id"));
    if (id != NULL && strcmp(id, call->seen) == 0)
      break;
  }
  return i;
}

static void ask_items(struct lls_store_call *call, struct lls_store *store)
{
  json_t *items = lls_responses_items(store, call->tenant, call->id, false, &call->status,
                                      &call->error);
  if (items == NULL)
    return;
  json_t *data = json_array();
  size_t i = first_unseen(call, items);
  for (; i < json_array_size(items) && json_array_size(data) <= (size_t)call->limit; i++)
    json_array_append(data, item_at(call, items, i));
  json_decref(items);
  call->answer = lls_store_list(call, data);
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

void lls_handle_response(void *context, struct lls_http_exchange *exchange)
{
  const char *tail = exchange->request.tail;
  size_t id_length = before(tail, "/input_items");
  char streams[LLS_STORE_WORD];
  lls_query_word(exchange->request.query, "stream", streams);
  if (id_length == 0 && streams[0] != '\0' && strcmp(streams, "false") != 0) {
    struct lls_api_error error;
    lls_api_fail(
        &error, 400, "unsupported_parameter", "stream",
        "'stream' is not supported here: a response that is stored is whole, ask "
        "for it without");
    lls_api_error_reply(exchange, &error);
    return;
  }
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
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call != NULL)
    post(call, strlen(exchange->request.tail), ask_delete);
}

void lls_handle_response_cancel(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  (void)context;
  if (before(exchange->request.tail, "/cancel") > 0)
    lls_api_fail(&error, 400, NULL, NULL,
                 "only responses with \"background\" can be cancelled, which this server "
                 "does not have: close the connection instead");
  else
    lls_api_fail(&error, 404, "not_found", NULL, "POST %s: there is no such path",
                 exchange->request.path);
  lls_api_error_reply(exchange, &error);
}
