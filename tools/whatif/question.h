/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The question, asked once: traffic, what runs, all candidates simulated, the verdict
 * printed and written. Asked again and again it is a watch.
 */
#ifndef LLS_WHATIF_QUESTION_H
#define LLS_WHATIF_QUESTION_H

#include "core/config/candidates.h"
#include "tools/whatif/whatif.h"

/* The answer; freed by its owner. */
struct answered {
  char *best;     /* the name of the best; NULL: no difference that can be told */
  char *settings; /* its lines */
  char *sentence; /* about it, for a log */
};

void answered_free(struct answered *);

/* Negative with the sentence where there is no answer. */
int question_ask(const struct whatif_options *, const struct lls_candidates *,
                 struct answered *out, struct lls_error *err);

/* Reloads the server with settings, through POST /admin/reload; prints what it says.
 * -EACCES with its reason where it refuses. */
int question_apply(const struct whatif_options *, const char *settings,
                   struct lls_error *err);

/* Asks every o->watch until it is killed. Times in which there is no answer are said and
 * do not end it. */
int question_watch(const struct whatif_options *, const struct lls_candidates *,
                   struct lls_error *err);

#endif
