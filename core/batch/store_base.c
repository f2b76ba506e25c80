/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, the clock, and whether the folder can be written: for all files of the store. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/batch/store_internal.h"

int64_t lls_store_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * LLS_NS_PER_S + now.tv_nsec;
}

void lls_store_path(const struct lls_store *store, const char *kind, const char *name,
                    char path[PATH_MAX])
{
  const char *slash = name[0] != '\0' ? "/" : "";
  if (strcmp(kind, "files") == 0)
    snprintf(path, PATH_MAX, "%s%s%s", store->files, slash, name);
  else
    snprintf(path, PATH_MAX, "%s/%s%s%s", store->folder, kind, slash, name);
}

int lls_store_block(struct lls_store *store, int status, const struct lls_error *why)
{
  if (store->blocked_ns == 0)
    lls_log(store->log, LLS_LOG_ERROR, "batch",
            "%s: batches stand still until it can be written again",
            lls_error_text(why, status));
  store->blocked_ns = lls_store_now_ns();
  store->why = *why;
  store->has_lines = false;
  return status;
}

void lls_store_unblock(struct lls_store *store)
{
  if (store->blocked_ns != 0)
    lls_log(store->log, LLS_LOG_INFO, "batch",
            "%s can be written again: batches continue", store->folder);
  store->blocked_ns = 0;
}
