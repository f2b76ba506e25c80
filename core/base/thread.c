/* SPDX-License-Identifier: Apache-2.0 */
/* See thread.h. */
#include "core/base/thread.h"

#include <llmserve/types.h>

#include <time.h>

bool lls_thread_join(pthread_t thread, int64_t timeout_ns)
{
  struct timespec until;
  if (timeout_ns == LLS_NEVER)
    return pthread_join(thread, NULL) == 0;
  clock_gettime(CLOCK_REALTIME, &until);
  int64_t ns = until.tv_nsec + timeout_ns % LLS_NS_PER_S;
  until.tv_sec += timeout_ns / LLS_NS_PER_S + ns / LLS_NS_PER_S;
  until.tv_nsec = ns % LLS_NS_PER_S;
  return pthread_timedjoin_np(thread, NULL, &until) == 0;
}
