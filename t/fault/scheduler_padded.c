/* SPDX-License-Identifier: Apache-2.0 */
/* A good scheduler with empty pages in its code, as Zig's linker leaves between
 * functions. */
#include "t/fault/fixture.h"

__asm__(".pushsection .text\n.balign 4096\n.zero 8192\n.popsection");

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("padded"),
    .vtable = &vtable,
};
