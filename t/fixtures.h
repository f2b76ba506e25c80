/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of the plugins built from t/fault, for C tests that load them. */
#ifndef LLS_T_FIXTURES_H
#define LLS_T_FIXTURES_H

#include "t/tap.h"

#include <limits.h>
#include <stdlib.h>

/* Returns the folder, in static storage. */
static inline const char *fixture_folder(void)
{
  static char folder[PATH_MAX];
  const char *build = getenv("LLS_BUILDDIR");
  snprintf(folder, sizeof folder, "%s/t/fault/.libs", build != NULL ? build : ".");
  return folder;
}

/* A cmocka group setup: makes the loader search there. */
static inline int find_fixtures(void **state)
{
  (void)state;
  return setenv("LLS_PLUGIN_PATH", fixture_folder(), 1);
}

#endif
