/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far long work is, on stderr: on a terminal a bar that is drawn again ten times a
 * second at most, elsewhere a line every ten seconds, so that short work says nothing.
 * One thread at a time.
 */
#ifndef LLS_BASE_PROGRESS_BAR_H
#define LLS_BASE_PROGRESS_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_progress {
  const char *who; /* in front of a line: the program */
  bool on, terminal;
  int64_t began_ns, shown_ns; /* CLOCK_MONOTONIC */
  /* Takes the lines in stderr's place; NULL, as it is after begin: none does. */
  void (*line)(void *context, const char *text);
  void *context;
};

struct lls_progress_state {
  double share;     /* of the work that is done, from 0 to 1: the time left is by it */
  double n, total;  /* 0: the total is not known */
  const char *unit; /* of n: "requests" */
  const char *more; /* what else there is to say, or NULL */
};

void lls_progress_begin(struct lls_progress *, bool wanted, const char *who);
/* Looks at the clock, and mostly does no more. */
void lls_progress_show(struct lls_progress *, const struct lls_progress_state *);
/* The same of a whole number of things. */
void lls_progress_count(struct lls_progress *, size_t n, size_t total, const char *unit,
                        const char *more);
/* The same for engines' options, with the progress as context; always true, so that
 * loading goes on. */
bool lls_progress_weights(void *progress, size_t done, size_t total);
void lls_progress_end(struct lls_progress *);

#endif
