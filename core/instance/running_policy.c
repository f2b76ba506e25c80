/* SPDX-License-Identifier: Apache-2.0 */
/* Counts answers that break a policy's contract; see running_policy.h. */
#include "core/instance/running_policy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/instance/instance.h"
#include "core/obs/log.h"

/* this many breaches are logged one by one; then only each power of two */
#define ALL_OF 10

void lls_policy_breach(struct lls_policy_host *h, const char *format, ...)
{
  char why[LLS_ERROR_MAX / 2];
  uint64_t n = ++h->breaches;
  va_list args;
  LLS_ON_STEP(h->instance);
  if (n > ALL_OF && (n & (n - 1)) != 0)
    return;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  lls_log(h->instance->log, LLS_LOG_PLUGIN_MISBEHAVING, h->name, "%s (breach %llu)", why,
          (unsigned long long)n);
}

int lls_policy_rc(struct lls_policy_host *host, int rc)
{
  return rc <= 0 ? rc
                 : lls_fail(&host->failure, -EPROTO,
                            "it returned %d, neither 0 nor a negative errno", rc);
}

bool lls_policy_host_is_owned(const struct lls_policy_host *h)
{
  return lls_instance_is_owned(h->instance);
}
