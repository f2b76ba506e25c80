/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of a configuration's device: measured by llmserve-profile once, and kept as
 * llmserve/profile-NUMBER.ini in the user's cache folder, or in the service's state
 * folder, where the number is of the machine's name and of the configuration's text.
 * Whoever changes the file measures anew.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/whatif/measure.h"

#define MEASURED_TIME "20s"
#define FNV_BEGIN     UINT64_C(14695981039346656037)
#define FNV_PRIME     UINT64_C(1099511628211)

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * FNV_PRIME;
  return hash;
}

static int hash_file(const char *path, uint64_t *hash, struct lls_error *err)
{
  char buffer[4096];
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return lls_fail(err, -errno,
                    "%s: cannot be read: %s; -c FILE names the configuration that is "
                    "served",
                    path, strerror(errno));
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;)
    *hash = hash_bytes(*hash, buffer, n);
  fclose(file);
  return 0;
}

/* The folder is made; where it can't be, the next one says so. */
static int kept_path(const char *config, char **path, struct lls_error *err)
{
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const char *state = getenv("STATE_DIRECTORY"); /* of systemd */
  if ((cache == NULL || cache[0] == '\0') && state != NULL)
    cache = state;
  char host[256] = "";
  char *folder = NULL;
  uint64_t hash = FNV_BEGIN;
  int rc = hash_file(config, &hash, err);
  if (rc < 0)
    return rc;
  gethostname(host, sizeof host - 1);
  hash = hash_bytes(hash, host, strlen(host));
  bool set = cache != NULL && cache[0] != '\0';
  if (asprintf(&folder, "%s%s",
               set            ? cache
               : home != NULL ? home
                              : "/tmp",
               set ? "" : "/.cache") < 0)
    return lls_fail(err, -ENOMEM, "no memory");
  mkdir(folder, 0777);
  rc = asprintf(path, "%s/llmserve", folder);
  free(folder);
  if (rc < 0)
    return lls_fail(err, -ENOMEM, "no memory");
  mkdir(*path, 0777);
  folder = *path;
  rc = asprintf(path, "%s/profile-%016" PRIx64 ".ini", folder, hash);
  free(folder);
  return rc < 0 ? lls_fail(err, -ENOMEM, "no memory") : 0;
}

static int measure(const struct running *running, const char *path, struct lls_error *err)
{
  const struct child_limits no_limits = {0};
  char *const arguments[] = {
      (char *)"llmserve-profile", (char *)"--config", running->config, (char *)"--time",
      (char *)MEASURED_TIME,      (char *)"--output", (char *)path,    NULL};
  if (!running->idle)
    return lls_fail(err, -EBUSY,
                    "what the device can do is not known yet, and cannot be measured "
                    "while the server has requests: ask again when it is idle, or give "
                    "--profile FILE (llmserve-profile writes one)");
  fprintf(stderr, "llmserve-whatif: measuring the device for %s, once; kept in %s\n",
          MEASURED_TIME, path);
  return child_run(arguments, &no_limits, err);
}

int profile_find(const struct whatif_options *o, const struct running *running,
                 char **path, struct lls_error *err)
{
  const char *given = strcmp(o->profile, "auto") != 0 ? o->profile : running->profile;
  if (given != NULL && given[0] != '\0') {
    *path = strdup(given);
    return *path != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory");
  }
  *path = NULL;
  int rc = kept_path(running->config, path, err);
  if (rc == 0 && access(*path, R_OK) != 0)
    rc = measure(running, *path, err);
  if (rc < 0) {
    free(*path);
    *path = NULL;
  }
  return rc;
}
