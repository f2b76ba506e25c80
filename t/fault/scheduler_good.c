/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler without a fault, with a parameter of every type. */
#include "t/fault/fixture.h"

struct params {
  bool eager;
  int64_t budget;
  double weight;
  const char *label;
  const char *file;
  int64_t order;
  int64_t delay;
  int64_t memory;
};

static const struct lls_param params[] = {
    LLS_PARAM_BOOL(struct params, eager, "true", "start at once"),
    LLS_PARAM_INT(struct params, budget, "512", 1, 4096, "tokens",
                  "most tokens in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, weight, "0.5", 0, 1, "", "of age against length"),
    LLS_PARAM_STRING(struct params, label, "plain", "for the log"),
    LLS_PARAM_PATH(struct params, file, "", "lengths known before"),
    LLS_PARAM_CHOICE(struct params, order, "arrival", "arrival|length",
                     "what goes first"),
    LLS_PARAM_DURATION(struct params, delay, "10ms", 0, 60e9, "before the first"),
    LLS_PARAM_BYTES(struct params, memory, "auto", 0, 1e12, "for its own tables",
                    .flags = LLS_PARAM_AUTO),
};

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    FIXTURE_SCHEDULER_CALLBACKS,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("good"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
