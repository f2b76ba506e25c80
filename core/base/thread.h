/* SPDX-License-Identifier: Apache-2.0 */
/* Joins a thread with a time limit, which POSIX threads lack. */
#ifndef LLS_BASE_THREAD_H
#define LLS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns false if the thread has not ended within timeout_ns; it can be joined again.
 * LLS_NEVER waits without limit. */
bool lls_thread_join(pthread_t, int64_t timeout_ns);

#endif
