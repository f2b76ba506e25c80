/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a configuration that was read again with the running one. */
#ifndef LLS_CONFIG_COMPARE_H
#define LLS_CONFIG_COMPARE_H

#include "core/config/config.h"

/* Returns 0 if the configurations differ only in keys that may change while running;
 * else -EPERM, and err names the first other key with both values. */
int lls_config_check_reload(const struct lls_config *running,
                            const struct lls_config *wanted, struct lls_error *err);

/* Does so for [server] and [tls] alone, of a process that only routes. */
int lls_config_check_router(const struct lls_config *running,
                            const struct lls_config *wanted, struct lls_error *err);

enum lls_policy_change {
  LLS_POLICY_SAME,     /* code and parameters */
  LLS_POLICY_RENEWED,  /* the same code takes other parameters while running */
  LLS_POLICY_REPLACED, /* other code, or parameters that it takes only at create */
};

struct lls_config_change {
  LLS_EACH_KIND_OF(enum lls_policy_change);
};

struct lls_config_change lls_config_compare(const struct lls_config *running,
                                            const struct lls_config *wanted);

/* Describes the changes: "scheduler: fcfs 1.0 replaced by sarathi 1.0; ...", or
 * "policies as before". */
void lls_config_describe_change(const struct lls_config *running,
                                const struct lls_config *wanted,
                                const struct lls_config_change *, char *text,
                                size_t size);

#endif
