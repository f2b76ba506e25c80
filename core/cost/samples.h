/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some of the steps that an instance has run, with the time that each took: what a
 * profile of the device is held against, and learnt from where the device cannot be
 * measured because it is never idle.
 *
 * Steps of all sizes count, not the last ones, which are mostly alike: the newest 20 of
 * each magnitude of rows, of decodes alone and with chunks. The sums that a step's time
 * depends on (model.h) are kept, not its sequences: 48 bytes a step.
 */
#ifndef LLS_COST_SAMPLES_H
#define LLS_COST_SAMPLES_H

#include <stdint.h>

#include "core/base/text.h"

struct lls_step_sample {
  int64_t ns;
  uint32_t drawn;        /* sequences of which a token is drawn */
  uint32_t chunks;       /* sequences that compute their prompt */
  uint64_t chunk_tokens; /* theirs together */
  uint64_t pairs;        /* of a token of a chunk and a token that it sees */
  uint32_t decodes;
  uint64_t cached; /* tokens that they read */
};

struct lls_step_samples;

int lls_step_samples_create(struct lls_step_samples **out); /* -ENOMEM */
void lls_step_samples_destroy(struct lls_step_samples *);   /* NULL is fine */

/* By the thread that runs them, which never waits: a step that is run while they are
 * written is left out. */
void lls_step_samples_add(struct lls_step_samples *, const struct lls_step_sample *);

/* [any] Appends T lines of a decision log (decision_log.h). */
void lls_step_samples_write(struct lls_step_samples *, struct lls_text *out);

#endif
