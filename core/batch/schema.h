/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the store's database, and how older ones become today's. */
#ifndef LLS_BATCH_SCHEMA_H
#define LLS_BATCH_SCHEMA_H

#include "core/batch/database.h"

/* Before the thread begins: 0, or a negative errno and why. */
int lls_schema_upgrade(struct lls_database *database, struct lls_error *err);

#endif
