/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of a trial's process; see trial.h. */
#include "core/plugin/loader.h"
#include "core/plugin/trial.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

int lls_trial_main(void)
{
  const struct rlimit no_core = {0, 0};
  struct lls_plugin_module *module;
  struct lls_error ignored;
  char copy[32];
  setrlimit(RLIMIT_CORE, &no_core);
  alarm(LLS_TRIAL_SECONDS);
  snprintf(copy, sizeof copy, "/proc/self/fd/%d", LLS_TRIAL_COPY);
  if (lls_plugin_open(LLS_KIND_ANY, copy, &module, &ignored) == 0)
    lls_plugin_close(module);
  /* the same if dlopen refused it: the server then reports the reason itself */
  _exit(LLS_TRIAL_SURVIVED);
}
