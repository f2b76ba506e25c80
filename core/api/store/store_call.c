/* SPDX-License-Identifier: Apache-2.0 */
/* See store_call.h. */
#include "core/api/store/store_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/access.h"
#include "core/api/store/store_front.h"
#include "core/base/json_memory.h"
#include "core/batch/database.h"

struct lls_store *lls_store_of(struct lls_api *api, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  LLS_API_ON_MAIN(api);
  if (api->front != NULL)
    return api->front->store;
  lls_api_fail(&error, 400, "no_state", NULL,
               "files, batches and stored responses are off: [server] state = FOLDER "
               "says where they are kept");
  lls_api_error_reply(exchange, &error);
  return NULL;
}

static void on_gone(void *owner)
{
  ((struct lls_store_call *)owner)->exchange = NULL;
}

static void run(struct lls_store_job *job, struct lls_store *store)
{
  struct lls_store_call *call = (struct lls_store_call *)job;
  uint64_t shortages = lls_json_shortages();
  call->ask(call, store);
  /* writing a list of 10,000 files would block main too long */
  if (lls_json_shortages() == shortages)
    call->text = lls_json_text(call->answer, JSON_COMPACT);
  json_decref(call->answer);
  call->answer = NULL;
}

void lls_store_error(int status, const struct lls_error *why, const char *param,
                     struct lls_api_error *error)
{
  const char *text = lls_error_text(why, status);
  switch (status) {
  case -ENOENT:
    lls_api_fail(error, 404, "not_found", param, "%s", text);
    break;
  case -EINVAL:
    lls_api_fail(error, 400, NULL, NULL, "%s", text);
    break;
  case -EBUSY:
  case -EALREADY:
    lls_api_fail(error, 409, "conflict", NULL, "%s", text);
    break;
  case LLS_DATABASE_LOST:
    lls_api_fail(error, 503, "state_unavailable", NULL, "%s", text);
    error->retry_after = 2;
    break;
  case -E2BIG:
    lls_api_fail(error, 413, "tenant_storage_full", NULL, "%s", text);
    break;
  case -ENOSPC:
  case -EFBIG:
  case -EDQUOT:
    lls_api_fail(error, 507, "storage_full", NULL, "%s", text);
    break;
  default:
    lls_api_fail(error, 500, "storage_failed", NULL, "%s", text);
  }
}

static void answer(const struct lls_store_call *call, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  exchange->on_gone = NULL;
  if (call->status != 0)
    lls_store_error(call->status, &call->error, call->param != NULL ? call->param : "id",
                    &error);
  else if (call->text == NULL)
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
  else {
    lls_http_reply(exchange, 200, "application/json", call->text, strlen(call->text));
    return;
  }
  lls_api_error_reply(exchange, &error);
}

static void done(struct lls_store_job *job)
{
  struct lls_store_call *call = (struct lls_store_call *)job;
  if (call->after != NULL)
    call->after(call);
  if (call->exchange != NULL)
    answer(call, call->exchange);
  free(call->text);
  json_decref(call->request.metadata);
  struct lls_api *api = call->api;
  free(call);
  lls_store_errand_over(api);
}

struct lls_store_call *lls_store_call_new(struct lls_api *api,
                                          struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  LLS_API_ON_MAIN(api);
  if (lls_store_of(api, exchange) == NULL)
    return NULL;
  struct lls_store_call *call = calloc(1, sizeof *call);
  if (call == NULL) {
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
    lls_api_error_reply(exchange, &error);
    return NULL;
  }
  const char *tenant = lls_access_tenant(api, exchange);
  snprintf(call->tenant, sizeof call->tenant, "%s", tenant != NULL ? tenant : "");
  call->job.run = run;
  call->job.done = done;
  call->api = api;
  call->exchange = exchange;
  return call;
}

void lls_store_call_post(struct lls_store_call *call)
{
  call->exchange->owner = call;
  call->exchange->on_gone = on_gone;
  lls_store_errand(call->api, &call->job);
}

/* ---- queries ----------------------------------------------------------------------- */

int lls_store_call_read_query(struct lls_store_call *call, int64_t limit, int64_t most)
{
  const char *query = call->exchange->request.query;
  char text[LLS_STORE_WORD], order[LLS_STORE_WORD], *end;
  struct lls_api_error error;
  lls_http_query(query, "after", call->seen, LLS_STORE_WORD);
  lls_http_query(query, "purpose", call->purpose, LLS_STORE_WORD);
  lls_http_query(query, "order", order, LLS_STORE_WORD);
  lls_http_query(query, "limit", text, LLS_STORE_WORD);
  call->oldest_first = strcmp(order, "asc") == 0;
  call->limit = text[0] != '\0' ? strtoll(text, &end, 10) : limit;
  if (call->limit >= 1 && call->limit <= most && (text[0] == '\0' || *end == '\0'))
    return 0;
  lls_api_fail(&error, 400, NULL, "limit", "'limit' must be 1 to %lld", (long long)most);
  lls_api_error_reply(call->exchange, &error);
  free(call);
  return -1;
}

json_t *lls_store_list(const struct lls_store_call *call, json_t *data)
{
  bool more = json_array_size(data) > (size_t)call->limit;
  if (more)
    json_array_remove(data, json_array_size(data) - 1);
  size_t n = json_array_size(data);
  const json_t *first = json_object_get(json_array_get(data, 0), "id");
  const json_t *last = n > 0 ? json_object_get(json_array_get(data, n - 1), "id") : NULL;
  return json_pack("{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data", data,
                   "first_id", json_string_value(first), "last_id",
                   json_string_value(last), "has_more", more);
}

/* ---- pages ------------------------------------------------------------------------- */

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

json_t *lls_store_page(const struct lls_store_call *call, json_t *items)
{
  json_t *data = json_array();
  size_t i = first_unseen(call, items);
  for (; i < json_array_size(items) && json_array_size(data) <= (size_t)call->limit; i++)
    json_array_append(data, item_at(call, items, i));
  return lls_store_list(call, data);
}

/* ---- metadata ---------------------------------------------------------------------- */

#define METADATA_PAIRS 16
#define METADATA_KEY   64
#define METADATA_VALUE 512

int lls_store_metadata(json_t *body, json_t **out, struct lls_api_error *error)
{
  json_t *metadata = json_object_get(body, "metadata"), *value;
  const char *key;
  *out = NULL;
  if (metadata == NULL || json_is_null(metadata))
    return 0;
  bool sound = json_is_object(metadata) && json_object_size(metadata) <= METADATA_PAIRS;
  json_object_foreach(metadata, key, value) sound =
      sound && strlen(key) <= METADATA_KEY && json_is_string(value) &&
      json_string_length(value) <= METADATA_VALUE;
  if (!sound)
    return lls_api_fail(error, 400, NULL, "metadata",
                        "'metadata' must be an object of at most %d strings, of %d "
                        "bytes each, with names of at most %d",
                        METADATA_PAIRS, METADATA_VALUE, METADATA_KEY);
  *out = json_incref(metadata);
  return 0;
}
