/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a difference stand on a machine that is a little faster or slower than it was
 * measured to be?
 *
 * Near its capacity a server's latency changes five times as much as the time of a step,
 * and so does the distance of policies: at 3 requests/s of SmolLM2 on two cores mlfq is 3
 * % behind fcfs with steps 10 % shorter, and 49 % with steps 2 % longer. The same load
 * served twice there, an idle machine both times, took 2,149 and 2,439 ms, which steps
 * 2.5 % apart make of it; within one round of bench/fidelity/whatif they drifted by 4 %
 * (experiments/results/whatif-2026-11-27.md).
 */
#ifndef LLS_WHATIF_STEADY_H
#define LLS_WHATIF_STEADY_H

#include "tools/whatif/verdict.h"

#define STEADY_PART 0.04 /* of a step's time, either way */

/* Simulates what is told once more with steps that much longer, and shorter, and takes
 * back `told` of each that is not ahead or behind by the margin then too. */
void steady(const struct simulation *, const struct verdict *, struct result *results,
            size_t n);

#endif
