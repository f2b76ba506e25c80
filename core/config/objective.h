/* SPDX-License-Identifier: Apache-2.0 */
/* The objective that the best candidate is best in: --objective of llmserve-whatif, which
 * says how it follows from the traffic where it is auto, and [server]
 * autopilot_objective. */
#ifndef LLS_CONFIG_OBJECTIVE_H
#define LLS_CONFIG_OBJECTIVE_H

#include <stdbool.h>

#include "core/base/error.h"

struct lls_objective {
  const char *name;
  const char *key; /* in a report of llmserve-sim */
  bool more;       /* is better */
};

/* NULL: there is none of that name. */
const struct lls_objective *lls_objective_find(const char *name);
/* -EINVAL with a sentence: neither auto nor one of them. */
int lls_objective_check(const char *name, struct lls_error *err);

#endif
