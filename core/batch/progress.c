/* SPDX-License-Identifier: Apache-2.0 */
/* See progress.h. */
#include "core/batch/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json_memory.h"
#include "core/batch/store_internal.h"

/* Answers that make a commit due. A commit flushes two files and the database, some 10
 * ms on a disk, so many answers share one. */
#define COMMIT_ANSWERS 256
#define COMMIT_BYTES   (1 << 20)
#define COMMIT_NS      (250 * LLS_NS_PER_MS)

/* ---- handing out ------------------------------------------------------------------- */

void lls_batch_line_free(struct lls_batch_line *line)
{
  free(line->custom_id);
  lls_text_free(&line->body);
  free(line);
}

int lls_progress_reread(struct lls_active *active, const struct lls_in_hand *in_hand,
                        struct lls_line_reader *reader, struct lls_raw_line *out)
{
  *reader = (struct lls_line_reader){.fd = active->input.fd,
                                     .max_line = active->input.max_line,
                                     .number = in_hand->number,
                                     .offset = in_hand->offset};
  int status = lls_line_reader_next(reader, out);
  return status == 1 ? 0 : status == 0 ? -ENODATA : status;
}

/* Returns NULL if out of memory. */
static struct lls_batch_line *make_line(const struct lls_active *active,
                                        const struct lls_raw_line *raw,
                                        const struct lls_input_line *input)
{
  struct lls_batch_line *line = calloc(1, sizeof *line);
  char *body = lls_json_text(input->body, JSON_COMPACT);
  char *custom_id = strdup(input->custom_id);
  if (line == NULL || body == NULL || custom_id == NULL) {
    free(line);
    free(body);
    free(custom_id);
    return NULL;
  }
  strcpy(line->batch, active->id);
  strcpy(line->tenant, active->tenant);
  strcpy(line->endpoint, active->endpoint);
  line->number = raw->number;
  line->expires_s = active->expires_s;
  line->custom_id = custom_id;
  line->body = (struct lls_text){
      .data = body, .length = strlen(body), .capacity = strlen(body) + 1};
  return line;
}

/* Returns the line in hand to be run. Returns NULL if the line is invalid, which has
 * become its answer, or if out of memory, in which case it stays in hand until the next
 * start. */
static struct lls_batch_line *read_line(struct lls_active *active,
                                        const struct lls_raw_line *raw)
{
  struct lls_input_line input;
  struct lls_line_error why;
  if (lls_input_line_parse(raw->text, raw->length, active->endpoint, NULL, &input,
                           &why) != 0) {
    lls_progress_refuse(active, NULL, why.code, why.message);
    lls_active_release(active, raw->number);
    return NULL;
  }
  struct lls_batch_line *line = make_line(active, raw, &input);
  json_decref(input.object);
  return line;
}

/* Hands out a line in hand again. */
static int take_again(struct lls_active *active, struct lls_in_hand *in_hand,
                      struct lls_batch_line **out)
{
  struct lls_raw_line raw;
  struct lls_line_reader reader;
  uint32_t tries = in_hand->tries;
  in_hand->out = true;
  int status = lls_progress_reread(active, in_hand, &reader, &raw);
  if (status == 0)
    *out = read_line(active, &raw); /* an invalid line is removed from in_hand */
  if (*out != NULL)
    (*out)->tries = tries;
  lls_line_reader_free(&reader);
  return status;
}

/* Takes a line that is due again or was in hand when the previous process ended, else
 * the next line of the input. Returns 0 or a negative errno; *out is NULL if the line
 * is already answered or stays in hand. */
static int take_one(struct lls_active *active, struct lls_batch_line **out)
{
  struct lls_raw_line raw;
  int64_t due = lls_active_due(active);
  *out = NULL;
  if (due >= 0)
    return take_again(active, &active->in_hand[due], out);
  int status = lls_line_reader_next(&active->input, &raw);
  if (status != 1)
    return status == 0 ? -ENODATA : status;
  if (!lls_active_hold(active, &raw))
    return -ENOMEM;
  *out = read_line(active, &raw);
  return 0;
}

/* Returns the next batch in turn that has lines, or NULL. */
static struct lls_active *next_in_turn(struct lls_store *store)
{
  for (uint32_t i = 0; i < store->n_active; i++) {
    struct lls_active *active = store->active[store->turn++ % store->n_active];
    if (active->state == LLS_ACTIVE_IN_PROGRESS && lls_active_has_lines(active))
      return active;
  }
  return NULL;
}

/* Gives up the remaining lines of a batch whose input has changed since it was checked.
 */
static void give_up(struct lls_store *store, struct lls_active *active, int status)
{
  lls_log(store->log, LLS_LOG_ERROR, "batch", "%s: its input cannot be read further: %s",
          active->id, strerror(-status));
  active->total = active->input.number;
  active->n_in_hand = 0;
}

uint32_t lls_progress_take(struct lls_store *store, uint32_t most,
                           struct lls_batch_line **out)
{
  struct lls_active *active;
  struct lls_batch_line **end = out;
  uint32_t n = 0;
  *out = NULL;
  while (n < most && store->blocked_ns == 0 && (active = next_in_turn(store)) != NULL) {
    int status = take_one(active, end);
    if (status < 0)
      give_up(store, active, status);
    else if (*end != NULL) {
      end = &(*end)->next;
      n++;
    }
  }
  if (n < most)
    store->has_lines = false;
  return n;
}

/* ---- answers ----------------------------------------------------------------------- */

static void append(struct lls_active *active, bool failed, const char *json)
{
  struct lls_text *pending = failed ? &active->errors.pending : &active->output.pending;
  lls_text_puts(pending, json);
  lls_text_append(pending, "\n", 1);
  if (active->n_pending++ == 0)
    active->pending_ns = lls_store_now_ns();
}

void lls_progress_put(struct lls_store *store, const char *batch, uint64_t number,
                      bool failed, const char *json)
{
  struct lls_active *active = lls_active_find(store, batch);
  if (active == NULL || !lls_active_release(active, number))
    return;
  append(active, failed, json);
  active->completed += !failed;
  active->failed += failed;
  store->lines_completed += !failed;
  store->lines_failed += failed;
}

void lls_progress_give_back(struct lls_store *store, const char *batch, uint64_t number)
{
  struct lls_active *active = lls_active_find(store, batch);
  struct lls_in_hand *line = active != NULL ? lls_active_line(active, number) : NULL;
  if (line != NULL)
    line->out = false;
}

void lls_progress_put_off(struct lls_store *store, const char *batch, uint64_t number,
                          uint32_t tries, int64_t delay_ns)
{
  struct lls_active *active = lls_active_find(store, batch);
  struct lls_in_hand *line = active != NULL ? lls_active_line(active, number) : NULL;
  if (line == NULL)
    return;
  line->out = false;
  line->tries = tries;
  line->due_ns = lls_store_now_ns() + delay_ns;
}

void lls_progress_refuse(struct lls_active *active, const char *custom_id,
                         const char *code, const char *message)
{
  char id[LLS_BATCH_LINE_ID];
  lls_file_new_id(id, sizeof id, "batch_req_", "");
  json_t *line =
      json_pack("{s:s, s:s?, s:n, s:{s:s, s:s}}", "id", id, "custom_id", custom_id,
                "response", "error", "code", code, "message", message);
  char *text = lls_json_text(line, JSON_COMPACT);
  append(active, true, text != NULL ? text : "{}");
  active->failed++;
  free(text);
  json_decref(line);
}

/* ---- to the disk ------------------------------------------------------------------- */

bool lls_progress_is_due(const struct lls_active *active)
{
  size_t bytes = active->output.pending.length + active->errors.pending.length;
  return active->n_pending >= COMMIT_ANSWERS || bytes >= COMMIT_BYTES ||
         (active->n_pending > 0 && lls_store_now_ns() - active->pending_ns >= COMMIT_NS);
}

static int write_pending(const struct lls_batch_results *file)
{
  const char *at = file->pending.data;
  int64_t offset = file->bytes;
  if (file->pending.length == 0)
    return 0;
  for (size_t left = file->pending.length; left > 0;) {
    ssize_t n = pwrite(file->fd, at, left, offset);
    if (n < 0 && errno != EINTR)
      return -errno;
    n = n > 0 ? n : 0;
    at += n;
    offset += n;
    left -= (size_t)n;
  }
  return fdatasync(file->fd) == 0 ? 0 : -errno;
}

static int write_row(struct lls_store *store, const struct lls_active *active,
                     struct lls_error *err)
{
  int64_t seq = 0;
  int64_t *pairs = malloc((2 * (size_t)active->n_in_hand + 1) * sizeof *pairs);
  if (pairs == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  for (uint32_t i = 0; i < active->n_in_hand; i++) {
    pairs[2 * i] = (int64_t)active->in_hand[i].number;
    pairs[2 * i + 1] = active->in_hand[i].offset;
  }
  int status = lls_database_run(
      &store->database, lls_row_keep_integer, &seq, err,
      "UPDATE batches SET completed = ?, failed = ?, next_line = ?, next_offset = ?, "
      "in_hand = ?, output_bytes = ?, error_bytes = ? WHERE seq = ? AND owner = ? "
      "RETURNING seq",
      "iiiibiiit", (int64_t)active->completed, (int64_t)active->failed,
      (int64_t)active->input.number, active->input.offset, pairs,
      2 * (size_t)active->n_in_hand * sizeof *pairs,
      active->output.bytes + (int64_t)active->output.pending.length,
      active->errors.bytes + (int64_t)active->errors.pending.length, active->seq,
      store->id);
  free(pairs);
  if (status == 0 && seq == 0)
    return lls_fail(err, -ESTALE, "%s is another process's", active->id);
  return status;
}

static void have_written(struct lls_batch_results *file)
{
  file->bytes += (int64_t)file->pending.length;
  lls_text_clear(&file->pending);
}

int lls_progress_commit(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err)
{
  if (active->output.pending.failed || active->errors.pending.failed)
    return lls_fail(err, -ENOMEM, "out of memory");
  int status = write_pending(&active->output);
  if (status == 0)
    status = write_pending(&active->errors);
  if (status < 0)
    return lls_fail(err, status, "the results of %s cannot be written to %s: %s",
                    active->id, store->folder, strerror(-status));
  status = write_row(store, active, err);
  if (status < 0)
    return status;
  have_written(&active->output);
  have_written(&active->errors);
  active->n_pending = 0;
  return 0;
}
