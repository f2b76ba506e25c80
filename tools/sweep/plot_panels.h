/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The panels of a plot, as gnuplot's commands. Several runs: attainment and latency
 * against the rate, with 95 % intervals where rates are repeated, and the CDFs of all
 * repeats at one rate. One run: its timeline, some requests' lives and its CDFs.
 */
#ifndef LLS_SWEEP_PLOT_PANELS_H
#define LLS_SWEEP_PLOT_PANELS_H

#include <stdio.h>

#include "tools/sweep/plot_data.h"

#define LLS_PLOT_PATH 4096

struct lls_plot_panels {
  FILE *out; /* of gnuplot */
  const struct lls_plot_runs *runs;
  const char *folder; /* each in a file of its own there; NULL: wherever output goes */
  unsigned n;         /* drawn so far */
};

void lls_plot_draw_panels(struct lls_plot_panels *);

/* Where the n-th is, n from 1. */
void lls_plot_panel_path(const struct lls_plot_panels *, unsigned n,
                         char out[LLS_PLOT_PATH]);

/* Text between double quotes for gnuplot, whose only escape that is written is \n. */
void lls_plot_quote(FILE *, const char *text);

#endif
