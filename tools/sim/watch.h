/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's observer: feeds the report with what every step did, and the decision log.
 */
#ifndef LLS_SIM_TOOL_WATCH_H
#define LLS_SIM_TOOL_WATCH_H

#include "core/loop/loop.h"
#include "tools/report/report.h"
#include "tools/sim/decisions.h"

struct lls_watch {
  struct lls_report *report;
  struct lls_decisions decisions;
  uint32_t block_tokens, block_units; /* units: of a block of each group of layers */
  bool measure_plans;
  uint64_t steps, tokens; /* steps and drawn tokens so far */
};

/* recording, comparing: the modes that w->decisions will be opened in. */
struct lls_loop_observer lls_watch_observer(struct lls_watch *, bool recording,
                                            bool comparing);

#endif
