/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history on disk: one SQLite file, one row an answer. Rows belong to a model and to
 * a space, the encoder that made the vectors; those of others stay and are not seen.
 *
 * Killed at any moment the file is whole: SQLite writes ahead to a journal, and what was
 * committed is there again at the next open. One process at a time writes: a lock on
 * FILE.lock, beside the file.
 */
#ifndef LLS_RETRIEVAL_STORE_H
#define LLS_RETRIEVAL_STORE_H

#include <llmserve/host.h>

struct store;

struct store_options {
  const char *path, *model;
  uint64_t space;
  uint32_t dims;
};

/* -EBUSY: another process has it; all failures with a sentence. */
int store_open(const struct store_options *, const struct lls_host *, struct store **out);
void store_close(struct store *); /* commits; NULL is fine */

/* Gives rows newer than `after` to `row`, the newest `most` of them, newest first. */
int store_load(struct store *, int64_t after, uint32_t most,
               void (*row)(void *context, int64_t id, uint32_t length,
                           const float *vector),
               void *context);

/* Changes wait for store_commit. *id: of the new row. 0 or -EIO, with a line in
 * the log. */
int store_add(struct store *, uint32_t length, const float *vector, int64_t *id);
int store_change(struct store *, int64_t id, uint32_t length);
int store_drop_before(struct store *, int64_t id);
int store_commit(struct store *);

#endif
