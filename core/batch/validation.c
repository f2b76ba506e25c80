/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks some lines at a time, so that other jobs get their turn; memory does not grow
 * with the number of lines.
 */
#include "core/batch/validation.h"

#include <errno.h>
#include <unistd.h>

#include "core/batch/store_internal.h"

#define LINES_AT_ONCE 1000
#define MAX_ERRORS    100 /* errors of a file after which validation stops */

static int begin(struct lls_active *active, struct lls_error *err)
{
  active->checked = (struct lls_line_reader){.fd = active->input.fd,
                                             .max_line = active->input.max_line};
  active->wrong = json_array();
  return lls_seen_ids_create(&active->seen, err);
}

static void add_error(struct lls_active *active, uint64_t line,
                      const struct lls_line_error *error)
{
  json_array_append_new(
      active->wrong, json_pack("{s:s, s:s, s:s?, s:o}", "code", error->code, "message",
                               error->message, "param", error->param, "line",
                               line > 0 ? json_integer((json_int_t)line) : json_null()));
}

static int check(struct lls_store *store, struct lls_active *active,
                 const struct lls_raw_line *raw, struct lls_error *err)
{
  struct lls_input_line line;
  struct lls_line_error error = {.code = "duplicate_custom_id",
                                 .param = "custom_id",
                                 .message = "another line has this 'custom_id' too"};
  if (lls_input_line_parse(raw->text, raw->length, active->endpoint, store->model_name,
                           &line, &error) != 0) {
    add_error(active, raw->number + 1, &error);
    return 0;
  }
  int status = lls_seen_ids_add(active->seen, line.custom_id, err);
  json_decref(line.object);
  if (status == -EEXIST)
    add_error(active, raw->number + 1, &error);
  return status == -EEXIST ? 0 : status;
}

/* ---- the end ----------------------------------------------------------------------- */

static int fail(struct lls_store *store, struct lls_active *active, struct lls_error *err)
{
  json_t *list = json_pack("{s:s, s:O}", "object", "list", "data", active->wrong);
  json_object_set_new(active->object, "errors", list);
  int status = lls_batches_set_status(store, active->seq, active->object, "failed", err);
  if (status < 0)
    return status;
  char path[PATH_MAX];
  lls_store_path(store, "files", active->output.id, path);
  unlink(path);
  lls_store_path(store, "files", active->errors.id, path);
  unlink(path);
  lls_active_forget(store, active);
  return 0;
}

static int finish(struct lls_store *store, struct lls_active *active,
                  struct lls_error *err)
{
  static const struct lls_line_error empty = {.code = "empty_file",
                                              .message = "the file has no lines"};
  uint64_t total = active->checked.number;
  if (total == 0 && json_array_size(active->wrong) == 0)
    add_error(active, 0, &empty);
  if (json_array_size(active->wrong) > 0)
    return fail(store, active, err);
  int status =
      lls_database_run(&store->database, NULL, NULL, err,
                       "UPDATE batches SET total = ? WHERE seq = ? AND owner = ?", "iit",
                       (int64_t)total, active->seq, store->id);
  if (status == 0)
    status = lls_active_enter(store, active, LLS_ACTIVE_IN_PROGRESS, err);
  if (status < 0)
    return status;
  active->total = total;
  lls_active_end_validation(active);
  return 0;
}

int lls_validation_step(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err)
{
  static const struct lls_line_error too_long = {
      .code = "line_too_long",
      .message = "the line is longer than [server] max_body, which a request may have"};
  struct lls_raw_line line;
  int status = active->seen == NULL ? begin(active, err) : 0;
  for (int i = 0; i < LINES_AT_ONCE && status == 0; i++) {
    int more = lls_line_reader_next(&active->checked, &line);
    if (more == -E2BIG)
      add_error(active, active->checked.number + 1, &too_long);
    else if (more < 0)
      return lls_fail(err, more, "the input of %s cannot be read", active->id);
    if (more <= 0 || json_array_size(active->wrong) >= MAX_ERRORS)
      return finish(store, active, err);
    status = check(store, active, &line, err);
  }
  return status;
}
