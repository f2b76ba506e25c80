/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of threads that run one function together; the caller is thread 0. They
 * spin for some microseconds between two runs, since a step makes hundreds of runs,
 * then sleep.
 *
 * A run is a barrier: it returns when every thread has returned from the task, and all
 * their writes are then visible to all threads. Runs do not nest.
 */
#ifndef LLS_CPU_THREADS_H
#define LLS_CPU_THREADS_H

#include <stdbool.h>
#include <stddef.h>

struct lls_cpu_threads;

typedef void (*lls_cpu_task)(void *arg, unsigned thread, unsigned n_threads);

/* Returns the number of cores that the calling thread may run on. If the control group
 * grants less processor time: its whole cores divided by `shares`, the number of
 * devices that share them; at least 1. */
unsigned lls_cpu_cores(unsigned shares);

/* n = 0: lls_cpu_cores(1) threads. pin: each on its own core, the caller too. */
int lls_cpu_threads_create(unsigned n, bool pin, struct lls_cpu_threads **out);
void lls_cpu_threads_destroy(struct lls_cpu_threads *);
unsigned lls_cpu_threads_count(const struct lls_cpu_threads *);

/* Calls task(arg, thread, n_threads) once on every thread. Always call it from the same
 * thread. */
void lls_cpu_run(struct lls_cpu_threads *, lls_cpu_task, void *arg);

/*
 * Divides n items for the next run, at most `grain` at a time. In that run each thread
 * takes parts [*begin, *end) until none are left: first of its own share, which is the
 * same in every run (so its memory is near), then of slower threads' shares.
 */
void lls_cpu_divide(struct lls_cpu_threads *, size_t n, size_t grain);
bool lls_cpu_take(struct lls_cpu_threads *, unsigned thread, size_t *begin, size_t *end);

#endif
