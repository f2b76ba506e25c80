/* SPDX-License-Identifier: Apache-2.0 */
/* The status of an instance, for other threads to read; see step_thread.h. */
#include "core/instance/step_thread.h"

void lls_step_thread_status(struct lls_step_thread *r, struct lls_loop_status *out)
{
  pthread_mutex_lock(&r->status_lock);
  *out = r->status;
  pthread_mutex_unlock(&r->status_lock);
}

void lls_step_thread_policy_stats(struct lls_step_thread *r,
                                  struct lls_loop_policy_stats *out)
{
  pthread_mutex_lock(&r->status_lock);
  *out = r->policy_stats;
  pthread_mutex_unlock(&r->status_lock);
}

bool lls_step_thread_failed(struct lls_step_thread *r, struct lls_error *err)
{
  pthread_mutex_lock(&r->status_lock);
  bool failed = r->failed;
  if (failed && err != NULL)
    *err = r->failure;
  pthread_mutex_unlock(&r->status_lock);
  return failed;
}
