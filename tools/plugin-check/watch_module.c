/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the watch for a module by its kind. It depends on the watches of all kinds,
 * which in turn share watch.c. */
#include "tools/plugin-check/watch.h"

void watch_module(struct watched *out, struct watch *watch,
                  const struct lls_plugin_module *real)
{
  *out = (struct watched){.watch = watch, .real = real, .module = *real};
  out->module.descriptor = &out->module.copy;
  switch (real->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    watch_scheduler(out);
    break;
  case LLS_KIND_CACHE:
    watch_cache(out);
    break;
  case LLS_KIND_DRAFTER:
    watch_drafter(out);
    break;
  default:
    watch_predictor(out);
  }
}
