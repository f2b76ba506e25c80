/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the store's database, and the upgrade of older databases. */
#ifndef LLS_BATCH_SCHEMA_H
#define LLS_BATCH_SCHEMA_H

#include "core/batch/database.h"

/* Upgrades the database, before the store's thread starts. Returns 0 or a negative
 * errno. */
int lls_schema_upgrade(struct lls_database *database, struct lls_error *err);

#endif
