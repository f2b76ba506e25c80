/* SPDX-License-Identifier: Apache-2.0 */
/* Joining a thread with a limit, which POSIX threads lack. */
#ifndef LLS_BASE_THREAD_H
#define LLS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* False: it has not ended within timeout_ns, and can be joined again; LLS_NEVER = wait.
 */
bool lls_thread_join(pthread_t, int64_t timeout_ns);

#endif
