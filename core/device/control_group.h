/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the limits that the control groups of this process set on processor time and
 * memory, under version 2 and version 1. A group is subject to its own limit and to
 * those of all groups above it, so the least applies. A container sees its own group as
 * the root of the mount, whatever name the host gives it; folders that do not exist are
 * skipped.
 */
#ifndef LLS_DEVICE_CONTROL_GROUP_H
#define LLS_DEVICE_CONTROL_GROUP_H

#include <stddef.h>

/* The paths to read; tests set other ones. */
struct lls_control_groups {
  const char *root; /* the mount point, /sys/fs/cgroup */
  const char *self; /* the file /proc/self/cgroup */
};
extern const struct lls_control_groups lls_control_groups;

/* Returns the processor time that the process may use in a period, in cores; infinity
 * without a limit. A process with more computing threads is stopped for the rest of the
 * period as soon as they have used it up. */
double lls_control_group_cores(const struct lls_control_groups *);

/* The least memory limit, and the least remainder below a limit, in bytes; SIZE_MAX
 * without a limit. */
void lls_control_group_memory(const struct lls_control_groups *, size_t *limit,
                              size_t *left);

#endif
