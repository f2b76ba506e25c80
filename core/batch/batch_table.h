/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches as clients see them: a row each, with OpenAI's object as JSON in it. Its counts
 * are columns of their own, which progress.c moves on. Everything is of [store].
 */
#ifndef LLS_BATCH_BATCH_TABLE_H
#define LLS_BATCH_BATCH_TABLE_H

#include <jansson.h>

#include "core/batch/file_table.h"

#define LLS_BATCH_ID_BYTES 60 /* "batch_", a replica's name, "-", and 32 hex digits */
#define LLS_BATCH_ENDPOINT 32

struct lls_batch_request {
  const char *tenant; /* of the key that asks, "" */
  char input[LLS_FILE_ID_BYTES];
  char endpoint[LLS_BATCH_ENDPOINT];
  char window[16]; /* as the client wrote it */
  int64_t window_s;
  json_t *metadata; /* an object, or NULL; borrowed */
};

/* New references, or NULL and why: *status is -ENOENT where there is none of this tenant,
 * -EINVAL where the file's purpose is not batch. */
json_t *lls_batches_create(struct lls_store *store,
                           const struct lls_batch_request *request, int *status,
                           struct lls_error *err);
json_t *lls_batches_find(struct lls_store *store, const char *tenant, const char *id,
                         int *status, struct lls_error *err);
/* Newest first, one more than `limit` where there are more. */
json_t *lls_batches_list(struct lls_store *store, const char *tenant, const char *after,
                         int64_t limit, int *status, struct lls_error *err);
/* Sets the status in the object and the row, and the time of it in the object:
 * "completed" has "completed_at". */
int lls_batches_set_status(struct lls_store *store, int64_t seq, json_t *object,
                           const char *batch_status, struct lls_error *err);

#endif
