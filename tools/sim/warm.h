/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First steps on a GPU take tenths of a second: libraries and kernels are loaded, graphs
 * recorded. A server has taken them before it listens, when it finds out how much memory
 * is left for the cache; a load whose cache has a given size would begin with them.
 */
#ifndef LLS_SIM_TOOL_WARM_H
#define LLS_SIM_TOOL_WARM_H

#include "core/engine/engine.h"

/* Runs a prompt that fills a step and as many decodes as a step can have. Nobody has used
 * the pool yet. Does nothing where the engine computes in the caller's thread. */
int lls_warm_up(struct lls_engine *, struct lls_error *err);

#endif
