/* SPDX-License-Identifier: Apache-2.0 */
/* See check.h. */
#include "core/base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const void *lls_this_thread(void)
{
  static _Thread_local const char here;
  return &here;
}

bool lls_is_main_thread(void)
{
  return gettid() == getpid();
}

_Noreturn void lls_check_failed(const char *condition, const char *file, int line)
{
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  abort();
}
