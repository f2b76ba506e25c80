/* SPDX-License-Identifier: Apache-2.0 */
/* See ending.h. */
#include "core/batch/ending.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/json_parse.h"
#include "core/batch/progress.h"
#include "core/batch/store_internal.h"

#define LINES_AT_ONCE 1000

int lls_ending_expire(struct lls_store *store, struct lls_active *active,
                      struct lls_error *err)
{
  json_object_set_new(active->object, "expired_at", json_integer((json_int_t)time(NULL)));
  return lls_active_enter(store, active, LLS_ACTIVE_FINALIZING, err);
}

/* ---- cancelling -------------------------------------------------------------------- */

/* Tries once: -ESTALE if the process that runs the batch changed it meanwhile. */
static json_t *try_to_cancel(struct lls_store *store, const char *tenant, const char *id,
                             int *status, struct lls_error *err)
{
  char now[24];
  json_t *object = lls_batches_find(store, tenant, id, status, err);
  if (object == NULL)
    return NULL;
  snprintf(now, sizeof now, "%s", json_string_value(json_object_get(object, "status")));
  if (strcmp(now, "validating") == 0 || strcmp(now, "in_progress") == 0)
    *status = lls_batches_cancel(store, object, now, err);
  else
    *status = lls_fail(err, -EALREADY, "%s is %s: it cannot be cancelled", id, now);
  if (*status == 0) {
    lls_active_cancel(store, id, object);
    return object;
  }
  json_decref(object);
  return NULL;
}

json_t *lls_ending_cancel(struct lls_store *store, const char *tenant, const char *id,
                          int *status, struct lls_error *err)
{
  json_t *object;
  do
    object = try_to_cancel(store, tenant, id, status, err);
  while (*status == -ESTALE); /* its status changes twice at most */
  return object;
}

/* ---- lines that were not run ------------------------------------------------------- */

static void refuse(struct lls_active *active, const struct lls_raw_line *raw)
{
  bool cancelled = active->state == LLS_ACTIVE_CANCELLING;
  json_t *line = lls_json_parse(raw->text, raw->length, JSON_ALLOW_NUL, NULL);
  lls_progress_refuse(
      active, json_string_value(json_object_get(line, "custom_id")),
      cancelled ? "batch_cancelled" : "batch_expired",
      cancelled ? "The batch was cancelled before this request was executed."
                : "This request could not be executed before the completion window "
                  "expired.");
  json_decref(line);
}

static bool is_with_main(const struct lls_active *active)
{
  for (uint32_t i = 0; i < active->n_in_hand; i++)
    if (active->in_hand[i].out)
      return true;
  return false;
}

/* Writes the error answer of one line that was not run. Returns 0 or a negative errno. */
static int refuse_one(struct lls_active *active)
{
  struct lls_raw_line raw;
  if (active->n_in_hand > 0) {
    struct lls_line_reader reader;
    int status = lls_progress_reread(active, &active->in_hand[0], &reader, &raw);
    if (status == 0)
      refuse(active, &raw);
    lls_line_reader_free(&reader);
    active->n_in_hand--;
    active->in_hand[0] = active->in_hand[active->n_in_hand];
    return 0;
  }
  int status = lls_line_reader_next(&active->input, &raw);
  if (status == 1)
    refuse(active, &raw);
  else
    active->total = active->input.number; /* no further line can be read */
  return status < 0 ? status : 0;
}

/* ---- the end ----------------------------------------------------------------------- */

/* Makes a result file visible to the client unless it is empty. */
static int publish(struct lls_store *store, struct lls_active *active,
                   const struct lls_batch_results *result, const char *what,
                   struct lls_error *err)
{
  struct lls_file file = {.purpose = "batch_output",
                          .tenant = active->tenant,
                          .bytes = result->bytes,
                          .created_s = (int64_t)time(NULL)};
  char member[32];
  if (result->bytes == 0)
    return 0;
  strcpy(file.id, result->id);
  snprintf(file.name, sizeof file.name, "%s_%s.jsonl", active->id, what);
  snprintf(member, sizeof member, "%s_file_id", what);
  json_object_set_new(active->object, member, json_string(result->id));
  return lls_files_add(store, &file, err);
}

static const char *final_status(const struct lls_active *active)
{
  if (active->state == LLS_ACTIVE_CANCELLING)
    return "cancelled";
  return json_is_null(json_object_get(active->object, "expired_at")) ? "completed"
                                                                     : "expired";
}

static int change_rows(struct lls_store *store, struct lls_active *active,
                       struct lls_error *err)
{
  int status = lls_database_begin(&store->database, err);
  if (status < 0)
    return status;
  status = publish(store, active, &active->output, "output", err);
  if (status == 0)
    status = publish(store, active, &active->errors, "error", err);
  if (status == 0)
    status = lls_batches_set_status(store, active->seq, active->object,
                                    final_status(active), err);
  return lls_database_end(&store->database, status, err);
}

static void remove_empty(const struct lls_store *store,
                         const struct lls_batch_results *result)
{
  char path[PATH_MAX];
  lls_store_path(store, "files", result->id, path);
  if (result->bytes == 0)
    unlink(path);
}

static int end(struct lls_store *store, struct lls_active *active, struct lls_error *err)
{
  int status = lls_progress_commit(store, active, err);
  if (status == 0)
    status = change_rows(store, active, err);
  if (status < 0)
    return status;
  lls_log(store->log, LLS_LOG_INFO, "batch",
          "%s is %s: %llu of %llu lines answered, %llu with an error", active->id,
          final_status(active), (unsigned long long)(active->completed + active->failed),
          (unsigned long long)active->total, (unsigned long long)active->failed);
  remove_empty(store, &active->output);
  remove_empty(store, &active->errors);
  lls_active_forget(store, active);
  return 0;
}

int lls_ending_step(struct lls_store *store, struct lls_active *active,
                    struct lls_error *err)
{
  if (is_with_main(active))
    return 0;
  if (lls_active_is_answered(active))
    return end(store, active, err);
  for (int i = 0; i < LINES_AT_ONCE && !lls_active_is_answered(active); i++) {
    int status = refuse_one(active);
    if (status < 0)
      return lls_fail(err, status, "the input of %s cannot be read: %s", active->id,
                      strerror(-status));
  }
  int status = lls_progress_commit(store, active, err);
  return status < 0 ? status : 1;
}
