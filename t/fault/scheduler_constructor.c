/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the process while it is loaded: as code does that a linker has not written yet. */
#include "t/fault/fixture.h"

#include <signal.h>
#include <stdlib.h>

__attribute__((constructor)) static void end_process(void)
{
  CONSTRUCTOR;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("constructor"),
    .vtable = &vtable,
};
