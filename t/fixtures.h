/* SPDX-License-Identifier: Apache-2.0 */
/* Where the plugins of t/fault are built, for the C tests that load them. */
#ifndef LLS_T_FIXTURES_H
#define LLS_T_FIXTURES_H

#include "t/tap.h"

#include <limits.h>
#include <stdlib.h>

/* The folder; static storage. */
static inline const char *fixture_folder(void)
{
  static char folder[PATH_MAX];
  const char *build = getenv("LLS_BUILDDIR");
  snprintf(folder, sizeof folder, "%s/t/fault/.libs", build != NULL ? build : ".");
  return folder;
}

/* A cmocka group setup: plugins are looked for there. */
static inline int find_fixtures(void **state)
{
  (void)state;
  return setenv("LLS_PLUGIN_PATH", fixture_folder(), 1);
}

#endif
