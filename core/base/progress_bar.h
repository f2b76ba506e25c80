/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the progress of long work on stderr: a bar on a terminal, redrawn at most ten
 * times a second; elsewhere a line every ten seconds, so that short work prints nothing.
 * One thread at a time.
 */
#ifndef LLS_BASE_PROGRESS_BAR_H
#define LLS_BASE_PROGRESS_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_progress {
  const char *who; /* prefix of a line */
  bool on, terminal;
  int64_t began_ns, shown_ns; /* CLOCK_MONOTONIC */
  /* Receives the lines instead of stderr. NULL (as after begin): stderr. */
  void (*line)(void *context, const char *text);
  void *context;
};

struct lls_progress_state {
  /* part of the work that is done, 0 to 1; the remaining time is computed from it */
  double share;
  double n, total;  /* total is 0 if unknown */
  const char *unit; /* unit of n, such as "requests" */
  const char *more; /* further text, or NULL */
};

void lls_progress_begin(struct lls_progress *, bool wanted, const char *who);
/* Updates the display if it is due; usually only reads the clock. */
void lls_progress_show(struct lls_progress *, const struct lls_progress_state *);
/* Like lls_progress_show, for a count of n out of total. */
void lls_progress_count(struct lls_progress *, size_t n, size_t total, const char *unit,
                        const char *more);
/* Like lls_progress_show, as a callback in engines' options; `progress` is the struct
 * lls_progress. Always returns true, so that loading continues. */
bool lls_progress_weights(void *progress, size_t done, size_t total);
void lls_progress_end(struct lls_progress *);

/* Returns true if a program may print in colour or bold: the file is a terminal, and
 * the environment's NO_COLOR is unset or empty (https://no-color.org). */
bool lls_terminal_colours(int fd);

#endif
