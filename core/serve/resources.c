/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration names folders and a profile, and asks for memory: this machine must
 * have them. A start checks this before the model is loaded, and so do --check-config
 * and a reload; see daemon.h.
 */
#include "core/device/host_memory.h"
#include "core/serve/daemon.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/batch/store.h"
#include "core/cost/find.h"

/* Checks the folder above a path. The server makes a missing folder or file itself, but
 * not the folder above it. */
static int check_above(const struct lls_config *c, const char *key, const char *path,
                       struct lls_error *err)
{
  char copy[PATH_MAX];
  struct stat st;
  if (path[0] == '\0' || stat(path, &st) == 0)
    return 0;
  snprintf(copy, sizeof copy, "%s", path);
  const char *above = dirname(copy);
  if (stat(above, &st) == 0 && S_ISDIR(st.st_mode))
    return 0;
  return lls_config_fail(
      c, err, -ENOENT, "server", key,
      "'%s' cannot be made, for there is no folder '%s': make that one "
      "first (of a service, systemd's StateDirectory= does)",
      path, above);
}

/* Checks early that the state folder is free. The store takes the lock only after the
 * model is loaded, which may be a minute later. */
int server_check_state_is_free(const struct lls_config *c, struct lls_error *err)
{
  char lock[PATH_MAX];
  struct stat st;
  int length = snprintf(lock, sizeof lock, "%s/lock", c->server.state);
  if (c->server.state[0] == '\0' || length >= (int)sizeof lock || stat(lock, &st) != 0)
    return 0;
  int fd = lls_file_lock(lock);
  if (fd == -EWOULDBLOCK)
    return lls_config_fail(c, err, -EBUSY, "server", "state", "%s" LLS_STORE_IN_USE,
                           c->server.state);
  if (fd >= 0)
    close(fd);
  return 0;
}

static int check_profile(const struct lls_config *c, struct lls_error *err)
{
  char *path = NULL;
  struct lls_error why = {0};
  int rc =
      c->engine.profile[0] != '\0' ? lls_find_profile(c->engine.profile, &path, &why) : 0;
  free(path);
  return rc < 0 ? lls_config_fail(c, err, rc, "engine", "profile", "%s",
                                  lls_error_text(&why, rc))
                : 0;
}

int server_check_places(const struct lls_config *c, struct lls_error *err)
{
  int rc = check_above(c, "state", c->server.state, err);
  if (rc == 0)
    rc = check_above(c, "decisions", c->server.decisions, err);
  return rc == 0 ? check_profile(c, err) : rc;
}

/* Returns how many caches are surely in this device's memory. Instances in other
 * processes may run on another machine and are not counted. */
static uint64_t caches_on(const struct server *s, const struct lls_config *c,
                          const struct lls_device *device)
{
  const struct lls_engine_config *e = &c->engine;
  uint64_t ranks = e->ranks == LLS_RANKS_THREADS && e->tensor_parallel_size != LLS_NEVER
                       ? (uint64_t)e->tensor_parallel_size
                       : 1;
  if (!device->is_host || s->channel != NULL)
    return 1;
  return s->instances.n > ranks ? s->instances.n : ranks;
}

/* Sets *total to the size of the host's memory as the device reports it. */
static int host_memory(struct lls_device *d, size_t *total)
{
  size_t available;
  return d->ops->host_memory != NULL ? d->ops->host_memory(d, total, &available)
                                     : lls_host_memory_size(total, &available);
}

/* Checks host tiers, for a device with memory of its own or if the cache's size is
 * `auto`. */
static int check_host_memory(const struct lls_config *c, uint64_t n,
                             struct lls_device *device, struct lls_error *err)
{
  size_t total;
  int64_t each = c->cache.pool.host_memory;
  if (each == LLS_NEVER || host_memory(device, &total) < 0 || (uint64_t)each <= total / n)
    return 0;
  return lls_config_fail(
      c, err, -ENOMEM, "cache", "host_memory",
      "%llu host tier%s of %llu MiB %s more than the %zu MiB of memory that there are%s: "
      "set less, or auto, which is what fits",
      (unsigned long long)n, n > 1 ? "s" : "", (unsigned long long)each >> 20,
      n > 1 ? "are" : "is", total >> 20,
      device->is_host ? ", which the weights and caches share" : "");
}

int server_check_memory(const struct server *s, const struct lls_config *c,
                        struct lls_device *device, struct lls_error *err)
{
  size_t total, available;
  uint64_t n = caches_on(s, c, device);
  int64_t each = c->cache.device_memory, host = c->cache.pool.host_memory;
  int rc = check_host_memory(c, n, device, err);
  if (rc < 0 || each == LLS_NEVER || device->ops->memory(device, &total, &available) < 0)
    return rc;
  bool shared = device->is_host && host > 0;
  each += shared ? host : 0;
  if ((uint64_t)each <= total / n)
    return 0;
  return lls_config_fail(
      c, err, -ENOMEM, "cache", "device_memory",
      "%llu cache%s of %llu MiB%s %s more than the %zu MiB of memory that there are, "
      "which the weights share: set less, or omit the key (auto is what fits)",
      (unsigned long long)n, n > 1 ? "s" : "", (unsigned long long)each >> 20,
      shared ? ", with host_memory," : "", n > 1 ? "are" : "is", total >> 20);
}
