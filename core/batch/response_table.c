/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See response_table.h. A response expires after 30 days, as OpenAI's do; one that
 * others continue is hidden from clients then, and deleted after them.
 */
#include "core/batch/response_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/json_parse.h"
#include "core/batch/store_internal.h"
#include "core/base/json_cost.h"

#define KEPT_S        (30 * INT64_C(86400))
#define EVICT_AT_ONCE "16"
#define LARGEST_NAME  256      /* bytes; more than any tenant's name has */
#define CHAIN_MOST    "100000" /* most rows; a guard against a cycle in the database */

/* ---- room -------------------------------------------------------------------------- */

/* Adds up the bytes of all responses once; later changes update the sum. */
static int count_bytes(struct lls_store *store, struct lls_error *err)
{
  int64_t bytes = 0;
  if (store->counted_responses)
    return 0;
  int status = lls_database_run(&store->database, lls_row_add_integer, &bytes, err,
                                "SELECT sum(bytes) FROM responses", "");
  store->counted_responses = status == 0;
  store->response_bytes = bytes;
  return status;
}

/* Deletes the tenant's oldest responses, except for the newest of all tenants. *freed:
 * their bytes. */
static int evict(struct lls_store *store, const char *tenant, int64_t *freed,
                 struct lls_error *err)
{
  *freed = 0;
  int status =
      lls_database_run(&store->database, lls_row_add_integer, freed, err,
                       "DELETE FROM responses WHERE seq IN (SELECT seq FROM responses "
                       "WHERE tenant = ? AND seq < (SELECT max(seq) FROM responses) "
                       "ORDER BY seq LIMIT " EVICT_AT_ONCE ") RETURNING bytes",
                       "t", tenant);
  store->response_bytes -= *freed;
  return status;
}

/* Deletes responses until the tenant is within its own limit; 0: it has none. */
static int make_room_of(struct lls_store *store, const char *tenant, int64_t most_bytes,
                        struct lls_error *err)
{
  int64_t bytes = 0, freed = -1;
  if (most_bytes == 0)
    return 0;
  int status =
      lls_database_run(&store->database, lls_row_add_integer, &bytes, err,
                       "SELECT sum(bytes) FROM responses WHERE tenant = ?", "t", tenant);
  for (; status == 0 && bytes > most_bytes && freed != 0; bytes -= freed)
    status = evict(store, tenant, &freed, err);
  return status;
}

static int keep_name(void *context, const struct lls_result_row *row)
{
  snprintf(context, LARGEST_NAME, "%s", lls_row_text(row, 0));
  return 0;
}

/* Deletes responses of the tenant that has most, so that no tenant within a fair share
 * loses responses because of another. */
static int make_room(struct lls_store *store, int64_t most_bytes, struct lls_error *err)
{
  char largest[LARGEST_NAME] = "";
  int64_t freed = -1;
  int status = count_bytes(store, err);
  while (status == 0 && store->response_bytes > most_bytes && freed != 0) {
    status = lls_database_run(&store->database, keep_name, largest, err,
                              "SELECT tenant FROM responses GROUP BY tenant ORDER BY "
                              "sum(bytes) DESC LIMIT 1",
                              "");
    if (status == 0)
      status = evict(store, largest, &freed, err);
  }
  return status;
}

struct head {
  bool found;
  char id[LLS_CONVERSATION_ID];
};

static int keep_head(void *context, const struct lls_result_row *row)
{
  struct head *head = context;
  head->found = true;
  snprintf(head->id, sizeof head->id, "%s", lls_row_text(row, 0));
  return 0;
}

/* Reads the id of the last response of a conversation; "": none yet. The transaction
 * holds the row, so that no other process continues from the same one. */
static int find_head(struct lls_store *store, const struct lls_stored_response *response,
                     char id[LLS_CONVERSATION_ID], struct lls_error *err)
{
  struct head head = {0};
  int status =
      lls_database_run(&store->database, keep_head, &head, err,
                       "UPDATE conversations SET used = unixepoch() WHERE id = ? AND "
                       "tenant = ? RETURNING head",
                       "tt", response->conversation, response->tenant);
  strcpy(id, head.id);
  if (status != 0 || head.found)
    return status;
  return lls_fail(err, -ENOENT, "there is no conversation '%.80s'",
                  response->conversation);
}

/* Makes the response the last one of its conversation. */
static int move_head(struct lls_store *store, const struct lls_stored_response *response,
                     struct lls_error *err)
{
  return lls_database_run(
      &store->database, NULL, NULL, err,
      "UPDATE conversations SET head = ?, used = unixepoch() WHERE id = ? AND tenant = ?",
      "ttt", response->id, response->conversation, response->tenant);
}

static int insert(struct lls_store *store, const struct lls_stored_response *response,
                  int64_t bytes, struct lls_error *err)
{
  char head[LLS_CONVERSATION_ID] = "";
  const char *previous = response->previous;
  int status = count_bytes(store, err);
  if (status == 0 && response->conversation != NULL) {
    status = find_head(store, response, head, err);
    previous = head[0] != '\0' ? head : NULL;
  }
  if (status == 0)
    status = lls_database_run(
        &store->database, NULL, NULL, err,
        "INSERT INTO responses (id, tenant, previous, object, input, bytes, expires, "
        "owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        "tttttiit", response->id, response->tenant, previous, response->object,
        response->input, bytes, (int64_t)time(NULL) + KEPT_S, store->id);
  if (status == 0 && response->conversation != NULL)
    status = move_head(store, response, err);
  return status;
}

int lls_responses_put(struct lls_store *store, const struct lls_stored_response *response,
                      const struct lls_response_room *room, struct lls_error *err)
{
  int64_t bytes = (int64_t)(strlen(response->object) + strlen(response->input));
  int status = lls_database_begin(&store->database, err);
  if (status == 0)
    status = lls_database_end(&store->database, insert(store, response, bytes, err), err);
  if (status != 0)
    return status;
  store->response_bytes += bytes;
  status = make_room_of(store, response->tenant, room->tenant_bytes, NULL);
  if (status == 0)
    status = make_room(store, room->bytes, NULL);
  if (status != 0) /* the response is stored; the next one tries again to make room */
    lls_log(store->log, LLS_LOG_WARNING, "responses", "old ones cannot be taken away");
  return 0;
}

int lls_responses_replace(struct lls_store *store,
                          const struct lls_stored_response *response,
                          struct lls_error *err)
{
  int64_t before = 0, after = 0;
  int status = count_bytes(store, err);
  if (status == 0)
    status = lls_database_run(&store->database, lls_row_add_integer, &before, err,
                              "SELECT bytes FROM responses WHERE id = ? AND tenant = ?",
                              "tt", response->id, response->tenant);
  if (status == 0)
    status = lls_database_run(
        &store->database, lls_row_add_integer, &after, err,
        "UPDATE responses SET object = ?1, bytes = octet_length(input) + "
        "octet_length(?1) WHERE id = ?2 AND tenant = ?3 RETURNING bytes",
        "ttt", response->object, response->id, response->tenant);
  if (status == 0)
    store->response_bytes += after - before;
  return status;
}

/* ---- finding ----------------------------------------------------------------------- */

static json_t *column_json(const struct lls_result_row *row, int column)
{
  const char *text = lls_row_text(row, column);
  return text != NULL ? lls_json_parse_string(text, JSON_ALLOW_NUL, NULL) : NULL;
}

static bool is_unfinished(const json_t *object)
{
  const char *status = json_string_value(json_object_get(object, "status"));
  return status != NULL &&
         (strcmp(status, "queued") == 0 || strcmp(status, "in_progress") == 0);
}

struct found {
  json_t *object;
  bool elsewhere;
};

static int keep_object(void *context, const struct lls_result_row *row)
{
  struct found *found = context;
  found->object = column_json(row, 0);
  found->elsewhere = lls_row_integer(row, 1) != 0;
  return found->object != NULL ? 0 : -ENOMEM;
}

static int none(const char *id, struct lls_error *err)
{
  return lls_fail(err, -ENOENT, "Response with id '%.80s' not found.", id);
}

json_t *lls_responses_find(struct lls_store *store, const char *tenant, const char *id,
                           bool *elsewhere, int *status, struct lls_error *err)
{
  struct found found = {0};
  *status = lls_database_run(
      &store->database, keep_object, &found, err,
      "SELECT object, owner <> ?3 AND EXISTS (SELECT 1 FROM replicas WHERE replicas.id = "
      "responses.owner AND lease > unixepoch()) FROM responses WHERE id = ?1 AND tenant "
      "= ?2 AND expires > unixepoch()",
      "ttt", id, tenant, store->id);
  if (*status == 0 && found.object == NULL)
    *status = none(id, err);
  if (elsewhere != NULL)
    *elsewhere = found.elsewhere && is_unfinished(found.object);
  return found.object;
}

struct chain {
  const char *id;
  bool with_output;
  size_t most_bytes, bytes;
  struct lls_json_cost cost; /* memory cost of the items as JSON trees */
  json_t *items;
  struct lls_error *err;
};

static void append(json_t *items, json_t *more)
{
  json_array_extend(items, more);
  json_decref(more);
}

/* Takes one row of the chain, from the requested response backwards: found, object,
 * input, depth, id. */
static int take_link(void *context, const struct lls_result_row *row)
{
  struct chain *chain = context;
  bool last = lls_row_integer(row, 3) == 0;
  if (!lls_row_integer(row, 0) && last)
    return none(chain->id, chain->err);
  if (!lls_row_integer(row, 0))
    return lls_fail(chain->err, -ENOENT,
                    "'%.80s' continues from '%.80s', which was deleted or has expired: "
                    "send all items as 'input'",
                    chain->id, lls_row_text(row, 4));
  chain->bytes += strlen(lls_row_text(row, 1)) + strlen(lls_row_text(row, 2));
  if (chain->bytes > chain->most_bytes)
    return lls_fail(chain->err, -EFBIG,
                    "the conversation up to '%.80s' is larger than [server] max_body",
                    chain->id);
  for (int i = 1; i <= 2; i++)
    lls_json_count(&chain->cost, lls_row_text(row, i), strlen(lls_row_text(row, i)));
  if (lls_json_is_costly(&chain->cost))
    return lls_fail(
        chain->err, -EFBIG,
        "the conversation up to '%.80s' has too many small values: they would "
        "take %zu MiB of memory",
        chain->id, lls_json_cost_bytes(&chain->cost) >> 20);
  append(chain->items, column_json(row, 2));
  json_t *object = !last || chain->with_output ? column_json(row, 1) : NULL;
  if (is_unfinished(object)) {
    json_decref(object);
    return lls_fail(chain->err, -EBUSY,
                    "the response '%.80s' is not complete: it can be continued once its "
                    "status says so",
                    lls_row_text(row, 4));
  }
  json_array_extend(chain->items, json_object_get(object, "output"));
  json_decref(object);
  return 0;
}

/* Collects the items. Only the requested response must not have expired; those before
 * it may have. */
json_t *lls_responses_items(struct lls_store *store, const char *tenant, const char *id,
                            bool with_output, int *status, struct lls_error *err)
{
  static const char query[] =
      "WITH RECURSIVE chain (id, depth) AS (SELECT ?1, 0 UNION ALL SELECT r.previous, "
      "depth + 1 FROM responses r JOIN chain ON r.id = chain.id WHERE r.previous IS NOT "
      "NULL AND depth < " CHAIN_MOST ") "
      "SELECT r.id IS NOT NULL, r.object, r.input, depth, chain.id FROM chain LEFT JOIN "
      "responses r ON r.id = chain.id AND r.tenant = ?2 AND (depth > 0 OR r.expires > "
      "unixepoch()) ORDER BY depth DESC";
  struct chain chain = {.id = id,
                        .with_output = with_output,
                        .most_bytes = store->max_line,
                        .items = json_array(),
                        .err = err};
  *status =
      lls_database_run(&store->database, take_link, &chain, err, query, "tt", id, tenant);
  if (*status == 0)
    return chain.items;
  json_decref(chain.items);
  return NULL;
}

/* ---- deleting ---------------------------------------------------------------------- */

int lls_responses_delete(struct lls_store *store, const char *tenant, const char *id,
                         struct lls_error *err)
{
  int64_t freed = 0;
  int status = lls_database_run(&store->database, lls_row_add_integer, &freed, err,
                                "DELETE FROM responses WHERE id = ? AND tenant = ? AND "
                                "expires > unixepoch() RETURNING bytes",
                                "tt", id, tenant);
  store->response_bytes -= freed;
  return status == 0 && freed == 0 ? none(id, err) : status;
}

/* Deletes the last expired response of each chain; later sweeps delete the ones before.
 */
int lls_responses_expire(struct lls_store *store, struct lls_error *err)
{
  int64_t freed = 0;
  int status = lls_database_run(&store->database, lls_row_add_integer, &freed, err,
                                "DELETE FROM responses WHERE expires <= unixepoch() AND "
                                "NOT EXISTS (SELECT 1 FROM responses later WHERE "
                                "later.previous = responses.id) RETURNING bytes",
                                "");
  store->response_bytes -= freed;
  return status;
}
