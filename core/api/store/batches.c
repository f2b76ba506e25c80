/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/batches: create, retrieve, list and cancel; batch_runner.c runs their lines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/dialect.h"
#include "core/api/store/batch_runner.h"
#include "core/api/store/store_call.h"
#include "core/batch/ending.h"

#define LIST_DEFAULT  20
#define LIST_MOST     100
#define WINDOW_MOST_S (30 * 86400)
#define BODY_MOST     65536 /* fits a valid body; small, since [main] parses it */

/* ---- creating ---------------------------------------------------------------------- */

static int read_word(const json_t *body, const char *name, char *out, size_t size,
                     struct lls_api_error *error)
{
  const char *word = json_string_value(json_object_get(body, name));
  if (word == NULL || word[0] == '\0' || strlen(word) >= size)
    return lls_api_fail(error, 400, NULL, name, "'%s' must be a string of 1 to %zu bytes",
                        name, size - 1);
  strcpy(out, word);
  return 0;
}

/* Appends the paths of the dialects that batches support, each once: rows of a dialect
 * stand together. */
static void list_endpoints(const struct lls_api *api, struct lls_text *out)
{
  const struct lls_dialect *last = NULL;
  for (size_t i = 0; i < api->n_routes; i++) {
    const struct lls_dialect *dialect = api->routes[i].dialect;
    if (dialect != NULL && dialect != last && dialect->batch_path != NULL)
      lls_text_printf(out, "%s%s", out->length > 0 ? ", " : "", dialect->batch_path);
    last = dialect != NULL ? dialect : last;
  }
}

static int check_endpoint(const struct lls_api *api, const char *endpoint,
                          struct lls_api_error *error)
{
  struct lls_text known = {0};
  if (lls_runner_dialect(api, endpoint) != NULL)
    return 0;
  list_endpoints(api, &known);
  lls_api_fail(error, 400, NULL, "endpoint", "'endpoint' must be one of %s, not '%s'",
               known.length > 0 ? known.data : "", endpoint);
  lls_text_free(&known);
  return -1;
}

/* Reads a completion window. OpenAI allows only "24h"; this server any number of
 * seconds, minutes, hours or days. */
static int read_window(const char *window, int64_t *seconds, struct lls_api_error *error)
{
  static const struct {
    char unit;
    int64_t seconds;
  } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  char *end;
  long long n = strtoll(window, &end, 10);
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (end == window || end[0] != units[i].unit || end[1] != '\0' || n < 1 ||
        n > WINDOW_MOST_S / units[i].seconds)
      continue;
    *seconds = n * units[i].seconds;
    return 0;
  }
  return lls_api_fail(error, 400, NULL, "completion_window",
                      "'completion_window' must be a number of hours such as 24h (or "
                      "30m, 7d), at most 30d");
}

static int read_request(const struct lls_api *api, json_t *body,
                        struct lls_batch_request *out, struct lls_api_error *error)
{
  if (read_word(body, "input_file_id", out->input, sizeof out->input, error) != 0 ||
      read_word(body, "endpoint", out->endpoint, sizeof out->endpoint, error) != 0 ||
      check_endpoint(api, out->endpoint, error) != 0 ||
      read_word(body, "completion_window", out->window, sizeof out->window, error) != 0 ||
      read_window(out->window, &out->window_s, error) != 0)
    return -1;
  const json_t *expires = json_object_get(body, "output_expires_after");
  if (expires != NULL && !json_is_null(expires))
    return lls_api_fail(error, 400, NULL, "output_expires_after",
                        "'output_expires_after' is not supported: files are kept until "
                        "they are deleted");
  return lls_store_metadata(body, &out->metadata, error);
}

static void ask_create(struct lls_store_call *call, struct lls_store *store)
{
  call->answer = lls_batches_create(store, &call->request, &call->status, &call->error);
}

static int read_body(const struct lls_api *api, const struct lls_text *text,
                     struct lls_batch_request *out, struct lls_api_error *error)
{
  if (text->length > BODY_MOST)
    return lls_api_fail(error, 413, NULL, NULL,
                        "the description of a batch has %zu bytes; at most %d are read: "
                        "its requests go to /v1/files",
                        text->length, BODY_MOST);
  json_t *body = lls_api_body(text, error);
  int status = body != NULL ? read_request(api, body, out, error) : -1;
  json_decref(body);
  return status;
}

void lls_handle_batch_create(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call == NULL)
    return;
  if (read_body(context, &exchange->request.body, &call->request, &error) != 0) {
    lls_api_error_reply(exchange, &error);
    free(call);
    return;
  }
  call->request.tenant = call->tenant;
  call->param = "input_file_id";
  call->ask = ask_create;
  lls_store_call_post(call);
}

/* ---- looking ----------------------------------------------------------------------- */

static void ask_list(struct lls_store_call *call, struct lls_store *store)
{
  const char *after = call->seen[0] != '\0' ? call->seen : NULL;
  json_t *data = lls_batches_list(store, call->tenant, after, call->limit, &call->status,
                                  &call->error);
  if (data != NULL)
    call->answer = lls_store_list(call, data);
}

void lls_handle_batches(void *context, struct lls_http_exchange *exchange)
{
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call == NULL || lls_store_call_read_query(call, LIST_DEFAULT, LIST_MOST) != 0)
    return;
  call->ask = ask_list;
  lls_store_call_post(call);
}

static void ask_batch(struct lls_store_call *call, struct lls_store *store)
{
  call->answer =
      lls_batches_find(store, call->tenant, call->id, &call->status, &call->error);
}

void lls_handle_batch(void *context, struct lls_http_exchange *exchange)
{
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call == NULL)
    return;
  snprintf(call->id, sizeof call->id, "%s", exchange->request.tail);
  call->ask = ask_batch;
  lls_store_call_post(call);
}

/* ---- cancelling -------------------------------------------------------------------- */

static void ask_cancel(struct lls_store_call *call, struct lls_store *store)
{
  call->answer =
      lls_ending_cancel(store, call->tenant, call->id, &call->status, &call->error);
}

static void after_cancel(struct lls_store_call *call)
{
  struct lls_store_front *front = call->api->front;
  if (call->status == 0 && front->store != NULL)
    lls_runner_cancel(front->runner, call->id);
}

void lls_handle_batch_cancel(void *context, struct lls_http_exchange *exchange)
{
  static const char verb[] = "/cancel";
  const char *tail = exchange->request.tail;
  size_t length = strlen(tail), verb_length = sizeof verb - 1;
  struct lls_api_error error;
  if (length <= verb_length || strcmp(tail + length - verb_length, verb) != 0) {
    lls_api_fail(&error, 404, "not_found", NULL, "POST %s: there is no such path",
                 exchange->request.path);
    lls_api_error_reply(exchange, &error);
    return;
  }
  struct lls_store_call *call = lls_store_call_new(context, exchange);
  if (call == NULL)
    return;
  snprintf(call->id, sizeof call->id, "%.*s", (int)(length - verb_length), tail);
  call->ask = ask_cancel;
  call->after = after_cancel;
  lls_store_call_post(call);
}
