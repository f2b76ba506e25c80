/* SPDX-License-Identifier: Apache-2.0 */
/* [engine] instances, roles and gpus: a role and a GPU for each instance. */
#ifndef LLS_CONFIG_INSTANCE_LIST_H
#define LLS_CONFIG_INSTANCE_LIST_H

#include <llmserve/host.h>

#include "core/base/error.h"

#define LLS_MAX_INSTANCES 64

struct lls_engine_config;

struct lls_instances {
  uint32_t n;
  uint32_t role[LLS_MAX_INSTANCES]; /* enum lls_role */
  uint32_t gpu[LLS_MAX_INSTANCES];
};

/* Returns 0, or -EINVAL with err, which names the key. */
int lls_instances_read(const struct lls_engine_config *, struct lls_instances *out,
                       const char **key, struct lls_error *err);
/* "mixed", "prefill", "decode" */
const char *lls_role_name(uint32_t role);

#endif
