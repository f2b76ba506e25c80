/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps take more than the device does. A profile is measured alone; when requests are
 * served the loop, the answers and whatever else the cores do come on top. It is found
 * from what was served: by as much as a token took longer than it was simulated to, each
 * step is simulated longer. For SmolLM2 on a core of its own that is 1 % of a step, for
 * the demo model, whose steps take 0.4 ms, as much as the step
 * (experiments/results/whatif-2026-11-24.md).
 */
#ifndef LLS_WHATIF_CALIBRATE_H
#define LLS_WHATIF_CALIBRATE_H

#include "tools/whatif/measure.h"
#include "tools/whatif/traffic.h"

/* Sets s->beside_ns, s->fitted and the report of what runs, which *report is without it.
 * Without times in the traffic nothing is done. A simulation that is refused changes
 * nothing. */
void calibrate(struct simulation *s, const struct traffic *, json_t **report);

#endif
