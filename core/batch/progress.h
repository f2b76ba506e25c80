/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of batches on their way: handed out to be run, and their answers written. Answers
 * are kept in memory for a moment and written together: first the files, flushed, then
 * the row that says how much of them counts (active.h). Everything is of [store], but for
 * what says otherwise.
 */
#ifndef LLS_BATCH_PROGRESS_H
#define LLS_BATCH_PROGRESS_H

#include "core/batch/active.h"

#define LLS_BATCH_LINE_ID 48 /* "batch_req_" and 32 hex digits */

/* A line to be run. */
struct lls_batch_line {
  struct lls_batch_line *next;
  char batch[LLS_BATCH_ID_BYTES];
  uint64_t number; /* in the batch */
  char tenant[LLS_STORE_TENANT];
  char endpoint[LLS_BATCH_ENDPOINT];
  int64_t expires_s; /* Unix time */
  uint32_t tries;    /* how often it was run before, since the start of the process */
  char *custom_id;
  struct lls_text body;
};

/* Up to `most` lines, of batches in turn; *out is a list, how many. */
uint32_t lls_progress_take(struct lls_store *store, uint32_t most,
                           struct lls_batch_line **out);
/* [any] */
void lls_batch_line_free(struct lls_batch_line *line);

/* The answer to a line, a line of JSON without its end, which goes to the output or the
 * error file. One that is not in hand is dropped. */
void lls_progress_put(struct lls_store *store, const char *batch, uint64_t number,
                      bool failed, const char *json);

/* The line will not be run: its batch is cancelled, or its time is over. */
void lls_progress_give_back(struct lls_store *store, const char *batch, uint64_t number);

/* The line is to be handed out again, not before delay_ns; others are meanwhile. */
void lls_progress_put_off(struct lls_store *store, const char *batch, uint64_t number,
                          uint32_t tries, int64_t delay_ns);

/* A line that was not run, for the error file. */
void lls_progress_refuse(struct lls_active *active, const char *custom_id,
                         const char *code, const char *message);

/* Reads a line of the input again. 0 or a negative errno. */
int lls_progress_reread(struct lls_active *active, const struct lls_in_hand *in_hand,
                        struct lls_line_reader *reader, struct lls_raw_line *out);

/* True if answers have waited long enough, or are many. */
bool lls_progress_is_due(const struct lls_active *active);

/* Writes what is pending; on failure nothing has changed. */
int lls_progress_commit(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err);

#endif
