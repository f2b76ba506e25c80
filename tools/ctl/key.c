/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/key.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/keys.h"
#include "core/params/params.h"

static int read_first(const char *path, char key[CTL_KEY_BYTES], struct lls_error *err)
{
  struct lls_api_keys *keys;
  int rc = lls_api_keys_load(path, &keys, err);
  if (rc < 0)
    return rc;
  snprintf(key, CTL_KEY_BYTES, "%s", lls_api_keys_first(keys));
  lls_api_keys_free(keys);
  return 0;
}

/* Returns the path of a file that an INI key names, relative to the INI's folder;
 * malloc'ed, or NULL. */
static char *named(const struct lls_ini *ini, const char *name)
{
  const struct lls_ini_entry *entry = lls_ini_find(ini, "server", name);
  char *own = entry != NULL && entry->value[0] != '\0' ? strdup(ini->path) : NULL;
  char *path = own != NULL ? lls_path_join(dirname(own), entry->value) : NULL;
  free(own);
  return path;
}

int ctl_find_key(const char *file, const struct lls_ini *ini, char key[CTL_KEY_BYTES],
                 struct lls_error *err)
{
  struct lls_error ignored = {0};
  const char *given = getenv("LLMSERVE_ADMIN_KEY");
  key[0] = '\0';
  if (file != NULL)
    return read_first(file, key, err);
  if (given != NULL || ini == NULL) {
    snprintf(key, CTL_KEY_BYTES, "%s", given != NULL ? given : "");
    return 0;
  }
  char *path = named(ini, "admin_keys");
  if (path == NULL)
    path = named(ini, "api_keys");
  if (path != NULL)
    (void)read_first(path, key, &ignored);
  free(path);
  return 0;
}
