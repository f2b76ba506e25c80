/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the control groups of this process leave to it: processor time and memory,
 * by version 2 and version 1 alike. A group is held to its own limit and to those of all
 * groups above it, so the least counts. A container sees its own group as the root of
 * what is mounted, under whatever name the host knows it: folders that are not there are
 * passed over.
 */
#ifndef LLS_CPU_CONTROL_GROUP_H
#define LLS_CPU_CONTROL_GROUP_H

#include <stddef.h>

/* Where to look; the kernel's own places but in tests. */
struct lls_control_groups {
  const char *root; /* what is mounted at /sys/fs/cgroup */
  const char *self; /* /proc/self/cgroup */
};
extern const struct lls_control_groups lls_control_groups;

/* How many cores' time it may use in a period; infinity without a limit. A process with
 * more threads that compute is stopped for the rest of each period as soon as they have
 * used it up. */
double lls_control_group_cores(const struct lls_control_groups *);

/* The least limit of memory, and the least that is left below a limit, in bytes; SIZE_MAX
 * without one. */
void lls_control_group_memory(const struct lls_control_groups *, size_t *limit,
                              size_t *left);

#endif
