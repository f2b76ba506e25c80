/* SPDX-License-Identifier: Apache-2.0 */
/* --replay: another scheduler, or the same, asked what a decision log's was asked. */
#ifndef LLS_SIM_TOOL_REPLAY_H
#define LLS_SIM_TOOL_REPLAY_H

#include <jansson.h>

#include "core/base/error.h"
#include "tools/sim/options.h"

/* Prints where the two part; the same in *out, which is the caller's. */
int lls_sim_replay(const struct lls_sim_tool_options *, json_t **out,
                   struct lls_error *err);

#endif
