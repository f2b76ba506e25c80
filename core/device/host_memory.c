/* SPDX-License-Identifier: Apache-2.0 */
/* The host's memory, as the kernel and the control groups have it; see host_memory.h. */
#include "core/device/host_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/control_group.h"

/* Returns the number that follows `key` at the start of a line of /proc/meminfo and the
 * like; 0: there is none. */
static size_t number_in(const char *path, const char *key)
{
  char line[256];
  size_t value = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  while (value == 0 && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0)
      value = strtoull(line + strlen(key), NULL, 10);
  }
  fclose(file);
  return value;
}

int lls_host_memory_size(size_t *total, size_t *available)
{
  size_t limit, left;
  *total = number_in("/proc/meminfo", "MemTotal:") * 1024;
  *available = number_in("/proc/meminfo", "MemAvailable:") * 1024;
  if (*total == 0)
    return -ENOTSUP;
  lls_control_group_memory(&lls_control_groups, &limit, &left);
  *total = limit < *total ? limit : *total;
  *available = left < *available ? left : *available;
  return 0;
}
