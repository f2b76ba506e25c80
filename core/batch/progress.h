/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands out lines of batches to be run, and writes their answers. Answers are kept in
 * memory for a moment and written together: first the files, flushed, then the row that
 * says how many of their bytes count (active.h). Functions run on [store] unless marked
 * otherwise.
 */
#ifndef LLS_BATCH_PROGRESS_H
#define LLS_BATCH_PROGRESS_H

#include "core/batch/active.h"

#define LLS_BATCH_LINE_ID 48 /* "batch_req_" and 32 hex digits */

/* A line to be run. */
struct lls_batch_line {
  struct lls_batch_line *next;
  char batch[LLS_BATCH_ID_BYTES];
  uint64_t number; /* number of the line in its batch */
  char tenant[LLS_STORE_TENANT];
  char endpoint[LLS_BATCH_ENDPOINT];
  int64_t expires_s; /* Unix time */
  uint32_t tries;    /* earlier runs since the start of the process */
  char *custom_id;
  struct lls_text body;
};

/* Takes up to `most` lines of batches in turn as the list *out. Returns how many. */
uint32_t lls_progress_take(struct lls_store *store, uint32_t most,
                           struct lls_batch_line **out);
/* [any] */
void lls_batch_line_free(struct lls_batch_line *line);

/* Adds the answer to a line, a line of JSON without its line end, for the output or the
 * error file. Drops it if the line is not in hand. */
void lls_progress_put(struct lls_store *store, const char *batch, uint64_t number,
                      bool failed, const char *json);

/* Notes that main will not run the line, because its batch is cancelled or has expired.
 */
void lls_progress_give_back(struct lls_store *store, const char *batch, uint64_t number);

/* Lets the line be handed out again after delay_ns; other lines are handed out
 * meanwhile. */
void lls_progress_put_off(struct lls_store *store, const char *batch, uint64_t number,
                          uint32_t tries, int64_t delay_ns);

/* Adds the error answer of a line that was not run. */
void lls_progress_refuse(struct lls_active *active, const char *custom_id,
                         const char *code, const char *message);

/* Reads a line in hand from the input again. Returns 0 or a negative errno. */
int lls_progress_reread(struct lls_active *active, const struct lls_in_hand *in_hand,
                        struct lls_line_reader *reader, struct lls_raw_line *out);

/* True if the oldest pending answer has waited long enough, or many are pending. */
bool lls_progress_is_due(const struct lls_active *active);

/* Writes the pending answers; a failure changes nothing. */
int lls_progress_commit(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err);

#endif
