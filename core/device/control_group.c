/* SPDX-License-Identifier: Apache-2.0 */
/* See control_group.h. */
#include "core/device/control_group.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct lls_control_groups lls_control_groups = {.root = "/sys/fs/cgroup",
                                                      .self = "/proc/self/cgroup"};

/* ---- the group and those above it ----------------------------------------------- */

/* A walk over the folders from the process's own group up to the root of the mount. */
struct walk {
  char folder[PATH_MAX];
  size_t root; /* length of the root's path */
  bool more;
};

/* Does a list such as "cpu,cpuacct" name the controller? Version 2 has an empty list,
 * for "". */
static bool names(const char *list, size_t length, const char *controller)
{
  size_t wanted = strlen(controller);
  if (wanted == 0)
    return length == 0;
  for (const char *end = list + length; list < end;) {
    size_t n = strcspn(list, ",:");
    if (n == wanted && strncmp(list, controller, n) == 0)
      return true;
    list += n + 1;
  }
  return false;
}

/* Lines of `self` are NUMBER:CONTROLLERS:PATH. */
static struct walk begin(const struct lls_control_groups *g, const char *controller)
{
  struct walk w = {.more = false};
  char line[PATH_MAX] = "";
  FILE *file = fopen(g->self, "re");
  if (file == NULL)
    return w;
  while (!w.more && fgets(line, sizeof line, file) != NULL) {
    const char *list = strchr(line, ':');
    const char *path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL || !names(list + 1, (size_t)(path - list - 1), controller))
      continue;
    int root = snprintf(w.folder, sizeof w.folder, "%s%s%s", g->root,
                        controller[0] != '\0' ? "/" : "", controller);
    int all = snprintf(w.folder + root, sizeof w.folder - (size_t)root, "%.*s",
                       (int)strcspn(path + 1, "\n"), path + 1);
    w.root = (size_t)root;
    w.more = (size_t)(root + all) < sizeof w.folder;
  }
  fclose(file);
  return w;
}

static void go_up(struct walk *w)
{
  char *slash = strrchr(w->folder, '/');
  w->more = slash != NULL && (size_t)(slash - w->folder) >= w->root;
  if (w->more)
    *slash = '\0';
}

/* Reads the numbers of a file in the walk's folder, and returns how many; "max" counts
 * as none. */
static int numbers_in(const struct walk *w, const char *name, double numbers[2])
{
  char path[PATH_MAX + 64], text[64] = "";
  snprintf(path, sizeof path, "%s/%s", w->folder, name);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  bool read = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  return read ? sscanf(text, "%lf %lf", &numbers[0], &numbers[1]) : 0;
}

/* ---- processor time ------------------------------------------------------------- */

double lls_control_group_cores(const struct lls_control_groups *g)
{
  double cores = INFINITY, quota[2], period[2];
  for (struct walk w = begin(g, ""); w.more; go_up(&w))
    if (numbers_in(&w, "cpu.max", quota) == 2 && quota[1] > 0)
      cores = fmin(cores, quota[0] / quota[1]);
  for (struct walk w = begin(g, "cpu"); w.more; go_up(&w))
    if (numbers_in(&w, "cpu.cfs_quota_us", quota) >= 1 && quota[0] > 0 &&
        numbers_in(&w, "cpu.cfs_period_us", period) >= 1 && period[0] > 0)
      cores = fmin(cores, quota[0] / period[0]);
  return cores;
}

/* ---- memory --------------------------------------------------------------------- */

static void look_at_memory(struct walk w, const char *most, const char *now,
                           size_t *limit, size_t *left)
{
  double bytes[2], used[2];
  for (; w.more; go_up(&w)) {
    if (numbers_in(&w, most, bytes) < 1 ||
        !(bytes[0] >= 0 && bytes[0] < (double)INT64_MAX / 2))
      continue; /* version 1 writes nearly 2^63 for no limit */
    size_t here = (size_t)bytes[0],
           taken = numbers_in(&w, now, used) >= 1 ? (size_t)used[0] : 0;
    size_t rest = here > taken ? here - taken : 0;
    *limit = here < *limit ? here : *limit;
    *left = rest < *left ? rest : *left;
  }
}

void lls_control_group_memory(const struct lls_control_groups *g, size_t *limit,
                              size_t *left)
{
  *limit = *left = SIZE_MAX;
  look_at_memory(begin(g, ""), "memory.max", "memory.current", limit, left);
  look_at_memory(begin(g, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes",
                 limit, left);
}
