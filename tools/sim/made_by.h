/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of a simulated run in addition to its options: plugins, profiles, the
 * model, and the files that the policies' parameters name. */
#ifndef LLS_SIM_TOOL_MADE_BY_H
#define LLS_SIM_TOOL_MADE_BY_H

#include <jansson.h>

#include "tools/sim/options.h"

/* Adds "plugins" and files to a made_by object (tools/sweep/made_by.h). Returns 0, or
 * -errno with an error if the configuration is wrong or a file cannot be read. */
int lls_sim_made_by(const struct lls_sim_tool_options *, json_t *made_by,
                    struct lls_error *err);

#endif
