/* SPDX-License-Identifier: Apache-2.0 */
/* See tool_times.h. */
#include "core/loop/tool_times.h"

#include <stdlib.h>
#include <string.h>

#include <llmserve/types.h>

#include "core/base/hash.h"
#include "core/base/least.h"

struct lls_tool_tenant {
  UT_hash_handle hh;
  uint32_t n; /* tools */
  char name[];
};

struct lls_tool_time {
  UT_hash_handle hh;
  struct lls_tool_tenant *tenant;
  uint64_t n;                   /* times so far */
  int64_t away[LLS_TOOL_TIMES]; /* the last of them, in a ring */
  char name[];
};

/* ---- tenants ---------------------------------------------------------------------- */

static struct lls_tool_tenant *enter_tenant(struct lls_tool_times *t, const char *name,
                                            size_t bytes)
{
  struct lls_tool_tenant *tenant;
  HASH_FIND(hh, t->tenants, name, bytes, tenant);
  if (tenant == NULL) {
    tenant = calloc(1, sizeof *tenant + bytes + 1);
    if (tenant == NULL)
      return NULL;
    memcpy(tenant->name, name, bytes);
    HASH_ADD(hh, t->tenants, name, bytes, tenant);
    if (tenant->hh.tbl == NULL) {
      free(tenant);
      return NULL;
    }
  }
  tenant->n++;
  return tenant;
}

static void leave_tenant(struct lls_tool_times *t, struct lls_tool_tenant *tenant)
{
  if (--tenant->n > 0)
    return;
  HASH_DEL(t->tenants, tenant);
  free(tenant);
}

/* ---- tools ------------------------------------------------------------------------ */

static void free_tool(struct lls_tool_times *t, struct lls_tool_time *tool)
{
  leave_tenant(t, tool->tenant);
  free(tool);
  t->n--;
}

static void drop(struct lls_tool_times *t, struct lls_tool_time *tool)
{
  HASH_DEL(t->all, tool);
  free_tool(t, tool);
}

/* Drops the tool longest not called, of a tenant that has most. */
static void drop_one(struct lls_tool_times *t)
{
  struct lls_tool_time *victim = t->all;
  for (struct lls_tool_time *tool = t->all; tool != NULL; tool = tool->hh.next)
    if (tool->tenant->n > victim->tenant->n)
      victim = tool;
  drop(t, victim);
}

void lls_tool_times_free(struct lls_tool_times *t)
{
  while (t->all != NULL)
    drop(t, t->all);
}

static struct lls_tool_time *find(const struct lls_tool_times *t, const char *name,
                                  size_t bytes)
{
  struct lls_tool_time *tool;
  HASH_FIND(hh, t->all, name, bytes, tool);
  return tool;
}

static struct lls_tool_time *add(struct lls_tool_times *t, const char *name, size_t bytes)
{
  struct lls_tool_time *tool = calloc(1, sizeof *tool + bytes);
  if (tool == NULL)
    return NULL;
  if (t->n == LLS_TOOLS)
    drop_one(t);
  tool->tenant = enter_tenant(t, name, strnlen(name, bytes));
  if (tool->tenant == NULL) {
    free(tool);
    return NULL;
  }
  t->n++;
  memcpy(tool->name, name, bytes);
  HASH_ADD(hh, t->all, name, bytes, tool);
  if (tool->hh.tbl != NULL)
    return tool;
  free_tool(t, tool);
  return NULL;
}

void lls_tool_times_learn(struct lls_tool_times *t, const char *name, size_t bytes,
                          int64_t away_ns)
{
  struct lls_tool_time *tool = find(t, name, bytes);
  if (tool == NULL) {
    tool = add(t, name, bytes);
  } else { /* it moves to the table's end */
    HASH_DEL(t->all, tool);
    HASH_ADD(hh, t->all, name, bytes, tool);
    if (tool->hh.tbl == NULL) {
      free_tool(t, tool);
      return;
    }
  }
  if (tool != NULL)
    tool->away[tool->n++ % LLS_TOOL_TIMES] = away_ns;
}

static int by_time(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

int64_t lls_tool_times_median(const struct lls_tool_times *t, const char *name,
                              size_t bytes)
{
  const struct lls_tool_time *tool = find(t, name, bytes);
  int64_t sorted[LLS_TOOL_TIMES];
  if (tool == NULL)
    return LLS_NEVER;
  size_t n = lls_least_u64(tool->n, LLS_TOOL_TIMES);
  memcpy(sorted, tool->away, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_time);
  return sorted[(n - 1) / 2];
}
