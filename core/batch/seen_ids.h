/* SPDX-License-Identifier: Apache-2.0 */
/* A set of ids that may have millions: a temporary database, which SQLite writes to the
 * disk if it is large and deletes when it is closed. */
#ifndef LLS_BATCH_SEEN_IDS_H
#define LLS_BATCH_SEEN_IDS_H

#include "core/base/error.h"

struct lls_seen_ids;

int lls_seen_ids_create(struct lls_seen_ids **out, struct lls_error *err);
/* Adds an id. Returns 0, -EEXIST if the set has it already, or another negative errno. */
int lls_seen_ids_add(struct lls_seen_ids *seen, const char *id, struct lls_error *err);
/* NULL is fine. */
void lls_seen_ids_free(struct lls_seen_ids *seen);

#endif
