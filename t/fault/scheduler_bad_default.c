/* SPDX-License-Identifier: Apache-2.0 */
/* A default that its own bounds forbid. */
#include "t/fault/fixture.h"

struct params {
  int64_t budget, window;
};

static const struct lls_param params[] = {
    LLS_PARAM_INT(struct params, budget, "5000", 1, 4096, "tokens",
                  "most tokens in one step"),
};

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("bad_default"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
