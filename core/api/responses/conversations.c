/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/conversations (core/batch/conversation_table.h): create, retrieve, update, delete,
 * and their items. [store] reads the bodies: a list of items may be long.
 *
 *   /v1/conversations/ID              the conversation
 *   /v1/conversations/ID/items        its items
 *   /v1/conversations/ID/items/ITEM   one of them
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/accounts.h"
#include "core/api/responses/responses.h"
#include "core/api/store/store_call.h"
#include "core/http/server.h"
#include "core/base/json_memory.h"
#include "core/base/json_parse.h"
#include "core/batch/conversation_table.h"

#define LIST_DEFAULT 20
#define LIST_MOST    100
#define ITEMS_MOST   20 /* items that a client may add at once, as OpenAI's */

/* Adds to the members of a call; `after` frees it. */
struct request {
  struct lls_text body;
  struct lls_response_room room;
  char item[LLS_STORE_WORD]; /* id of an item in the path, or "" */
};

static void free_request(struct lls_store_call *call)
{
  struct request *request = call->more;
  lls_text_free(&request->body);
  free(request);
}

static struct lls_conversation of(const struct lls_store_call *call)
{
  return (struct lls_conversation){.tenant = call->tenant, .id = call->id};
}

/* ---- bodies ------------------------------------------------------------------------ */

/* Notes an error of a body. */
static void refuse(struct lls_store_call *call, const struct lls_api_error *error)
{
  call->status = lls_fail(&call->error, error->status == 413 ? -E2BIG : -EINVAL, "%s",
                          error->message.text);
}

/* Returns the body, or NULL after noting the error. An empty body has no members. */
static json_t *body_of(struct lls_store_call *call)
{
  const struct request *request = call->more;
  struct lls_api_error error;
  if (request->body.length == 0)
    return json_object();
  json_t *body = lls_api_body(&request->body, &error);
  if (body == NULL)
    refuse(call, &error);
  return body;
}

/* Returns the items of a body as JSON text, each with its id; NULL after noting what is
 * wrong with them. */
static char *items_of(struct lls_store_call *call, const json_t *items)
{
  const struct lls_past none = {0};
  struct lls_api_error error;
  if (!json_is_array(items) || json_array_size(items) == 0 ||
      json_array_size(items) > ITEMS_MOST) {
    call->status = lls_fail(&call->error, -EINVAL, "'items' must be an array of 1 to %d",
                            ITEMS_MOST);
    return NULL;
  }
  json_t *form = json_pack("{s:O}", "input", items);
  json_t *messages = lls_response_messages(form, &none, &error);
  if (messages == NULL)
    refuse(call, &error);
  char *text = messages != NULL ? lls_response_input_text(items) : NULL;
  if (messages != NULL && text == NULL)
    call->status = -ENOMEM;
  json_decref(messages);
  json_decref(form);
  return text;
}

/* Returns the metadata of a body as JSON text; NULL after noting what is wrong. */
static char *metadata_of(struct lls_store_call *call, json_t *body)
{
  struct lls_api_error error;
  json_t *metadata;
  if (lls_store_metadata(body, &metadata, &error) != 0) {
    refuse(call, &error);
    return NULL;
  }
  char *text = metadata != NULL ? lls_json_text(metadata, JSON_COMPACT) : strdup("{}");
  json_decref(metadata);
  if (text == NULL)
    call->status = -ENOMEM;
  return text;
}

/* ---- the conversation -------------------------------------------------------------- */

static void create(struct lls_store_call *call, struct lls_store *store, json_t *body)
{
  const struct request *request = call->more;
  const json_t *items = json_object_get(body, "items");
  bool has_items = json_array_size(items) > 0 || (items != NULL && !json_is_array(items));
  char *added = has_items && !json_is_null(items) ? items_of(call, items) : NULL;
  char *metadata = call->status == 0 ? metadata_of(call, body) : NULL;
  if (call->status == 0)
    call->answer = lls_conversation_create(store, call->tenant, metadata, &call->status,
                                           &call->error);
  if (call->status == 0 && added != NULL) {
    const char *id = json_string_value(json_object_get(call->answer, "id"));
    const struct lls_conversation made = {.tenant = call->tenant, .id = id};
    call->status =
        lls_conversation_add(store, &made, added, &request->room, &call->error);
  }
  free(added);
  free(metadata);
}

static void ask_create(struct lls_store_call *call, struct lls_store *store)
{
  json_t *body = body_of(call);
  if (body != NULL)
    create(call, store, body);
  json_decref(body);
}

static void ask_find(struct lls_store_call *call, struct lls_store *store)
{
  const struct lls_conversation one = of(call);
  call->answer = lls_conversation_find(store, &one, &call->status, &call->error);
}

static void ask_update(struct lls_store_call *call, struct lls_store *store)
{
  const struct lls_conversation one = of(call);
  json_t *body = body_of(call);
  char *metadata = body != NULL ? metadata_of(call, body) : NULL;
  if (metadata != NULL)
    call->answer =
        lls_conversation_update(store, &one, metadata, &call->status, &call->error);
  free(metadata);
  json_decref(body);
}

static void ask_delete(struct lls_store_call *call, struct lls_store *store)
{
  const struct lls_conversation one = of(call);
  call->status = lls_conversation_delete(store, &one, &call->error);
  if (call->status == 0)
    call->answer = json_pack("{s:s, s:s, s:b}", "id", call->id, "object",
                             "conversation.deleted", "deleted", true);
}

/* ---- items ------------------------------------------------------------------------- */

static void ask_items(struct lls_store_call *call, struct lls_store *store)
{
  const struct lls_conversation one = of(call);
  json_t *items = lls_conversation_items(store, &one, &call->status, &call->error);
  if (items != NULL)
    call->answer = lls_store_page(call, items);
  json_decref(items);
}

static void ask_add(struct lls_store_call *call, struct lls_store *store)
{
  const struct request *request = call->more;
  const struct lls_conversation one = of(call);
  json_t *body = body_of(call);
  char *items = body != NULL ? items_of(call, json_object_get(body, "items")) : NULL;
  json_decref(body);
  if (items == NULL)
    return;
  json_t *found = lls_conversation_find(store, &one, &call->status, &call->error);
  json_decref(found);
  if (call->status == 0)
    call->status = lls_conversation_add(store, &one, items, &request->room, &call->error);
  json_t *data =
      call->status == 0 ? lls_json_parse_string(items, JSON_ALLOW_NUL, NULL) : NULL;
  free(items);
  call->limit = ITEMS_MOST;
  if (data != NULL)
    call->answer = lls_store_list(call, data);
}

static void ask_item(struct lls_store_call *call, struct lls_store *store)
{
  const struct request *request = call->more;
  const struct lls_conversation one = of(call);
  json_t *item, *items = lls_conversation_items(store, &one, &call->status, &call->error);
  size_t i;
  json_array_foreach(items, i, item)
  {
    const char *id = json_string_value(json_object_get(item, "id"));
    if (id != NULL && strcmp(id, request->item) == 0)
      call->answer = json_incref(item);
  }
  json_decref(items);
  if (call->status == 0 && call->answer == NULL)
    call->status = lls_fail(&call->error, -ENOENT, "the conversation has no item '%.80s'",
                            request->item);
}

/* OpenAI's answer is the conversation. */
static void ask_remove(struct lls_store_call *call, struct lls_store *store)
{
  const struct request *request = call->more;
  const struct lls_conversation one = of(call);
  call->status = lls_conversation_remove(store, &one, request->item, &call->error);
  if (call->status == 0)
    ask_find(call, store);
}

/* ---- the paths --------------------------------------------------------------------- */

enum place { CONVERSATION, ITEMS, ITEM, NOWHERE };

/* Copies `length` bytes of a path as an id; one that is too long is no id of ours. */
static void copy_id(char out[LLS_STORE_WORD], const char *from, size_t length)
{
  snprintf(out, LLS_STORE_WORD, "%.*s", length < LLS_STORE_WORD ? (int)length : 0, from);
}

/* Takes the path apart. */
static enum place place_of(const char *tail, char id[LLS_STORE_WORD],
                           char item[LLS_STORE_WORD])
{
  static const char items[] = "/items";
  size_t length = strcspn(tail, "/");
  const char *rest = tail + length;
  copy_id(id, tail, length);
  if (rest[0] == '\0')
    return CONVERSATION;
  if (strncmp(rest, items, sizeof items - 1) != 0)
    return NOWHERE;
  rest += sizeof items - 1;
  if (rest[0] == '\0')
    return ITEMS;
  if (rest[0] != '/' || rest[1] == '\0' || strchr(rest + 1, '/') != NULL)
    return NOWHERE;
  copy_id(item, rest + 1, strlen(rest + 1));
  return ITEM;
}

typedef void asking(struct lls_store_call *call, struct lls_store *store);

/* Posts the call with the body of its exchange. */
static void post(struct lls_store_call *call, asking *ask, const char *item)
{
  struct lls_api *api = call->api;
  struct lls_http_exchange *exchange = call->exchange;
  struct request *request = calloc(1, sizeof *request);
  if (request == NULL) {
    struct lls_api_error error;
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
    lls_api_error_reply(exchange, &error);
    free(call);
    return;
  }
  snprintf(request->item, sizeof request->item, "%s", item);
  lls_http_release(api->http, lls_http_take_body(exchange, &request->body));
  request->room = (struct lls_response_room){
      .bytes = api->config.limits.stored_responses,
      .tenant_bytes = lls_limits_of(api, call->tenant).response_bytes};
  call->more = request;
  call->after = free_request;
  call->param = "conversation_id";
  call->ask = ask;
  lls_store_call_post(call);
}

/* Posts the call of the path's place; `asks` has one for each, or NULL. */
static void handle(struct lls_api *api, struct lls_http_exchange *exchange,
                   asking *const asks[NOWHERE])
{
  char id[LLS_STORE_WORD] = "", item[LLS_STORE_WORD] = "";
  enum place place = place_of(exchange->request.tail, id, item);
  struct lls_api_error error;
  if (place == NOWHERE || asks[place] == NULL) {
    lls_api_fail(&error, 404, "not_found", NULL, "%s %s: there is no such path",
                 exchange->request.method, exchange->request.path);
    lls_api_error_reply(exchange, &error);
    return;
  }
  struct lls_store_call *call = lls_store_call_new(api, exchange);
  if (call == NULL)
    return;
  strcpy(call->id, id);
  if (asks[place] != ask_items ||
      lls_store_call_read_query(call, LIST_DEFAULT, LIST_MOST) == 0)
    post(call, asks[place], item);
}

void lls_handle_conversation_create(void *context, struct lls_http_exchange *exchange)
{
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call != NULL)
    post(call, ask_create, "");
}

void lls_handle_conversation(void *context, struct lls_http_exchange *exchange)
{
  static asking *const asks[] = {
      [CONVERSATION] = ask_find, [ITEMS] = ask_items, [ITEM] = ask_item};
  handle(context, exchange, asks);
}

void lls_handle_conversation_post(void *context, struct lls_http_exchange *exchange)
{
  static asking *const asks[] = {
      [CONVERSATION] = ask_update, [ITEMS] = ask_add, [ITEM] = NULL};
  handle(context, exchange, asks);
}

void lls_handle_conversation_delete(void *context, struct lls_http_exchange *exchange)
{
  static asking *const asks[] = {
      [CONVERSATION] = ask_delete, [ITEMS] = NULL, [ITEM] = ask_remove};
  handle(context, exchange, asks);
}
