/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a difference also holds on a machine that is a little faster or slower
 * than measured. Near capacity a server's latency changes five times as much as the
 * time of a step, and so does the difference between policies: at 3 requests/s of
 * SmolLM2 on two cores mlfq is 3 % behind fcfs with steps 10 % shorter, and 49 % with
 * steps 2 % longer. The same load served twice there, on an idle machine both times,
 * took 2,149 and 2,439 ms, which corresponds to steps 2.5 % apart; within one round of
 * bench/fidelity/whatif they drifted by 4 % (experiments/results/whatif-2026-11-27.md).
 */
#ifndef LLS_WHATIF_STEADY_H
#define LLS_WHATIF_STEADY_H

#include "tools/whatif/verdict.h"

#define STEADY_PART 0.04 /* share of a step's time, in both directions */

/* Simulates each result with `told` set again with longer and with shorter steps, and
 * clears `told` unless it leads or trails by the margin in both. */
void steady(const struct simulation *, const struct verdict *, struct result *results,
            size_t n);

#endif
