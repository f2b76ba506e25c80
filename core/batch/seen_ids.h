/* SPDX-License-Identifier: Apache-2.0 */
/* A set of ids that may be millions: it is a database of its own, which goes to the disk
 * where they are many, and goes away with it. */
#ifndef LLS_BATCH_SEEN_IDS_H
#define LLS_BATCH_SEEN_IDS_H

#include "core/base/error.h"

struct lls_seen_ids;

int lls_seen_ids_create(struct lls_seen_ids **out, struct lls_error *err);
/* 0, -EEXIST: it is in the set already, or another negative errno and why. */
int lls_seen_ids_add(struct lls_seen_ids *seen, const char *id, struct lls_error *err);
/* NULL is fine. */
void lls_seen_ids_free(struct lls_seen_ids *seen);

#endif
