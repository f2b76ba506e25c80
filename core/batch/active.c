/* SPDX-License-Identifier: Apache-2.0 */
/* Loads batches from their rows into memory, and writes them back; see active.h. */
#include "core/batch/active.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json_parse.h"
#include "core/batch/claim.h"
#include "core/batch/store_internal.h"

static const char *const states[] = {"validating", "in_progress", "finalizing",
                                     "cancelling"};

/* Most lines in hand. Each commit writes 16 bytes for every one. This is far more than
 * main runs at once, because lines that wait for another try count too. */
#define MOST_IN_HAND 4096

/* ---- lines in hand ----------------------------------------------------------------- */

bool lls_active_hold(struct lls_active *active, const struct lls_raw_line *line)
{
  if (active->n_in_hand == active->in_hand_capacity) {
    uint32_t capacity = active->in_hand_capacity > 0 ? active->in_hand_capacity * 2 : 16;
    struct lls_in_hand *more = realloc(active->in_hand, capacity * sizeof *more);
    if (more == NULL)
      return false;
    active->in_hand = more;
    active->in_hand_capacity = capacity;
  }
  active->in_hand[active->n_in_hand++] =
      (struct lls_in_hand){.number = line->number, .offset = line->offset, .out = true};
  return true;
}

struct lls_in_hand *lls_active_line(const struct lls_active *active, uint64_t number)
{
  for (uint32_t i = 0; i < active->n_in_hand; i++)
    if (active->in_hand[i].number == number)
      return &active->in_hand[i];
  return NULL;
}

bool lls_active_release(struct lls_active *active, uint64_t number)
{
  struct lls_in_hand *line = lls_active_line(active, number);
  if (line == NULL)
    return false;
  *line = active->in_hand[--active->n_in_hand];
  return true;
}

int64_t lls_active_due(const struct lls_active *active)
{
  int64_t now_ns = lls_store_now_ns();
  for (uint32_t i = 0; i < active->n_in_hand; i++)
    if (!active->in_hand[i].out && active->in_hand[i].due_ns <= now_ns)
      return i;
  return -1;
}

/* False if so many lines are in hand that no further line of the input may be handed
 * out. */
static bool has_room(const struct lls_active *active)
{
  return active->n_in_hand < MOST_IN_HAND;
}

bool lls_active_has_lines(const struct lls_active *active)
{
  bool next = active->input.number < active->total && has_room(active);
  return next || lls_active_due(active) >= 0;
}

bool lls_active_is_answered(const struct lls_active *active)
{
  return active->n_in_hand == 0 && active->input.number >= active->total;
}

/* ---- from a row -------------------------------------------------------------------- */

#define COLUMNS                                                                          \
  "seq, id, tenant, status, object, input, output, error, expires, total, completed, "   \
  "failed, next_line, next_offset, in_hand, output_bytes, error_bytes, owner"

static void copy(char *out, size_t size, const struct lls_result_row *row, int column)
{
  const char *text = lls_row_text(row, column);
  snprintf(out, size, "%s", text != NULL ? text : "");
}

/* Reads the lines in hand from pairs of a line's number and offset. */
static int read_in_hand(struct lls_active *active, const char *data, size_t bytes)
{
  int64_t pair[2];
  for (; bytes >= sizeof pair; data += sizeof pair, bytes -= sizeof pair) {
    memcpy(pair, data, sizeof pair);
    const struct lls_raw_line line = {.number = (uint64_t)pair[0], .offset = pair[1]};
    if (!lls_active_hold(active, &line))
      return -ENOMEM;
    active->in_hand[active->n_in_hand - 1].out = false;
  }
  return 0;
}

static int read_row(void *context, const struct lls_result_row *row)
{
  struct lls_active *active = context;
  char status[24];
  size_t in_hand_bytes;
  active->seq = lls_row_integer(row, 0);
  copy(active->id, sizeof active->id, row, 1);
  copy(active->tenant, sizeof active->tenant, row, 2);
  copy(status, sizeof status, row, 3);
  active->object = lls_json_parse_string(lls_row_text(row, 4), JSON_ALLOW_NUL, NULL);
  copy(active->output.id, sizeof active->output.id, row, 6);
  copy(active->errors.id, sizeof active->errors.id, row, 7);
  active->expires_s = lls_row_integer(row, 8);
  active->total = (uint64_t)lls_row_integer(row, 9);
  active->completed = (uint64_t)lls_row_integer(row, 10);
  active->failed = (uint64_t)lls_row_integer(row, 11);
  active->input.number = (uint64_t)lls_row_integer(row, 12);
  active->input.offset = lls_row_integer(row, 13);
  active->output.bytes = lls_row_integer(row, 15);
  active->errors.bytes = lls_row_integer(row, 16);
  for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
    if (strcmp(status, states[i]) == 0)
      active->state = (enum lls_active_state)i;
  const char *endpoint = json_string_value(json_object_get(active->object, "endpoint"));
  snprintf(active->endpoint, sizeof active->endpoint, "%s",
           endpoint != NULL ? endpoint : "");
  copy(active->owner, sizeof active->owner, row, 17);
  const void *in_hand = lls_row_blob(row, 14, &in_hand_bytes);
  return read_in_hand(active, in_hand, in_hand_bytes);
}

/* Opens a result file and cuts off bytes after those that count, which a crash has
 * left. */
static int open_result(const struct lls_store *store, struct lls_batch_results *file,
                       struct lls_error *err)
{
  char path[PATH_MAX];
  lls_store_path(store, "files", file->id, path);
  file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file->fd >= 0 && ftruncate(file->fd, file->bytes) == 0)
    return 0;
  return lls_fail(err, -errno, "%s: %s", path, strerror(errno));
}

static int open_files(const struct lls_store *store, struct lls_active *active,
                      struct lls_error *err)
{
  char path[PATH_MAX];
  const char *input = json_string_value(json_object_get(active->object, "input_file_id"));
  lls_store_path(store, "files", input != NULL ? input : "", path);
  active->input.max_line = store->max_line;
  active->input.fd = open(path, O_RDONLY | O_CLOEXEC);
  if (active->input.fd < 0)
    return lls_fail(err, -errno, "the input of %s: %s: %s", active->id, path,
                    strerror(errno));
  int status = open_result(store, &active->output, err);
  return status == 0 ? open_result(store, &active->errors, err) : status;
}

static void close_if_open(int fd)
{
  if (fd >= 0)
    close(fd);
}

void lls_active_end_validation(struct lls_active *active)
{
  lls_seen_ids_free(active->seen);
  lls_line_reader_free(&active->checked);
  json_decref(active->wrong);
  active->seen = NULL;
  active->wrong = NULL;
}

static void free_active(struct lls_active *active)
{
  lls_active_end_validation(active);
  lls_line_reader_free(&active->input);
  lls_text_free(&active->output.pending);
  lls_text_free(&active->errors.pending);
  close_if_open(active->input.fd);
  close_if_open(active->output.fd);
  close_if_open(active->errors.fd);
  json_decref(active->object);
  free(active->in_hand);
  free(active);
}

void lls_active_forget(struct lls_store *store, struct lls_active *active)
{
  for (uint32_t i = 0; i < store->n_active; i++)
    if (store->active[i] == active)
      store->active[i] = store->active[--store->n_active];
  free_active(active);
  store->admitting = true;
}

/* Makes the next batch active that is not yet. Returns 1, 0 if there is none, or a
 * negative errno. */
static int admit_one(struct lls_store *store, int64_t *after, struct lls_error *err)
{
  struct lls_active *active = calloc(1, sizeof *active);
  if (active == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  active->input.fd = active->output.fd = active->errors.fd = -1;
  int status = lls_database_run(
      &store->database, read_row, active, err,
      "SELECT " COLUMNS " FROM batches WHERE status IN ('validating', 'in_progress', "
      "'finalizing', 'cancelling') AND seq > ?2 AND " LLS_BATCH_IS_FREE
      " AND (?1 = '' OR model = ?3) ORDER BY seq LIMIT 1",
      "tit", store->id, *after, store->served_model);
  bool found = status == 0 && active->seq > 0;
  *after = active->seq;
  bool known = found && lls_active_find(store, active->id) != NULL;
  if (found && !known)
    status = lls_claim_batch(store, active, &known, err);
  if (status == 0 && found && !known)
    status = open_files(store, active, err);
  /* the batch's input is gone: fail the batch, so that later ones can proceed */
  if (status == -ENOENT) {
    lls_log(store->log, LLS_LOG_ERROR, "batch", "%s: it has failed", err->text);
    status = lls_batches_set_status(store, active->seq, active->object, "failed", err);
    known = true;
  }
  if (status != 0 || known || !found) {
    free_active(active);
    return status != 0 ? status : found;
  }
  store->active[store->n_active++] = active;
  return 1;
}

int lls_active_admit(struct lls_store *store, struct lls_error *err)
{
  int64_t after = 0;
  int status = 1;
  while (status > 0 && store->n_active < LLS_STORE_ACTIVE)
    status = admit_one(store, &after, err);
  store->admitting = status < 0;
  return status < 0 ? status : 0;
}

/* ---- changes ----------------------------------------------------------------------- */

struct lls_active *lls_active_find(struct lls_store *store, const char *id)
{
  for (uint32_t i = 0; i < store->n_active; i++)
    if (strcmp(store->active[i]->id, id) == 0)
      return store->active[i];
  return NULL;
}

void lls_active_cancel(struct lls_store *store, const char *id, json_t *object)
{
  struct lls_active *active = lls_active_find(store, id);
  if (active == NULL)
    return;
  json_decref(active->object);
  active->object = json_deep_copy(object);
  active->state = LLS_ACTIVE_CANCELLING;
  lls_active_end_validation(active);
}

int lls_active_enter(struct lls_store *store, struct lls_active *active,
                     enum lls_active_state state, struct lls_error *err)
{
  int status =
      lls_batches_set_status(store, active->seq, active->object, states[state], err);
  if (status == 0)
    active->state = state;
  return status;
}
