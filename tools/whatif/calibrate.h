/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A served step takes longer than its time on the device. A profile is measured alone;
 * while serving, the loop, the answers and other work of the cores add to it. This
 * extra time is found from the served traffic: if a token took longer than in the
 * simulation, every simulated step is made longer by the difference. For SmolLM2 on a
 * core of its own it is 1 % of a step; for the demo model, whose steps take 0.4 ms, it
 * is as long as the step (experiments/results/whatif-2026-11-24.md).
 */
#ifndef LLS_WHATIF_CALIBRATE_H
#define LLS_WHATIF_CALIBRATE_H

#include "tools/whatif/measure.h"
#include "tools/whatif/traffic.h"

/* Sets s->beside_ns and s->fitted, and replaces *report, the running policies' report
 * without extra time, by the one with it. Does nothing if the traffic has no times. A
 * failed simulation changes nothing. */
void calibrate(struct simulation *s, const struct traffic *, json_t **report);

#endif
