/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See schema.h. The database counts the steps applied to it (user_version). A released
 * step is never edited; a change of the tables is a new step.
 *
 * Invariant: the first step must accept that its tables exist, in databases from before
 * steps were counted.
 */
#include "core/batch/schema.h"

#include <errno.h>
#include <stdio.h>

static const char *const steps[] = {
    "CREATE TABLE IF NOT EXISTS files ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,"
    " tenant TEXT NOT NULL, purpose TEXT NOT NULL, filename TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, created INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS batches ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,"
    " tenant TEXT NOT NULL, status TEXT NOT NULL, object TEXT NOT NULL,"
    " input TEXT NOT NULL, output TEXT NOT NULL, error TEXT NOT NULL,"
    " expires INTEGER NOT NULL,"
    " total INTEGER NOT NULL DEFAULT 0, completed INTEGER NOT NULL DEFAULT 0,"
    " failed INTEGER NOT NULL DEFAULT 0,"
    /* progress: see progress.h */
    " next_line INTEGER NOT NULL DEFAULT 0, next_offset INTEGER NOT NULL DEFAULT 0,"
    " in_hand BLOB, output_bytes INTEGER NOT NULL DEFAULT 0,"
    " error_bytes INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX IF NOT EXISTS batches_by_status ON batches (status);",

    /* Unix time; 0: never */
    "ALTER TABLE files ADD COLUMN expires INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX files_by_expiry ON files (expires) WHERE expires > 0;",

    /* see response_table.h; `previous` may name a deleted one */
    "CREATE TABLE responses ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,"
    " tenant TEXT NOT NULL, previous TEXT, bytes INTEGER NOT NULL,"
    " expires INTEGER NOT NULL, input TEXT NOT NULL, object TEXT NOT NULL);"
    "CREATE INDEX responses_by_expiry ON responses (expires);"
    "CREATE INDEX responses_by_previous ON responses (previous)"
    " WHERE previous IS NOT NULL;",

    /* see conversation_table.h; `head` may name a deleted response */
    "CREATE TABLE conversations ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,"
    " tenant TEXT NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL,"
    " metadata TEXT NOT NULL, head TEXT NOT NULL, removed TEXT NOT NULL);"
    "CREATE INDEX conversations_of_tenants ON conversations (tenant, seq);"
    "CREATE INDEX conversations_by_use ON conversations (used);",
};

#define N_STEPS ((int)(sizeof steps / sizeof steps[0]))

static int keep_version(void *context, sqlite3_stmt *row)
{
  *(int *)context = sqlite3_column_int(row, 0);
  return 0;
}

/* Applies a step and updates the count of steps in one commit. */
static int take_step(struct lls_database *database, const char *step, int version,
                     struct lls_error *err)
{
  char number[48];
  snprintf(number, sizeof number, "PRAGMA user_version = %d; COMMIT;", version);
  if (sqlite3_exec(database->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
      sqlite3_exec(database->db, step, NULL, NULL, NULL) == SQLITE_OK &&
      sqlite3_exec(database->db, number, NULL, NULL, NULL) == SQLITE_OK)
    return 0;
  int status = lls_database_fail(database, err);
  sqlite3_exec(database->db, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

int lls_schema_upgrade(struct lls_database *database, struct lls_error *err)
{
  int version = 0;
  int status =
      lls_database_run(database, keep_version, &version, err, "PRAGMA user_version", "");
  if (status == 0 && version > N_STEPS)
    return lls_fail(err, -ENOTSUP,
                    "its database was written by a newer llmserve (form %d, this one "
                    "knows up to %d): use that, or another folder",
                    version, N_STEPS);
  for (int i = version; i < N_STEPS && status == 0; i++)
    status = take_step(database, steps[i], i + 1, err);
  return status;
}
