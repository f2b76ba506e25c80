/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /admin/whatif: which policies would have served the last minutes better. The daemon
 * finds out by running llmserve-whatif (core/serve/whatif_process.c); this header has
 * the question and the state of the answer.
 */
#ifndef LLS_API_WHATIF_H
#define LLS_API_WHATIF_H

#include <jansson.h>

#include "core/base/error.h"

struct lls_config;

enum lls_whatif_stage {
  LLS_WHATIF_NONE, /* no question yet */
  LLS_WHATIF_RUNNING,
  LLS_WHATIF_DONE,
  LLS_WHATIF_FAILED
};

/* [main] The state of the last question; owned by the daemon. */
struct lls_whatif_state {
  enum lls_whatif_stage stage;
  double progress;            /* 0 to 1 while RUNNING */
  int64_t began_s;            /* Unix time */
  char reason[LLS_ERROR_MAX]; /* FAILED: why */
  json_t *answer;             /* DONE: llmserve-whatif's, else NULL */
};

/* Options of llmserve-whatif; "" omits an option, a list has one item a line. */
struct lls_whatif_question {
  const char *policies, *objective, *goodput;
};

struct lls_whatif_asker {
  const struct lls_whatif_state *state; /* NULL: no daemon, so no answers */
  /* Starts answering. Returns -EBUSY while another question is being answered, -ENOENT
   * if no history is kept. */
  int (*ask)(void *context, const struct lls_whatif_question *, struct lls_error *err);
  void (*give_up)(void *context); /* cancels a running question */
};

/* Returns the text of every configuration key, as GET /admin/config sends it; NULL if
 * out of memory. */
json_t *lls_admin_config(const struct lls_config *);

#endif
