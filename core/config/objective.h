/* SPDX-License-Identifier: Apache-2.0 */
/* The objective by which candidates are compared: --objective of llmserve-whatif, whose
 * manual says how `auto` follows from the traffic, and [server] autopilot_objective. */
#ifndef LLS_CONFIG_OBJECTIVE_H
#define LLS_CONFIG_OBJECTIVE_H

#include <stdbool.h>

#include "core/base/error.h"

struct lls_objective {
  const char *name;
  const char *key; /* key in a report of llmserve-sim */
  bool more;       /* a larger value is better */
};

/* Returns the objective of this name, or NULL. */
const struct lls_objective *lls_objective_find(const char *name);
/* Returns 0, or -EINVAL with err if the name is neither auto nor an objective. */
int lls_objective_check(const char *name, struct lls_error *err);

#endif
