/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of policies as JSON, for /admin/status and the simulator's report. */
#ifndef LLS_LOOP_POLICY_STATS_JSON_H
#define LLS_LOOP_POLICY_STATS_JSON_H

#include <jansson.h>

#include "core/loop/loop.h"

/* Returns {"scheduler": {"figures": {...}, "events": {...}}, "cache": ..., "predictor":
 * ..., "drafter": ...} of an instance; NULL without memory. */
json_t *lls_policy_stats_json(struct lls_loop *, uint32_t instance);

#endif
