/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /admin/whatif: which policies would have served the last minutes better. How that is
 * found out is the daemon's business (core/serve/whatif_process.c); here is what is asked
 * and what is known of it.
 */
#ifndef LLS_API_WHATIF_H
#define LLS_API_WHATIF_H

#include <jansson.h>

#include "core/base/error.h"

struct lls_config;

enum lls_whatif_stage {
  LLS_WHATIF_NONE, /* nothing has been asked yet */
  LLS_WHATIF_RUNNING,
  LLS_WHATIF_DONE,
  LLS_WHATIF_FAILED
};

/* [main] The last question; the daemon's. */
struct lls_whatif_state {
  enum lls_whatif_stage stage;
  double progress;            /* 0 to 1 while RUNNING */
  int64_t began_s;            /* Unix time */
  char reason[LLS_ERROR_MAX]; /* FAILED: why */
  json_t *answer;             /* DONE: of llmserve-whatif, else NULL */
};

/* Options of llmserve-whatif; "" omits one, lists have a line for each item. */
struct lls_whatif_question {
  const char *policies, *objective, *goodput;
};

struct lls_whatif_asker {
  const struct lls_whatif_state *state; /* NULL: there is nobody to ask */
  /* -EBUSY: another question is being answered; -ENOENT: there is no history. */
  int (*ask)(void *context, const struct lls_whatif_question *, struct lls_error *err);
  void (*give_up)(void *context); /* the question, if there is one */
};

/* The text of every key there is, as GET /admin/config has it; NULL without memory. */
json_t *lls_admin_config(const struct lls_config *);

#endif
