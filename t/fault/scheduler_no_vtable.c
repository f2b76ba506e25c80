/* SPDX-License-Identifier: Apache-2.0 */
/* Has nothing to call. */
#include "t/fault/fixture.h"

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("no_vtable"),

};
