/* SPDX-License-Identifier: Apache-2.0 */
/* See find.h. */
#include "core/cost/find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/installed.h"

static struct lls_installed folder(void)
{
  struct lls_installed out;
  const char *path = getenv("LLS_PROFILE_PATH");
  if (path == NULL || path[0] == '\0')
    return lls_installed(LLS_DATA_DIR "/profiles");
  snprintf(out.path, sizeof out.path, "%s", path);
  return out;
}

static int find(const char *name, const char *format, const char *what, const char *in,
                char **path, struct lls_error *err)
{
  char *shipped = NULL;
  const struct lls_installed profiles = folder();
  if (access(name, R_OK) == 0) {
    *path = realpath(name, NULL);
    return *path != NULL ? 0 : lls_fail(err, -errno, "%s: cannot resolve", name);
  }
  if (asprintf(&shipped, format, profiles.path, name) < 0)
    return lls_fail(err, -ENOMEM, "no memory");
  *path = access(shipped, R_OK) == 0 ? realpath(shipped, NULL) : NULL;
  free(shipped);
  if (*path != NULL)
    return 0;
  return lls_fail(
      err, -ENOENT,
      "no %s '%s': neither a path nor a name in %s%s; without an installation "
      "set LLS_PROFILE_PATH to the folder etc/profiles",
      what, name, profiles.path, in);
}

int lls_find_profile(const char *name, char **path, struct lls_error *err)
{
  return find(name, "%s/%s.ini", "profile", "", path, err);
}

int lls_find_model(const char *name, char **path, struct lls_error *err)
{
  return find(name, "%s/models/%s", "model", "/models", path, err);
}
