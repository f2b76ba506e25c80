/* SPDX-License-Identifier: Apache-2.0 */
/* Responses that run without their client; see detached.h. watchers.c sends their
 * events. */
#include "core/api/responses/detached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/api/access.h"
#include "core/api/accounts.h"
#include "core/api/responses/detached_internal.h"
#include "core/api/responses/responses.h"
#include "core/api/store/store_call.h"
#include "core/api/store/store_front.h"
#include "core/base/json_memory.h"
#include "core/batch/database.h"
#include "core/batch/response_table.h"

#define KEPT_NS (300 * LLS_NS_PER_S) /* after the end */

/* ---- the store --------------------------------------------------------------------- */

/* A response on its way to the store: first with its input, as a new row; later without,
 * in its row. */
struct saving {
  struct lls_store_job job;
  struct lls_background *background;
  char *text, *input, *previous, *conversation;
  struct lls_response_room room;
  int status;
  struct lls_error error;
};

static void run_saving(struct lls_store_job *job, struct lls_store *store)
{
  struct saving *saving = (struct saving *)job;
  const struct lls_background *background = saving->background;
  const struct lls_stored_response response = {.id = background->id,
                                               .tenant = background->tenant,
                                               .previous = saving->previous,
                                               .conversation = saving->conversation,
                                               .object = saving->text,
                                               .input = saving->input};
  saving->status =
      saving->input != NULL
          ? lls_responses_put(store, &response, &saving->room, &saving->error)
          : lls_responses_replace(store, &response, &saving->error);
}

/* Answers the client that asked for the response: it is in the store from now on. */
static void answer_asker(struct lls_background *background, const char *text)
{
  struct lls_http_exchange *exchange = background->asker;
  background->asker = NULL;
  if (exchange == NULL)
    return;
  exchange->on_gone = NULL;
  if (background->streamed)
    lls_watcher_add(background, exchange, -1);
  else
    lls_http_reply(exchange, 200, "application/json", text, strlen(text));
}

static void cancel(struct lls_background *background);

/* Answers the client with why the response cannot begin, and cancels it. */
static void refuse_asker(struct lls_background *background, const struct saving *saving)
{
  struct lls_http_exchange *exchange = background->asker;
  struct lls_api_error error;
  background->asker = NULL;
  background->deleted = true;
  cancel(background);
  if (exchange == NULL)
    return;
  exchange->on_gone = NULL;
  lls_store_error(saving->status, &saving->error, NULL, &error);
  lls_api_error_reply(exchange, &error);
}

static void free_saving(struct saving *saving)
{
  free(saving->text);
  free(saving->input);
  free(saving->previous);
  free(saving->conversation);
  free(saving);
}

static void saved(struct lls_store_job *job)
{
  struct saving *saving = (struct saving *)job;
  struct lls_background *background = saving->background;
  struct lls_api *api = background->api;
  if (saving->status != 0)
    lls_log(api->config.log, LLS_LOG_ERROR, "responses", "%s is not stored: %s",
            background->id, lls_error_text(&saving->error, saving->status));
  if (saving->input != NULL && saving->status == LLS_DATABASE_LOST)
    refuse_asker(background, saving);
  else if (saving->input != NULL)
    answer_asker(background, saving->text);
  else
    background->stored = saving->status == 0;
  background->unsaved = saving->input == NULL && saving->status == LLS_DATABASE_LOST;
  background->n_jobs--;
  free_saving(saving);
  lls_store_errand_over(api);
}

static char *copy(const char *text)
{
  return text != NULL ? strdup(text) : NULL;
}

/* Copies what a new row needs of the generation's state. Returns false if out of
 * memory. */
static bool fill_row(struct saving *saving, const struct lls_response *response)
{
  const char *previous = lls_response_previous(response);
  const char *conversation = lls_response_belongs(response);
  saving->input = copy(lls_response_input(response));
  saving->previous = copy(previous);
  saving->conversation = copy(conversation);
  return saving->input != NULL && (previous == NULL || saving->previous != NULL) &&
         (conversation == NULL || saving->conversation != NULL);
}

/* Stores `text`, which is taken over; response: the state of a new row, else NULL.
 * Returns false if out of memory, or if the store is closed. */
static bool save(struct lls_background *background, char *text,
                 const struct lls_response *response)
{
  struct lls_api *api = background->api;
  bool possible = text != NULL && api->front != NULL && api->front->store != NULL;
  struct saving *saving = possible ? calloc(1, sizeof *saving) : NULL;
  if (saving == NULL) {
    free(text);
    return false;
  }
  saving->job = (struct lls_store_job){.run = run_saving, .done = saved};
  saving->background = background;
  saving->text = text;
  if (response != NULL && !fill_row(saving, response)) {
    free_saving(saving);
    return false;
  }
  saving->room = (struct lls_response_room){
      .bytes = api->config.limits.stored_responses,
      .tenant_bytes = lls_limits_of(api, background->tenant).response_bytes};
  background->n_jobs++;
  lls_store_errand(api, &saving->job);
  return true;
}

/* ---- life -------------------------------------------------------------------------- */

static void on_asker_gone(void *owner)
{
  ((struct lls_background *)owner)->asker = NULL;
}

static void take(struct lls_answer_sink *sink, json_t *events)
{
  struct lls_background *background = (struct lls_background *)sink;
  LLS_API_ON_MAIN(background->api);
  if (background->streamed)
    lls_watchers_add_events(background, events);
  json_decref(events);
}

/* Lets go of the generation, which goes on without a reader, or is over. */
static void release(struct lls_background *background)
{
  background->generation->sink = NULL;
  background->generation = NULL;
  background->over_ns = (int64_t)uv_hrtime();
  lls_account_leave(background->account);
  background->account = NULL;
}

static void end(struct lls_answer_sink *sink, json_t *events)
{
  struct lls_background *background = (struct lls_background *)sink;
  LLS_API_ON_MAIN(background->api);
  const json_t *response = lls_response_of(events);
  background->final = response != NULL ? lls_json_text(response, JSON_COMPACT) : NULL;
  release(background);
  char *text = copy(background->final);
  if (background->deleted)
    free(text);
  else
    save(background, text, NULL);
  take(&background->sink, events);
  lls_watchers_pump(background);
}

static struct lls_background *create(struct lls_generation *generation)
{
  struct lls_api *api = generation->api;
  struct lls_http_exchange *exchange = generation->exchange;
  const char *tenant = lls_access_tenant(api, exchange);
  struct lls_background *background = calloc(1, sizeof *background);
  if (background == NULL)
    return NULL;
  background->sink = (struct lls_answer_sink){.take = take, .end = end};
  background->api = api;
  background->generation = generation;
  background->asker = exchange;
  background->streamed = generation->params.stream;
  snprintf(background->id, sizeof background->id, "%s", generation->id);
  snprintf(background->tenant, sizeof background->tenant, "%s",
           tenant != NULL ? tenant : "");
  DL_APPEND(api->backgrounds, background);
  return background;
}

static void destroy(struct lls_background *background)
{
  DL_DELETE(background->api->backgrounds, background);
  lls_watchers_forget(background);
  lls_account_leave(background->account);
  free(background->final);
  free(background);
}

void lls_background_take(struct lls_generation *generation)
{
  LLS_API_ON_MAIN(generation->api);
  struct lls_http_exchange *exchange = generation->exchange;
  struct lls_background *background = create(generation);
  json_t *events = NULL;
  char *text = NULL;
  if (background != NULL)
    events = lls_response_queued(generation);
  if (events != NULL)
    text = lls_json_text(lls_response_of(events), JSON_COMPACT);
  if (text == NULL || !save(background, text, generation->state)) {
    json_decref(events);
    if (background != NULL)
      destroy(background);
    return;
  }
  /* the events make up the response, whether a client reads them or not */
  generation->params.stream = true;
  generation->exchange = NULL;
  generation->sink = &background->sink;
  background->account = lls_account_take(exchange);
  exchange->owner = background;
  exchange->on_gone = on_asker_gone;
  exchange->on_ended = NULL;
  take(&background->sink, events);
}

static void cancel(struct lls_background *background)
{
  struct lls_generation *generation = background->generation;
  if (generation == NULL)
    return;
  end(&background->sink, lls_response_cancelled(generation));
  lls_generation_cancel(generation);
}

/* Returns true if nothing of the response is needed any more: it is in the store, and its
 * events are old. */
static bool is_done(const struct lls_background *background, int64_t now_ns)
{
  bool old = now_ns - background->over_ns >= KEPT_NS;
  return background->generation == NULL && background->n_jobs == 0 &&
         (!background->unsaved || background->deleted) && background->asker == NULL &&
         background->watchers == NULL &&
         (old || background->deleted || (background->stored && !background->streamed));
}

/* Stores the end of a response once the database answers again. */
static void save_again(struct lls_background *background)
{
  const struct lls_api *api = background->api;
  if (!background->unsaved || background->deleted || background->n_jobs > 0 ||
      api->front->store == NULL || lls_store_is_lost(api->front->store))
    return;
  background->unsaved = !save(background, copy(background->final), NULL);
}

void lls_background_tick(struct lls_api *api, int64_t now_ns)
{
  struct lls_background *background, *next;
  LLS_API_ON_MAIN(api);
  DL_FOREACH_SAFE (api->backgrounds, background, next) {
    save_again(background);
    if (is_done(background, now_ns))
      destroy(background);
    else
      lls_watchers_tick(background, now_ns);
  }
}

void lls_background_free(struct lls_api *api)
{
  struct lls_background *background, *next;
  LLS_API_ON_MAIN(api);
  DL_FOREACH_SAFE (api->backgrounds, background, next)
    destroy(background);
}

/* ---- requests ---------------------------------------------------------------------- */

static struct lls_background *
find(struct lls_api *api, const struct lls_http_exchange *exchange, const char *id)
{
  const char *tenant = lls_access_tenant(api, exchange);
  struct lls_background *background;
  DL_FOREACH (api->backgrounds, background)
    if (strcmp(background->id, id) == 0 && !background->deleted &&
        strcmp(background->tenant, tenant != NULL ? tenant : "") == 0)
      return background;
  return NULL;
}

static void reply(struct lls_http_exchange *exchange, const char *text)
{
  struct lls_api_error error;
  if (text != NULL) {
    lls_http_reply(exchange, 200, "application/json", text, strlen(text));
    return;
  }
  lls_api_fail(&error, 503, NULL, NULL, "out of memory for the response");
  lls_api_error_reply(exchange, &error);
}

bool lls_background_get(struct lls_api *api, struct lls_http_exchange *exchange,
                        const char *id)
{
  LLS_API_ON_MAIN(api);
  const struct lls_background *background = find(api, exchange, id);
  if (background == NULL)
    return false;
  if (background->generation != NULL)
    lls_api_reply_json(exchange, 200, lls_response_now(background->generation));
  else
    reply(exchange, background->final);
  return true;
}

bool lls_background_watch(struct lls_api *api, struct lls_http_exchange *exchange,
                          const char *id, long long after)
{
  LLS_API_ON_MAIN(api);
  struct lls_background *background = find(api, exchange, id);
  struct lls_api_error error;
  if (background == NULL)
    return false;
  if (background->streamed && !background->lost) {
    lls_watcher_add(background, exchange, after);
    return true;
  }
  lls_api_fail(&error, 400, "no_events", "stream",
               background->lost ? "the events of this response took too much memory: ask "
                                  "without 'stream'"
                                : "this response was not asked for with 'stream', so its "
                                  "events are not kept: ask without 'stream'");
  lls_api_error_reply(exchange, &error);
  return true;
}

bool lls_background_cancel(struct lls_api *api, struct lls_http_exchange *exchange,
                           const char *id)
{
  LLS_API_ON_MAIN(api);
  struct lls_background *background = find(api, exchange, id);
  if (background == NULL)
    return false;
  cancel(background);
  reply(exchange, background->final);
  return true;
}

void lls_background_drop(struct lls_api *api, const struct lls_http_exchange *exchange,
                         const char *id)
{
  LLS_API_ON_MAIN(api);
  struct lls_background *background = find(api, exchange, id);
  if (background == NULL)
    return;
  background->deleted = true;
  cancel(background);
}
