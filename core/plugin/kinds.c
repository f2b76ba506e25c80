/* SPDX-License-Identifier: Apache-2.0 */
/* See kinds.h. */
#include "core/plugin/kinds.h"

#include <assert.h>

static_assert(LLS_KINDS == LLS_KIND_PREDICTOR - LLS_KIND_SCHEDULER + 1, "a row for each");

#define COMMON(VTABLE)                                                                   \
  ((struct lls_plugin_common){.destroy = (VTABLE)->destroy,                              \
                              .reconfigure = (VTABLE)->reconfigure,                      \
                              .export_state = (VTABLE)->export_state,                    \
                              .import_state = (VTABLE)->import_state,                    \
                              .stats = (VTABLE)->stats})

struct lls_plugin_common lls_plugin_common(const struct lls_plugin_module *m)
{
  switch (m->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    return COMMON(&m->scheduler);
  case LLS_KIND_CACHE:
    return COMMON(&m->cache);
  default:
    return COMMON(&m->predictor);
  }
}
