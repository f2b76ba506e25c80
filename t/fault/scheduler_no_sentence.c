/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter nobody can understand. */
#include "t/fault/fixture.h"

struct params {
  int64_t budget, window;
};

static const struct lls_param params[] = {
    LLS_PARAM_INT(struct params, budget, "1", 1, 4096, "tokens", ""),
};

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("no_sentence"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
