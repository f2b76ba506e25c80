/* SPDX-License-Identifier: Apache-2.0 */
/* See seen_ids.h. The database is temporary, so all insertions are one transaction that
 * never commits. */
#include "core/batch/seen_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "core/batch/sqlite.h"

struct lls_seen_ids {
  sqlite3 *db;
  sqlite3_stmt *add;
};

void lls_seen_ids_free(struct lls_seen_ids *seen)
{
  if (seen == NULL)
    return;
  sqlite3_finalize(seen->add);
  sqlite3_close(seen->db);
  free(seen);
}

int lls_seen_ids_create(struct lls_seen_ids **out, struct lls_error *err)
{
  static const char schema[] =
      "CREATE TABLE seen (id TEXT PRIMARY KEY) WITHOUT ROWID; BEGIN;";
  struct lls_seen_ids *seen = calloc(1, sizeof *seen);
  if (seen == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  int status = lls_sqlite_open(&seen->db, "", schema, err);
  if (status == 0 && sqlite3_prepare_v2(seen->db, "INSERT INTO seen VALUES (?)", -1,
                                        &seen->add, NULL) != SQLITE_OK)
    status = lls_sqlite_fail(seen->db, err);
  if (status < 0)
    lls_seen_ids_free(seen);
  else
    *out = seen;
  return status;
}

int lls_seen_ids_add(struct lls_seen_ids *seen, const char *id, struct lls_error *err)
{
  sqlite3_bind_text(seen->add, 1, id, -1, SQLITE_STATIC);
  int code = sqlite3_step(seen->add);
  int status = code == SQLITE_DONE ? 0 : lls_sqlite_fail(seen->db, err);
  sqlite3_reset(seen->add);
  return status;
}
