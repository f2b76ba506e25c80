/* SPDX-License-Identifier: Apache-2.0 */
/* See response_memory.h. */
#include "core/api/responses/response_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/api/access.h"
#include "core/api/accounts.h"
#include "core/api/responses/responses.h"
#include "core/api/store/store_call.h"
#include "core/api/store/store_front.h"
#include "core/base/json_memory.h"
#include "core/batch/response_item.h"
#include "core/batch/conversation_table.h"
#include "core/batch/database.h"

bool lls_response_memory_is_on(const struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  return api->front != NULL && api->front->store != NULL &&
         api->config.limits.stored_responses > 0;
}

int lls_response_memory_check(const struct lls_api *api,
                              const struct lls_generation *generation,
                              struct lls_api_error *error)
{
  static const struct lls_error why = {
      "the database of [server] state_database does not answer, so that this response "
      "could not be stored (it needs no database with \"store\": false)"};
  LLS_API_ON_MAIN(api);
  if (lls_response_input(generation->state) == NULL || api->front == NULL ||
      !lls_store_is_lost(api->front->store))
    return 0;
  lls_store_error(LLS_DATABASE_LOST, &why, NULL, error);
  return -1;
}

/* ---- the items before a request ---------------------------------------------------- */

struct asking {
  struct lls_store_job job;
  struct lls_api *api;
  struct lls_http_exchange *exchange; /* [main] NULL: the client has left */
  char id[LLS_STORE_WORD], conversation[LLS_STORE_WORD], tenant[LLS_TENANT_BYTES];
  json_t *references; /* ids of items */
  const char *param;  /* the parameter that named what is being looked for */
  lls_past_found *found;
  void *context;
  json_t *past; /* NULL on failure, described by: */
  int status;
  struct lls_error error;
};

/* Returns the items that the request continues; NULL with the status and the error. */
static json_t *load_items(struct asking *asking, struct lls_store *store)
{
  const struct lls_conversation of = {asking->tenant, asking->conversation};
  asking->param = of.id[0] != '\0' ? "conversation" : "previous_response_id";
  if (of.id[0] != '\0')
    return lls_conversation_items(store, &of, &asking->status, &asking->error);
  if (asking->id[0] != '\0')
    return lls_responses_items(store, asking->tenant, asking->id, true, &asking->status,
                               &asking->error);
  return json_array();
}

static void run_ask(struct lls_store_job *job, struct lls_store *store)
{
  struct asking *asking = (struct asking *)job;
  uint64_t shortages = lls_json_shortages();
  json_t *items = load_items(asking, store), *named = NULL;
  if (items != NULL) {
    asking->param = "input";
    named = lls_response_items_named(store, asking->tenant, asking->references,
                                     &asking->status, &asking->error);
  }
  if (items != NULL && named != NULL)
    asking->past = json_pack("{s:O, s:O}", "items", items, "named", named);
  json_decref(items);
  json_decref(named);
  if (lls_json_shortages() == shortages)
    return;
  json_decref(asking->past);
  asking->past = NULL;
  asking->status = -ENOMEM;
}

static void on_asker_gone(void *owner)
{
  ((struct asking *)owner)->exchange = NULL;
}

static void asked(struct lls_store_job *job)
{
  struct asking *asking = (struct asking *)job;
  struct lls_api *api = asking->api;
  struct lls_api_error error;
  if (asking->exchange != NULL)
    asking->exchange->on_gone = NULL;
  if (asking->past == NULL)
    lls_store_error(asking->status, &asking->error, asking->param, &error);
  asking->found(api, asking->context, asking->exchange, asking->past, &error);
  json_decref(asking->references);
  free(asking);
  lls_store_errand_over(api);
}

void lls_response_memory_ask(struct lls_api *api, struct lls_http_exchange *exchange,
                             const json_t *body, lls_past_found *found, void *context)
{
  LLS_API_ON_MAIN(api);
  const char *tenant = lls_access_tenant(api, exchange);
  struct asking *asking = calloc(1, sizeof *asking);
  struct lls_api_error error;
  if (asking == NULL) {
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
    found(api, context, exchange, NULL, &error);
    return;
  }
  asking->job.run = run_ask;
  asking->job.done = asked;
  asking->api = api;
  asking->exchange = exchange;
  asking->found = found;
  asking->context = context;
  const char *id = json_string_value(json_object_get(body, "previous_response_id"));
  snprintf(asking->id, sizeof asking->id, "%s", id != NULL ? id : "");
  const char *conversation = lls_response_conversation(body);
  snprintf(asking->conversation, sizeof asking->conversation, "%s",
           conversation != NULL ? conversation : "");
  asking->references = lls_response_references(body);
  snprintf(asking->tenant, sizeof asking->tenant, "%s", tenant != NULL ? tenant : "");
  exchange->owner = asking;
  exchange->on_gone = on_asker_gone;
  lls_store_errand(api, &asking->job);
}

/* ---- a response -------------------------------------------------------------------- */

struct putting {
  struct lls_store_job job;
  struct lls_generation *generation;
  char tenant[LLS_TENANT_BYTES];
  const char *text;
  struct lls_response_room room;
  lls_answer_stored *put;
  void *context;
  int status;
  struct lls_error error;
};

/* Reads the generation on the store's thread: it is over, so no other thread changes
 * it. */
static void run_put(struct lls_store_job *job, struct lls_store *store)
{
  struct putting *putting = (struct putting *)job;
  const struct lls_generation *generation = putting->generation;
  const struct lls_stored_response response = {
      .id = generation->id,
      .tenant = putting->tenant,
      .previous = lls_response_previous(generation->state),
      .conversation = lls_response_belongs(generation->state),
      .object = putting->text,
      .input = lls_response_input(generation->state)};
  putting->status = lls_responses_put(store, &response, &putting->room, &putting->error);
}

static void put_over(struct lls_store_job *job)
{
  struct putting *putting = (struct putting *)job;
  struct lls_api *api = putting->generation->api;
  if (putting->status != 0)
    lls_log(api->config.log, LLS_LOG_ERROR, "responses", "%s is not stored: %s",
            putting->generation->id, lls_error_text(&putting->error, putting->status));
  putting->put(putting->generation, putting->status == 0, putting->context);
  free(putting);
  lls_store_errand_over(api);
}

void lls_response_memory_put(struct lls_generation *generation, const char *text,
                             lls_answer_stored *put, void *context)
{
  struct lls_api *api = generation->api;
  LLS_API_ON_MAIN(api);
  const char *tenant = lls_access_tenant(api, generation->exchange);
  struct putting *putting =
      lls_response_memory_is_on(api) ? calloc(1, sizeof *putting) : NULL;
  if (putting == NULL) {
    put(generation, false, context);
    return;
  }
  putting->job.run = run_put;
  putting->job.done = put_over;
  putting->generation = generation;
  putting->text = text;
  putting->room = (struct lls_response_room){
      .bytes = api->config.limits.stored_responses,
      .tenant_bytes = lls_limits_of(api, tenant != NULL ? tenant : "").response_bytes};
  putting->put = put;
  putting->context = context;
  snprintf(putting->tenant, sizeof putting->tenant, "%s", tenant != NULL ? tenant : "");
  lls_store_errand(api, &putting->job);
}
