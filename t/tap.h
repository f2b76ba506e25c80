/* SPDX-License-Identifier: Apache-2.0 */
/* What every cmocka test starts with; output is TAP (see t/prove). */
#ifndef LLS_TAP_H
#define LLS_TAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

/* Path of a file of the source tree, whatever the build directory; static storage. */
static inline const char *source_path(const char *relative)
{
  static char path[4096];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/%s", root != NULL ? root : ".", relative);
  return path;
}

#endif
