/* SPDX-License-Identifier: Apache-2.0 */
/* See installed.h. */
#include "core/base/installed.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Returns the rest of `path` after `folder`, beginning with its slash; NULL if the path
 * is not below the folder. */
static const char *below(const char *path, const char *folder)
{
  size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length : NULL;
}

/* Finds the prefix whose bin has the running program. */
static bool own_prefix(char prefix[PATH_MAX])
{
  ssize_t length = readlink("/proc/self/exe", prefix, PATH_MAX - 1);
  const char *bin = below(LLS_BIN_DIR, LLS_PREFIX);
  if (length < 0 || bin == NULL)
    return false;
  prefix[length] = '\0';
  *strrchr(prefix, '/') = '\0'; /* the path is absolute, so it has a slash */
  size_t folder = strlen(prefix), suffix = strlen(bin);
  if (folder < suffix || strcmp(prefix + folder - suffix, bin) != 0)
    return false;
  prefix[folder - suffix] = '\0';
  return true;
}

struct lls_installed lls_installed(const char *configured)
{
  struct lls_installed out;
  char prefix[PATH_MAX];
  const char *rest = below(configured, LLS_PREFIX);
  if (rest == NULL || !own_prefix(prefix) ||
      snprintf(out.path, sizeof out.path, "%s%s", prefix, rest) >= (int)sizeof out.path ||
      access(out.path, F_OK) != 0)
    snprintf(out.path, sizeof out.path, "%s", configured);
  return out;
}
