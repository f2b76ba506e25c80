/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of a simulated run beside its options: plugins, profiles, the model, and
 * the files that the policies' parameters name. */
#ifndef LLS_SIM_TOOL_MADE_BY_H
#define LLS_SIM_TOOL_MADE_BY_H

#include <jansson.h>

#include "tools/sim/options.h"

/* Adds "plugins" and files to a made_by (tools/sweep/made_by.h). -errno with a sentence:
 * the configuration is wrong, or a file can't be read. */
int lls_sim_made_by(const struct lls_sim_tool_options *, json_t *made_by,
                    struct lls_error *err);

#endif
