/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of threads that run one function together; the caller is thread 0. They
 * spin for some microseconds between two runs, since a step makes hundreds, and sleep
 * when nothing comes.
 *
 * A run is a barrier: it returns when every thread has returned from the task, and what
 * any of them wrote is then seen by all. Runs do not nest.
 */
#ifndef LLS_CPU_THREADS_H
#define LLS_CPU_THREADS_H

#include <stdbool.h>
#include <stddef.h>

struct lls_cpu_threads;

typedef void (*lls_cpu_task)(void *arg, unsigned thread, unsigned n_threads);

/* How many cores the calling thread may run on, or fewer where the control group has not
 * the time of so many: then its whole cores, shared out to `shares` devices like this
 * one, at least one. */
unsigned lls_cpu_cores(unsigned shares);

/* n = 0: lls_cpu_cores(1). pin: one core each, the caller's too. */
int lls_cpu_threads_create(unsigned n, bool pin, struct lls_cpu_threads **out);
void lls_cpu_threads_destroy(struct lls_cpu_threads *);
unsigned lls_cpu_threads_count(const struct lls_cpu_threads *);

/* Calls task(arg, thread, n_threads) once on every thread. Always from the
 * same thread. */
void lls_cpu_run(struct lls_cpu_threads *, lls_cpu_task, void *arg);

/*
 * n items to be shared in the next run, at most `grain` at a time. In it every thread
 * takes parts [*begin, *end) until there are none: first of its own share, which is the
 * same in every run (so that its memory is near), then of what slower threads have left.
 */
void lls_cpu_divide(struct lls_cpu_threads *, size_t n, size_t grain);
bool lls_cpu_take(struct lls_cpu_threads *, unsigned thread, size_t *begin, size_t *end);

#endif
