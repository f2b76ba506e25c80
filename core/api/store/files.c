/* SPDX-License-Identifier: Apache-2.0 */
/* GET and DELETE of /v1/files; download.c sends the contents of files. */
#include <stdio.h>
#include <string.h>

#include "core/api/store/download.h"
#include "core/api/store/store_call.h"
#include "core/batch/file_table.h"

#define LIST_MOST 10000 /* OpenAI's maximum and default of a list's length */

static const char *or_null(const char *word)
{
  return word[0] != '\0' ? word : NULL;
}

static void ask_list(struct lls_store_call *call, struct lls_store *store)
{
  const struct lls_files_query query = {.tenant = call->tenant,
                                        .purpose = or_null(call->purpose),
                                        .after = or_null(call->seen),
                                        .oldest_first = call->oldest_first,
                                        .limit = call->limit};
  json_t *data = lls_files_list(store, &query, &call->status, &call->error);
  if (data != NULL)
    call->answer = lls_store_list(call, data);
}

void lls_handle_files(void *context, struct lls_http_exchange *exchange)
{
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call == NULL || lls_store_call_read_query(call, LIST_MOST, LIST_MOST) != 0)
    return;
  call->ask = ask_list;
  lls_store_call_post(call);
}

static void ask_file(struct lls_store_call *call, struct lls_store *store)
{
  struct lls_file file;
  call->status = lls_files_find(store, call->tenant, call->id, &file, &call->error);
  if (call->status == 0)
    call->answer = lls_file_json(&file);
}

static void ask_delete(struct lls_store_call *call, struct lls_store *store)
{
  call->status = lls_files_delete(store, call->tenant, call->id, &call->error);
  if (call->status == 0)
    call->answer =
        json_pack("{s:s, s:s, s:b}", "id", call->id, "object", "file", "deleted", true);
}

static void post(struct lls_api *api, struct lls_http_exchange *exchange,
                 void (*ask)(struct lls_store_call *, struct lls_store *))
{
  struct lls_store_call *call = lls_store_call_new(api, exchange);
  if (call == NULL)
    return;
  snprintf(call->id, sizeof call->id, "%s", exchange->request.tail);
  call->ask = ask;
  lls_store_call_post(call);
}

void lls_handle_file(void *context, struct lls_http_exchange *exchange)
{
  static const char content[] = "/content";
  const char *tail = exchange->request.tail;
  size_t length = strlen(tail);
  if (length > sizeof content - 1 &&
      strcmp(tail + length - (sizeof content - 1), content) == 0)
    lls_download(context, exchange, length - (sizeof content - 1));
  else
    post(context, exchange, ask_file);
}

void lls_handle_file_delete(void *context, struct lls_http_exchange *exchange)
{
  post(context, exchange, ask_delete);
}
