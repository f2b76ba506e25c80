/* SPDX-License-Identifier: Apache-2.0 */
/* A table whose entries are smaller than those of version 1. */
#include "t/fault/fixture.h"

struct params {
  int64_t budget;
};

static const struct lls_param params[] = {
    {
        .name = "budget",
        .type = LLS_TYPE_INT,
        .offset = offsetof(struct params, budget),
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
    FIXTURE_TEXTS("bad_param_size"),
    .params = params,
    .n_params = 1,
    .param_size = sizeof(struct lls_param) - 8,
    .params_size = sizeof(struct params),
    .vtable = &vtable,
};
