/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question: reads the traffic and the running policies, simulates all candidates,
 * prints and writes the verdict. --watch asks repeatedly.
 */
#ifndef LLS_WHATIF_QUESTION_H
#define LLS_WHATIF_QUESTION_H

#include "core/config/candidates.h"
#include "tools/whatif/whatif.h"

/* The answer to a question; freed by the caller. */
struct answered {
  char *best;     /* name of the best candidate; NULL: no significant difference */
  char *settings; /* settings of the best candidate, one a line */
  char *sentence; /* a sentence about it, for a log */
};

void answered_free(struct answered *);

/* Asks. Returns a negative errno with an error if there is no answer. */
int question_ask(const struct whatif_options *, const struct lls_candidates *,
                 struct answered *out, struct lls_error *err);

/* Reloads the server with settings, through POST /admin/reload, and prints the answer.
 * -EACCES with the server's reason if it refuses. */
int question_apply(const struct whatif_options *, const char *settings,
                   struct lls_error *err);

/* Asks every o->watch until killed. A question without an answer is reported and does
 * not end it. */
int question_watch(const struct whatif_options *, const struct lls_candidates *,
                   struct lls_error *err);

#endif
