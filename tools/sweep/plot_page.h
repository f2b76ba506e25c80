/* SPDX-License-Identifier: Apache-2.0 */
/* The panels and the runs' numbers as one HTML page that needs no other file. */
#ifndef LLS_SWEEP_PLOT_PAGE_H
#define LLS_SWEEP_PLOT_PAGE_H

#include "tools/sweep/plot_panels.h"

/* Writes the page; the panels must exist in their folder. Returns 0, or -EIO with an
 * error. */
int lls_plot_page_write(const struct lls_plot_panels *, const char *path,
                        struct lls_error *err);

#endif
