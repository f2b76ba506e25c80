/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which threads and ranks get the cores of this machine. A machine with two
 * sockets has two NUMA nodes: a core reads its own node's memory at full speed, the other
 * one's at about half. With hyper-threads the kernel's numbers run over both nodes twice
 * (0-15 and 32-47 on one socket, 16-31 and 48-63 on the other), so neither a part of a
 * range of numbers nor the first half of them is a socket or a set of whole cores.
 */
#ifndef LLS_DEVICE_CORES_H
#define LLS_DEVICE_CORES_H

#include <sched.h>
#include <stddef.h>

/* The folder that describes the machine, /sys/devices/system; tests set another one. */
extern const char lls_cores_folder[];

/* A CPU in the kernel's sense: a core, or one of its hyper-threads. */
struct lls_core {
  int cpu;    /* the kernel's number */
  int node;   /* its NUMA node; 0 where the kernel names none */
  int first;  /* the least cpu of the same physical core */
  int thread; /* number of allowed cpus of the same physical core before this one */
};

enum lls_cores_order {
  LLS_CORES_BY_NODE, /* node by node, hyper-threads of a core side by side: to divide */
  LLS_CORES_APART,   /* one cpu of every physical core, node by node, then the others */
};

/* Lists the cpus of `allowed` in `order` in out (CPU_SETSIZE). Returns their number. What
 * `folder` does not describe counts as one node without hyper-threads. */
size_t lls_cores_list(const char *folder, const cpu_set_t *allowed,
                      enum lls_cores_order order, struct lls_core *out);

#endif
