/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter that would be written outside of its struct. */
#include "t/fault/fixture.h"

struct params {
  int64_t budget, window;
};

static const struct lls_param params[] = {
    {
        .name = "budget",
        .type = LLS_TYPE_INT,
        .offset = sizeof(struct params),
        .default_value = "1",
        .unit = "tokens",
        .sentence = "most tokens in one step",
    },
};

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("bad_offset"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
