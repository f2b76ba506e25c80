/* SPDX-License-Identifier: Apache-2.0 */
/* See batch_table.h. */
#include "core/batch/batch_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/json_memory.h"
#include "core/base/json_parse.h"
#include "core/batch/store_internal.h"

#define COLUMNS "object, total, completed, failed"

static json_t *row_json(const struct lls_result_row *row)
{
  json_t *object = lls_json_parse_string(lls_row_text(row, 0), JSON_ALLOW_NUL, NULL);
  json_object_set_new(object, "request_counts",
                      json_pack("{s:I, s:I, s:I}", "total",
                                (json_int_t)lls_row_integer(row, 1), "completed",
                                (json_int_t)lls_row_integer(row, 2), "failed",
                                (json_int_t)lls_row_integer(row, 3)));
  return object;
}

static int keep_object(void *context, const struct lls_result_row *row)
{
  json_t **out = context;
  *out = row_json(row);
  return *out != NULL ? 0 : -ENOMEM;
}

json_t *lls_batches_find(struct lls_store *store, const char *tenant, const char *id,
                         int *status, struct lls_error *err)
{
  json_t *object = NULL;
  *status = lls_database_run(
      &store->database, keep_object, &object, err,
      "SELECT " COLUMNS " FROM batches WHERE id = ? AND tenant = ?", "tt", id, tenant);
  if (*status == 0 && object == NULL)
    *status = lls_fail(err, -ENOENT, "there is no batch '%.80s'", id);
  return object;
}

static int list_object(void *context, const struct lls_result_row *row)
{
  return json_array_append_new(context, row_json(row)) == 0 ? 0 : -ENOMEM;
}

json_t *lls_batches_list(struct lls_store *store, const char *tenant, const char *after,
                         int64_t limit, int *status, struct lls_error *err)
{
  json_t *data = json_array();
  *status =
      lls_database_run(&store->database, list_object, data, err,
                       "SELECT " COLUMNS
                       " FROM batches WHERE tenant = ?1 AND (?2 IS NULL OR seq < (SELECT "
                       "seq FROM batches WHERE id = ?2)) ORDER BY seq DESC LIMIT ?3",
                       "tti", tenant, after, limit + 1);
  if (*status == 0)
    return data;
  json_decref(data);
  return NULL;
}

/* ---- making ------------------------------------------------------------------------ */

static json_t *new_object(const struct lls_batch_request *request, const char *id,
                          int64_t now_s)
{
  return json_pack(
      "{s:s, s:s, s:s, s:n, s:s, s:s, s:s, s:n, s:n, s:I, s:n, s:I, s:n, s:n, s:n, s:n, "
      "s:n, s:n, s:O?}",
      "id", id, "object", "batch", "endpoint", request->endpoint, "errors",
      "input_file_id", request->input, "completion_window", request->window, "status",
      "validating", "output_file_id", "error_file_id", "created_at", (json_int_t)now_s,
      "in_progress_at", "expires_at", (json_int_t)(now_s + request->window_s),
      "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at",
      "cancelled_at", "metadata", request->metadata);
}

static int insert(struct lls_store *store, const struct lls_batch_request *request,
                  const char *id, const char *object, int64_t expires_s,
                  struct lls_error *err)
{
  char output[LLS_FILE_ID_BYTES], error[LLS_FILE_ID_BYTES];
  lls_file_new_id(output, sizeof output, "file-", store->replica);
  lls_file_new_id(error, sizeof error, "file-", store->replica);
  return lls_database_run(&store->database, NULL, NULL, err,
                          "INSERT INTO batches (id, tenant, status, object, input, "
                          "output, error, expires, model) VALUES (?, ?, 'validating', "
                          "?, ?, ?, ?, ?, ?)",
                          "ttttttit", id, request->tenant, object, request->input, output,
                          error, expires_s, store->served_model);
}

json_t *lls_batches_create(struct lls_store *store,
                           const struct lls_batch_request *request, int *status,
                           struct lls_error *err)
{
  struct lls_file file;
  char id[LLS_BATCH_ID_BYTES];
  int64_t now_s = (int64_t)time(NULL);
  *status = lls_files_find(store, request->tenant, request->input, &file, err);
  if (*status == 0 && strcmp(file.purpose, "batch") != 0)
    *status = lls_fail(err, -EINVAL, "the purpose of %s is '%s', not 'batch'",
                       request->input, file.purpose);
  if (*status != 0)
    return NULL;
  lls_file_new_id(id, sizeof id, "batch_", store->replica);
  json_t *object = new_object(request, id, now_s);
  char *text = lls_json_text(object, JSON_COMPACT);
  *status = text != NULL
                ? insert(store, request, id, text, now_s + request->window_s, err)
                : lls_fail(err, -ENOMEM, "out of memory");
  free(text);
  json_decref(object);
  store->admitting = true;
  return *status == 0 ? lls_batches_find(store, request->tenant, id, status, err) : NULL;
}

/* ---- changing ---------------------------------------------------------------------- */

/* Sets the status and its time in the object. Returns the object's text, which the caller
 * frees; NULL if out of memory. */
static char *change_object(json_t *object, const char *batch_status,
                           struct lls_error *err)
{
  char when[32];
  uint64_t shortages = lls_json_shortages();
  snprintf(when, sizeof when, "%s_at", batch_status);
  json_object_set_new(object, "status", json_string(batch_status));
  if (json_is_null(json_object_get(object, when)))
    json_object_set_new(object, when, json_integer((json_int_t)time(NULL)));
  char *text =
      lls_json_shortages() == shortages ? lls_json_text(object, JSON_COMPACT) : NULL;
  if (text == NULL)
    lls_fail(err, -ENOMEM, "out of memory");
  return text;
}

static int changed(int status, int64_t seq, struct lls_error *err)
{
  if (status == 0 && seq == 0)
    return lls_fail(err, -ESTALE, "the batch was changed elsewhere");
  return status;
}

int lls_batches_set_status(struct lls_store *store, int64_t seq, json_t *object,
                           const char *batch_status, struct lls_error *err)
{
  int64_t found = 0;
  char *text = change_object(object, batch_status, err);
  if (text == NULL)
    return -ENOMEM;
  int status = lls_database_run(
      &store->database, lls_row_keep_integer, &found, err,
      "UPDATE batches SET status = ?1, object = ?2 WHERE seq = ?3 AND owner = ?4 AND "
      "(status <> 'cancelling' OR ?1 IN ('cancelled', 'failed')) RETURNING seq",
      "ttit", batch_status, text, seq, store->id);
  free(text);
  return changed(status, found, err);
}

int lls_batches_cancel(struct lls_store *store, json_t *object, const char *before,
                       struct lls_error *err)
{
  int64_t found = 0;
  char *text = change_object(object, "cancelling", err);
  if (text == NULL)
    return -ENOMEM;
  int status = lls_database_run(
      &store->database, lls_row_keep_integer, &found, err,
      "UPDATE batches SET status = 'cancelling', object = ? WHERE id = ? AND status = ? "
      "RETURNING seq",
      "ttt", text, json_string_value(json_object_get(object, "id")), before);
  free(text);
  return changed(status, found, err);
}
