/* SPDX-License-Identifier: Apache-2.0 */
/* See cores.h. */
#include "core/device/cores.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

const char lls_cores_folder[] = "/sys/devices/system";

/* Reads a list such as "0-15,32-47" from a file; an unreadable one is empty. */
static cpu_set_t read_list(const char *path)
{
  cpu_set_t set;
  int first, last;
  CPU_ZERO(&set);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return set;
  while (fscanf(file, "%d", &first) == 1) {
    int sign = fgetc(file);
    if (sign != '-' || fscanf(file, "%d", &last) != 1)
      last = first;
    else
      sign = fgetc(file);
    for (int cpu = first < 0 ? 0 : first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
      CPU_SET(cpu, &set);
    if (sign != ',')
      break;
  }
  fclose(file);
  return set;
}

/* Sets the node of the n cores. */
static void find_nodes(const char *folder, struct lls_core *cores, size_t n)
{
  char path[PATH_MAX];
  int node;
  snprintf(path, sizeof path, "%s/node", folder);
  DIR *nodes = opendir(path);
  if (nodes == NULL)
    return;
  for (struct dirent *entry; (entry = readdir(nodes)) != NULL;) {
    if (sscanf(entry->d_name, "node%d", &node) != 1)
      continue;
    snprintf(path, sizeof path, "%s/node/node%d/cpulist", folder, node);
    cpu_set_t members = read_list(path);
    for (size_t i = 0; i < n; i++)
      if (CPU_ISSET(cores[i].cpu, &members))
        cores[i].node = node;
  }
  closedir(nodes);
}

/* Sets what `core` shares a physical core with. */
static void find_siblings(const char *folder, const cpu_set_t *allowed,
                          struct lls_core *core)
{
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/thread_siblings_list", folder,
           core->cpu);
  cpu_set_t siblings = read_list(path);
  for (int cpu = core->cpu - 1; cpu >= 0; cpu--) {
    if (!CPU_ISSET(cpu, &siblings))
      continue;
    core->first = cpu;
    core->thread += CPU_ISSET(cpu, allowed) ? 1 : 0;
  }
}

static int compare_places(const struct lls_core *a, const struct lls_core *b)
{
  if (a->node != b->node)
    return a->node < b->node ? -1 : 1;
  if (a->first != b->first)
    return a->first < b->first ? -1 : 1;
  return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
}

static int by_node(const void *a, const void *b)
{
  return compare_places(a, b);
}

static int apart(const void *left, const void *right)
{
  const struct lls_core *a = left, *b = right;
  if (a->thread != b->thread)
    return a->thread < b->thread ? -1 : 1;
  return compare_places(a, b);
}

size_t lls_cores_list(const char *folder, const cpu_set_t *allowed,
                      enum lls_cores_order order, struct lls_core *out)
{
  size_t n = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, allowed))
      continue;
    out[n] = (struct lls_core){.cpu = cpu, .first = cpu};
    find_siblings(folder, allowed, &out[n++]);
  }
  find_nodes(folder, out, n);
  qsort(out, n, sizeof *out, order == LLS_CORES_APART ? apart : by_node);
  return n;
}
