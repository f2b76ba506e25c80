/* SPDX-License-Identifier: Apache-2.0 */
/* --replay: runs the same or another scheduler on the requests of a decision log. */
#ifndef LLS_SIM_TOOL_REPLAY_H
#define LLS_SIM_TOOL_REPLAY_H

#include <jansson.h>

#include "core/base/error.h"
#include "tools/sim/options.h"

/* Prints where the two schedulers diverge; *out gets the same as JSON, owned by the
 * caller. */
int lls_sim_replay(const struct lls_sim_tool_options *, json_t **out,
                   struct lls_error *err);

#endif
