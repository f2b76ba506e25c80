/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates of llmserve-whatif and [server] autopilot_policies: each point of each grid
 * that was asked for.
 *
 *   SCHEDULER[+CACHE[+PREDICTOR]][:PARAMETER=VALUES]...
 *
 * A part that is omitted stays as it runs; parameters are the scheduler's, VALUES as
 * --sweep of llmserve-sim takes them: A..B:STEP.
 */
#ifndef LLS_CONFIG_CANDIDATES_H
#define LLS_CONFIG_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

#define LLS_CANDIDATES_MAX      256
#define LLS_CANDIDATES_TEXT_MAX 4096 /* of all of them, with its end */

struct lls_candidate {
  char *name;     /* as people know it: "apt+hybrid late_share=0.01" */
  char *settings; /* lines of SECTION.KEY=VALUE beside those of what runs */
};

struct lls_candidates {
  struct lls_candidate *items; /* (n) */
  size_t n;
};

/* Candidates of the texts, with commas, spaces or line ends between; those of a request
 * as changes.h allows them, with policies that are there. Negative with a sentence. */
int lls_candidates_read(const char *texts, bool by_request, struct lls_candidates *out,
                        struct lls_error *err);
void lls_candidates_free(struct lls_candidates *);

#endif
