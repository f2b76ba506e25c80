/* SPDX-License-Identifier: Apache-2.0 */
/* The store's SQL, which is SQLite's, in PostgreSQL's words. */
#ifndef LLS_BATCH_POSTGRES_SQL_H
#define LLS_BATCH_POSTGRES_SQL_H

#include "core/base/text.h"

/* Appends `sql` with ? and ?3 as $1 and $3, and PostgreSQL's names of types. Texts in
 * quotes stay as they are. */
void lls_postgres_sql(const char *sql, struct lls_text *out);

#endif
