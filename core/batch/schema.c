/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See schema.h. The database counts the steps applied to it. A released step is never
 * edited; a change of the tables is a new step. An upgrade is one transaction.
 *
 * Invariant: the first step must accept that its tables exist, in databases from before
 * steps were counted.
 */
#include "core/batch/schema.h"

#include <errno.h>

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

    /* see sharing.h and usage_table.h; `owner` is the id of a process, "": none */
    "ALTER TABLE batches ADD COLUMN owner TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE batches ADD COLUMN model TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE responses ADD COLUMN owner TEXT NOT NULL DEFAULT '';"
    "CREATE INDEX IF NOT EXISTS responses_of_tenants ON responses (tenant, bytes);"
    "CREATE TABLE replicas ("
    " id TEXT PRIMARY KEY, name TEXT NOT NULL, lease INTEGER NOT NULL);"
    "CREATE TABLE usage ("
    " tenant TEXT NOT NULL, replica TEXT NOT NULL, requests INTEGER NOT NULL,"
    " tokens INTEGER NOT NULL, inside INTEGER NOT NULL, at INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, replica));"
    "CREATE TABLE folder (one INTEGER PRIMARY KEY, id TEXT NOT NULL);",
};

#define N_STEPS ((int)(sizeof steps / sizeof steps[0]))

static int take_steps(struct lls_database *database, struct lls_error *err)
{
  int version = 0;
  int status = database->kind->read_steps(database, &version, err);
  if (status == 0 && version > N_STEPS)
    return lls_fail(err, -ENOTSUP,
                    "its database was written by a newer llmserve (form %d, this one "
                    "knows up to %d): use that, or another %s",
                    version, N_STEPS, database->kind->shared ? "database" : "folder");
  for (int i = version; i < N_STEPS && status == 0; i++)
    status = database->kind->script(database, steps[i], err);
  if (status == 0 && version < N_STEPS)
    status = database->kind->write_steps(database, N_STEPS, err);
  return status;
}

int lls_schema_upgrade(struct lls_database *database, struct lls_error *err)
{
  int status = lls_database_begin(database, err);
  if (status == 0)
    status = lls_database_end(database, take_steps(database, err), err);
  return status;
}
