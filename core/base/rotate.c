/* SPDX-License-Identifier: Apache-2.0 */
/* See rotate.h. */
#include "core/base/rotate.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static void name_of(const char *path, unsigned number, char name[PATH_MAX])
{
  snprintf(name, PATH_MAX, number > 0 ? "%s.%u" : "%s", path, number);
}

int lls_rotate(const char *path, unsigned kept)
{
  struct stat st;
  char from[PATH_MAX], to[PATH_MAX];
  if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
    return 0;
  for (unsigned i = kept; i > 0; i--) {
    name_of(path, i - 1, from);
    name_of(path, i, to);
    if (rename(from, to) < 0 && errno != ENOENT)
      return -errno;
  }
  return 0;
}
