/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The panels of a plot, as gnuplot's commands. Several runs: attainment and latency
 * against the rate, with 95 % intervals if rates are repeated, and the CDFs of all
 * repeats at one rate. A single run: its timeline, some requests' lives and its CDFs.
 */
#ifndef LLS_SWEEP_PLOT_PANELS_H
#define LLS_SWEEP_PLOT_PANELS_H

#include <stdio.h>

#include "tools/sweep/plot_data.h"

#define LLS_PLOT_PATH 4096

struct lls_plot_panels {
  FILE *out; /* gnuplot's input */
  const struct lls_plot_runs *runs;
  /* where each panel is a separate file; NULL: all go to one output */
  const char *folder;
  unsigned n; /* number of panels drawn so far */
};

void lls_plot_draw_panels(struct lls_plot_panels *);

/* The path of the n-th panel, n from 1. */
void lls_plot_panel_path(const struct lls_plot_panels *, unsigned n,
                         char out[LLS_PLOT_PATH]);

/* Writes text between double quotes for gnuplot; the only escape written is \n. */
void lls_plot_quote(FILE *, const char *text);

#endif
