/* SPDX-License-Identifier: Apache-2.0 */
/* One line on the terminal: how far a run is and how long it still takes. Nothing at all
 * where stderr is no terminal. */
#ifndef LLS_SIM_TOOL_PROGRESS_H
#define LLS_SIM_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct lls_progress {
  bool on;
  int64_t began_ns, shown_ns; /* real time */
};

void lls_progress_begin(struct lls_progress *, bool wanted);
/* Cheap enough for every step: it looks at the clock once in 256 calls, and draws at most
 * ten times a second. */
void lls_progress_show(struct lls_progress *, uint64_t calls, uint32_t done,
                       uint32_t total, double virtual_s);
void lls_progress_end(struct lls_progress *);

#endif
