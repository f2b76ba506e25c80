/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs first steps before a measurement. On a GPU they take tenths of a second:
 * libraries and kernels are loaded, graphs recorded. A server runs such steps before it
 * listens, when it measures how much memory is left for the cache; a load with a
 * configured cache size would otherwise begin with them.
 */
#ifndef LLS_SIM_TOOL_WARM_H
#define LLS_SIM_TOOL_WARM_H

#include "core/engine/engine.h"

/* Runs a prompt that fills a step, and as many decodes as a step can have. To be called
 * before the pool is used. Does nothing if the engine computes in the caller's
 * thread. */
int lls_warm_up(struct lls_engine *, struct lls_error *err);

#endif
