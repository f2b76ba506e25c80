/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of the lines at a time, so that other jobs have their turn. The ids that were
 * seen are in a database of their own, which goes to the disk where they are many: memory
 * does not grow with the lines.
 */
#include "core/batch/validation.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/batch/store_internal.h"

#define LINES_AT_ONCE 1000
#define MAX_ERRORS    100 /* then no further line is looked at */

struct lls_validation {
  struct lls_line_reader input;
  struct lls_database seen;
  sqlite3_stmt *add;
  json_t *errors; /* as the batch's "errors" has them */
};

void lls_validation_free(struct lls_validation *validation)
{
  if (validation == NULL)
    return;
  sqlite3_finalize(validation->add);
  lls_database_close(&validation->seen);
  lls_line_reader_free(&validation->input);
  json_decref(validation->errors);
  free(validation);
}

static int begin(struct lls_active *active, struct lls_error *err)
{
  static const char schema[] = "CREATE TABLE seen (id TEXT PRIMARY KEY) WITHOUT ROWID;"
                               "BEGIN;";
  struct lls_validation *v = calloc(1, sizeof *v);
  if (v == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  active->validation = v;
  v->input = (struct lls_line_reader){.fd = active->input.fd,
                                      .max_line = active->input.max_line};
  v->errors = json_array();
  int status = lls_database_open(&v->seen, "", schema, err);
  if (status == 0 && sqlite3_prepare_v2(v->seen.db, "INSERT INTO seen VALUES (?)", -1,
                                        &v->add, NULL) != SQLITE_OK)
    status = lls_database_fail(&v->seen, err);
  if (status < 0) {
    lls_validation_free(v);
    active->validation = NULL;
  }
  return status;
}

static void add_error(struct lls_validation *v, uint64_t line,
                      const struct lls_line_error *error)
{
  json_array_append_new(
      v->errors, json_pack("{s:s, s:s, s:s?, s:o}", "code", error->code, "message",
                           error->message, "param", error->param, "line",
                           line > 0 ? json_integer((json_int_t)line) : json_null()));
}

/* 0, -EEXIST, or why it cannot be said. */
static int note_id(struct lls_validation *v, const char *id, struct lls_error *err)
{
  sqlite3_bind_text(v->add, 1, id, -1, SQLITE_STATIC);
  int code = sqlite3_step(v->add);
  int status = code == SQLITE_DONE ? 0 : lls_database_fail(&v->seen, err);
  sqlite3_reset(v->add);
  return status;
}

static int check(struct lls_store *store, struct lls_active *active,
                 const struct lls_raw_line *raw, struct lls_error *err)
{
  struct lls_validation *v = active->validation;
  struct lls_input_line line;
  struct lls_line_error error = {.code = "duplicate_custom_id",
                                 .param = "custom_id",
                                 .message = "another line has this 'custom_id' too"};
  if (lls_input_line_parse(raw->text, raw->length, active->endpoint, store->model_name,
                           &line, &error) != 0) {
    add_error(v, raw->number + 1, &error);
    return 0;
  }
  int status = note_id(v, line.custom_id, err);
  json_decref(line.object);
  if (status == -EEXIST)
    add_error(v, raw->number + 1, &error);
  return status == -EEXIST ? 0 : status;
}

/* ---- the end ------------------------------------------------------------------------ */

static int fail(struct lls_store *store, struct lls_active *active, struct lls_error *err)
{
  json_t *list = json_pack("{s:s, s:O}", "object", "list", "data",
                           active->validation->errors);
  json_object_set_new(active->object, "errors", list);
  int status =
      lls_batches_set_status(store, active->seq, active->object, "failed", err);
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
  struct lls_validation *v = active->validation;
  uint64_t total = v->input.number;
  if (total == 0 && json_array_size(v->errors) == 0)
    add_error(v, 0, &empty);
  if (json_array_size(v->errors) > 0)
    return fail(store, active, err);
  int status = lls_database_run(&store->database, NULL, NULL, err,
                                "UPDATE batches SET total = ? WHERE seq = ?", "ii",
                                (int64_t)total, active->seq);
  if (status == 0)
    status = lls_active_enter(store, active, LLS_ACTIVE_IN_PROGRESS, err);
  if (status < 0)
    return status;
  active->total = total;
  lls_validation_free(v);
  active->validation = NULL;
  return 0;
}

int lls_validation_step(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err)
{
  static const struct lls_line_error too_long = {
      .code = "line_too_long",
      .message = "the line is longer than [server] max_body, which a request may have"};
  struct lls_raw_line line;
  int status = active->validation == NULL ? begin(active, err) : 0;
  for (int i = 0; i < LINES_AT_ONCE && status == 0; i++) {
    struct lls_validation *v = active->validation;
    int more = lls_line_reader_next(&v->input, &line);
    if (more == -E2BIG)
      add_error(v, v->input.number + 1, &too_long);
    else if (more < 0)
      return lls_fail(err, more, "the input of %s cannot be read", active->id);
    if (more <= 0 || json_array_size(v->errors) >= MAX_ERRORS)
      return finish(store, active, err);
    status = check(store, active, &line, err);
  }
  return status;
}
