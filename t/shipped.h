/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the shipped policies in the build, for tests and benchmarks of "all
 * schedulers": they list no names, so new policies are included. Policies that cannot
 * take part are excluded with a reason, and a reason for a policy that no longer exists
 * is an error.
 */
#ifndef LLS_T_SHIPPED_H
#define LLS_T_SHIPPED_H

#include "core/plugin/loader.h"

#include <stdio.h>
#include <string.h>

#define SHIPPED_MAX 64

struct shipped {
  char names[SHIPPED_MAX][LLS_PLUGIN_ID_MAX];
  uint32_t n;
};

struct left_out {
  const char *name, *why;
};

/* Excludes fixtures, which are in folders below t, and scheduler pipe, whose policy is a
 * program that the simulator starts: t/tools/pipe.t. */
static inline int shipped_add(void *context, const char *name, const char *path)
{
  struct shipped *s = context;
  if (strstr(path, "/t/") == NULL && strcmp(name, "pipe") != 0 && s->n < SHIPPED_MAX)
    snprintf(s->names[s->n++], sizeof *s->names, "%s", name);
  return 0;
}

/* Finds the shipped plugins of a kind, ordered by name; at least one. */
static inline void shipped_find(uint32_t kind, struct shipped *out)
{
  out->n = 0;
  lls_plugin_each(kind, shipped_add, out);
}

static inline bool shipped_has(const struct shipped *s, const char *name)
{
  for (uint32_t i = 0; i < s->n; i++)
    if (strcmp(s->names[i], name) == 0)
      return true;
  return false;
}

/* Finds all but the n excluded ones; false: an excluded one does not exist. */
static inline bool shipped_find_but(uint32_t kind, const struct left_out *but, size_t n,
                                    struct shipped *out)
{
  struct shipped all;
  bool known = true;
  shipped_find(kind, &all);
  out->n = 0;
  for (size_t i = 0; i < n; i++)
    known &= shipped_has(&all, but[i].name);
  for (uint32_t s = 0; s < all.n; s++) {
    bool left_out = false;
    for (size_t i = 0; i < n; i++)
      left_out |= strcmp(all.names[s], but[i].name) == 0;
    if (!left_out)
      memcpy(out->names[out->n++], all.names[s], sizeof *out->names);
  }
  return known;
}

#endif
