/* SPDX-License-Identifier: Apache-2.0 */
/* See conversation_table.h. A conversation without a change for 30 days is deleted when
 * another one is created, since its responses have expired. */
#include "core/batch/conversation_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "core/base/json_parse.h"
#include "core/batch/file_table.h"
#include "core/batch/store_internal.h"

#define KEPT_MOST "10000" /* conversations of a tenant; the oldest ones are deleted */
#define COLUMNS   "id, created, metadata"

static int none(const struct lls_conversation *of, struct lls_error *err)
{
  return lls_fail(err, -ENOENT, "there is no conversation '%.80s'", of->id);
}

static int keep_object(void *context, const struct lls_result_row *row)
{
  json_t *metadata = lls_json_parse_string(lls_row_text(row, 2), 0, NULL);
  json_t *object = json_pack("{s:s, s:s, s:I, s:o}", "id", lls_row_text(row, 0), "object",
                             "conversation", "created_at",
                             (json_int_t)lls_row_integer(row, 1), "metadata", metadata);
  *(json_t **)context = object;
  return object != NULL ? 0 : -ENOMEM;
}

static json_t *found(const struct lls_conversation *of, json_t *object, int *status,
                     struct lls_error *err)
{
  if (*status == 0 && object == NULL)
    *status = none(of, err);
  return object;
}

/* Deletes old conversations, so that there is room for one more. */
static int make_room(struct lls_store *store, const char *tenant, struct lls_error *err)
{
  int status = lls_database_run(
      &store->database, NULL, NULL, err,
      "DELETE FROM conversations WHERE used < unixepoch() - 30 * 86400", "");
  if (status != 0)
    return status;
  return lls_database_run(
      &store->database, NULL, NULL, err,
      "DELETE FROM conversations WHERE tenant = ?1 AND seq <= (SELECT "
      "seq FROM conversations WHERE tenant = ?1 ORDER BY seq DESC "
      "LIMIT 1 OFFSET " KEPT_MOST " - 1)",
      "t", tenant);
}

json_t *lls_conversation_create(struct lls_store *store, const char *tenant,
                                const char *metadata, int *status, struct lls_error *err)
{
  char id[LLS_CONVERSATION_ID];
  json_t *object = NULL;
  lls_file_new_id(id, sizeof id, "conv_", store->replica);
  *status = make_room(store, tenant, err);
  if (*status == 0)
    *status = lls_database_run(
        &store->database, keep_object, &object, err,
        "INSERT INTO conversations (id, tenant, created, used, metadata, head, removed) "
        "VALUES (?, ?, unixepoch(), unixepoch(), ?, '', '[]') RETURNING " COLUMNS,
        "ttt", id, tenant, metadata);
  return object;
}

json_t *lls_conversation_find(struct lls_store *store, const struct lls_conversation *of,
                              int *status, struct lls_error *err)
{
  json_t *object = NULL;
  *status = lls_database_run(&store->database, keep_object, &object, err,
                             "SELECT " COLUMNS
                             " FROM conversations WHERE id = ? AND tenant = ?",
                             "tt", of->id, of->tenant);
  return found(of, object, status, err);
}

json_t *lls_conversation_update(struct lls_store *store,
                                const struct lls_conversation *of, const char *metadata,
                                int *status, struct lls_error *err)
{
  json_t *object = NULL;
  *status = lls_database_run(&store->database, keep_object, &object, err,
                             "UPDATE conversations SET metadata = ?, used = unixepoch() "
                             "WHERE id = ? AND tenant = ? RETURNING " COLUMNS,
                             "ttt", metadata, of->id, of->tenant);
  return found(of, object, status, err);
}

static int count_row(void *context, const struct lls_result_row *row)
{
  (void)row;
  ++*(int *)context;
  return 0;
}

int lls_conversation_delete(struct lls_store *store, const struct lls_conversation *of,
                            struct lls_error *err)
{
  int n = 0;
  int status = lls_database_run(
      &store->database, count_row, &n, err,
      "DELETE FROM conversations WHERE id = ? AND tenant = ? RETURNING id", "tt", of->id,
      of->tenant);
  return status == 0 && n == 0 ? none(of, err) : status;
}

/* ---- items ------------------------------------------------------------------------- */

struct state {
  bool found;
  char head[LLS_CONVERSATION_ID];
  json_t *removed; /* ids of items */
};

static int keep_state(void *context, const struct lls_result_row *row)
{
  struct state *state = context;
  const char *removed = lls_row_text(row, 1);
  state->found = true;
  snprintf(state->head, sizeof state->head, "%s", lls_row_text(row, 0));
  state->removed = lls_json_parse_string(removed, 0, NULL);
  return state->removed != NULL ? 0 : -ENOMEM;
}

/* hold: no other process changes the conversation before the end of the transaction. */
static int read_state(struct lls_store *store, const struct lls_conversation *of,
                      bool hold, struct state *state, struct lls_error *err)
{
  static const char look[] =
      "SELECT head, removed FROM conversations WHERE id = ? AND tenant = ?";
  static const char take[] = "UPDATE conversations SET used = unixepoch() WHERE id = ? "
                             "AND tenant = ? RETURNING head, removed";
  int status = lls_database_run(&store->database, keep_state, state, err,
                                hold ? take : look, "tt", of->id, of->tenant);
  return status == 0 && !state->found ? none(of, err) : status;
}

static bool has_id(const json_t *ids, const json_t *id)
{
  size_t i;
  const json_t *other;
  json_array_foreach((json_t *)ids, i, other)
  {
    if (json_equal(other, id))
      return true;
  }
  return false;
}

static void leave_out(json_t *items, const json_t *removed)
{
  for (size_t i = json_array_size(items); i > 0; i--)
    if (has_id(removed, json_object_get(json_array_get(items, i - 1), "id")))
      json_array_remove(items, i - 1);
}

json_t *lls_conversation_items(struct lls_store *store, const struct lls_conversation *of,
                               int *status, struct lls_error *err)
{
  struct state state = {0};
  json_t *items = NULL;
  *status = read_state(store, of, false, &state, err);
  if (*status == 0 && state.head[0] == '\0')
    items = json_array();
  else if (*status == 0)
    items = lls_responses_items(store, of->tenant, state.head, true, status, err);
  if (items != NULL)
    leave_out(items, state.removed);
  json_decref(state.removed);
  return items;
}

int lls_conversation_add(struct lls_store *store, const struct lls_conversation *of,
                         const char *items, const struct lls_response_room *room,
                         struct lls_error *err)
{
  char id[LLS_CONVERSATION_ID];
  lls_file_new_id(id, sizeof id, "items_", store->replica);
  const struct lls_stored_response row = {.id = id,
                                          .tenant = of->tenant,
                                          .conversation = of->id,
                                          .object = "{\"output\":[]}",
                                          .input = items};
  return lls_responses_put(store, &row, room, err);
}

static bool has_item(const json_t *items, const char *id)
{
  size_t i;
  const json_t *item;
  json_array_foreach((json_t *)items, i, item)
  {
    const char *found_id = json_string_value(json_object_get(item, "id"));
    if (found_id != NULL && strcmp(found_id, id) == 0)
      return true;
  }
  return false;
}

static int remove_item(struct lls_store *store, const struct lls_conversation *of,
                       const char *item, struct lls_error *err)
{
  struct state state = {0};
  int status = 0;
  json_t *items = lls_conversation_items(store, of, &status, err);
  if (items != NULL && !has_item(items, item))
    status = lls_fail(err, -ENOENT, "the conversation has no item '%.80s'", item);
  json_decref(items);
  if (status == 0)
    status = read_state(store, of, true, &state, err);
  char *text = NULL;
  if (status == 0 && json_array_append_new(state.removed, json_string(item)) == 0)
    text = lls_json_text(state.removed, JSON_COMPACT);
  if (status == 0)
    status = text == NULL ? -ENOMEM
                          : lls_database_run(&store->database, NULL, NULL, err,
                                             "UPDATE conversations SET removed = ? WHERE "
                                             "id = ? AND tenant = ?",
                                             "ttt", text, of->id, of->tenant);
  free(text);
  json_decref(state.removed);
  return status;
}

int lls_conversation_remove(struct lls_store *store, const struct lls_conversation *of,
                            const char *item, struct lls_error *err)
{
  int status = lls_database_begin(&store->database, err);
  if (status == 0)
    status = lls_database_end(&store->database, remove_item(store, of, item, err), err);
  return status;
}
