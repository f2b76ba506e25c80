/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history on disk: one SQLite file, one row an answer. Rows belong to a model and to
 * a space, the encoder that made the vectors; rows of other models and spaces are kept
 * but not read.
 *
 * The file stays whole if the process is killed: SQLite writes ahead to a journal, and
 * committed rows are found at the next open. Only one process at a time may open it: it
 * holds a lock on FILE.lock.
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

/* Returns 0; -EBUSY if another process has the file open; another -errno. Each failure is
 * reported with host->fail. */
int store_open(const struct store_options *, const struct lls_host *, struct store **out);
void store_close(struct store *); /* commits first; NULL is allowed */

/* Calls `row` for the newest `most` rows with an id above `after`, newest first. */
int store_load(struct store *, int64_t after, uint32_t most,
               void (*row)(void *context, int64_t id, uint32_t length,
                           const float *vector),
               void *context);

/* Changes are written by store_commit. *id is the new row's. Return 0, or -EIO after a
 * line in the log. */
int store_add(struct store *, uint32_t length, const float *vector, int64_t *id);
int store_change(struct store *, int64_t id, uint32_t length);
int store_drop_before(struct store *, int64_t id);
int store_commit(struct store *);

#endif
