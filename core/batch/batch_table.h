/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches as clients see them: a row for each, with OpenAI's object as JSON. The counts
 * of lines are columns of their own, which progress.c updates. All functions run on
 * [store].
 */
#ifndef LLS_BATCH_BATCH_TABLE_H
#define LLS_BATCH_BATCH_TABLE_H

#include <jansson.h>

#include "core/batch/file_table.h"

#define LLS_BATCH_ID_BYTES 60 /* "batch_", a replica's name, "-", and 32 hex digits */
#define LLS_BATCH_ENDPOINT 32

struct lls_batch_request {
  const char *tenant; /* tenant of the request's key; "" without tenants */
  char input[LLS_FILE_ID_BYTES];
  char endpoint[LLS_BATCH_ENDPOINT];
  char window[16]; /* the completion window in the client's words */
  int64_t window_s;
  json_t *metadata; /* an object, or NULL; borrowed */
};

/* Return new references, or NULL with err and *status: -ENOENT if the tenant has no
 * such batch or file, -EINVAL if the file's purpose is not batch. */
json_t *lls_batches_create(struct lls_store *store,
                           const struct lls_batch_request *request, int *status,
                           struct lls_error *err);
json_t *lls_batches_find(struct lls_store *store, const char *tenant, const char *id,
                         int *status, struct lls_error *err);
/* Lists batches, newest first; returns one more than `limit` if there are more. */
json_t *lls_batches_list(struct lls_store *store, const char *tenant, const char *after,
                         int64_t limit, int *status, struct lls_error *err);
/* Sets the status in the object and the row, and the object's time of that status, such
 * as "completed_at" for "completed". Returns -ESTALE if the batch is another process's,
 * or was cancelled at another one (sharing.h). */
int lls_batches_set_status(struct lls_store *store, int64_t seq, json_t *object,
                           const char *batch_status, struct lls_error *err);
/* Sets the status "cancelling" in the same way, if it still is `before`; else -ESTALE. */
int lls_batches_cancel(struct lls_store *store, json_t *object, const char *before,
                       struct lls_error *err);

#endif
