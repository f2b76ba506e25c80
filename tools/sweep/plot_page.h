/* SPDX-License-Identifier: Apache-2.0 */
/* Panels and the runs' numbers as one page of HTML, which needs no other file. */
#ifndef LLS_SWEEP_PLOT_PAGE_H
#define LLS_SWEEP_PLOT_PAGE_H

#include "tools/sweep/plot_panels.h"

/* The panels have been drawn in their folder. -EIO with a sentence. */
int lls_plot_page_write(const struct lls_plot_panels *, const char *path,
                        struct lls_error *err);

#endif
