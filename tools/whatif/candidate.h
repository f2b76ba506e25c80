/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates: each point of each grid that was asked for.
 *
 *   SCHEDULER[+CACHE[+PREDICTOR]][:PARAMETER=VALUES]...
 *
 * A part that is left away stays as it runs; parameters are the scheduler's, VALUES as
 * --sweep of llmserve-sim takes them: A..B:STEP.
 */
#ifndef LLS_WHATIF_CANDIDATE_H
#define LLS_WHATIF_CANDIDATE_H

#include <stddef.h>

#include "core/base/error.h"

#define CANDIDATES_MAX 256

struct candidate {
  char *name;     /* as people know it: "apt+hybrid late_share=0.01" */
  char *settings; /* lines of SECTION.KEY=VALUE beside those of what runs */
};

struct candidates {
  struct candidate *items; /* (n) */
  size_t n;
};

/* Candidates of the texts, with commas, spaces or line ends between. -EINVAL with a
 * sentence. */
int candidates_read(const char *texts, struct candidates *out, struct lls_error *err);
void candidates_free(struct candidates *);

#endif
