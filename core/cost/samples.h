/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample of the steps that an instance has run, with the time that each took: a
 * device's profile is compared with them, or fitted to them if the device cannot be
 * measured because it is never idle.
 *
 * The sample covers steps of all sizes, since the most recent ones are mostly alike: it
 * has the newest 20 of each magnitude of rows, separately for only decodes and with
 * chunks. The sums that a step's time depends on (model.h) are stored, not its
 * sequences: 48 bytes per step.
 */
#ifndef LLS_COST_SAMPLES_H
#define LLS_COST_SAMPLES_H

#include <stdint.h>

#include "core/base/text.h"

struct lls_step_sample {
  int64_t ns;
  uint32_t drawn;        /* sequences for which a token is sampled */
  uint32_t chunks;       /* sequences that compute their prompt */
  uint64_t chunk_tokens; /* tokens of all chunks */
  uint64_t pairs;        /* pairs of a chunk's token and a token that it attends to */
  uint32_t decodes;
  uint64_t cached; /* tokens that the decodes attend to */
};

struct lls_step_samples;

int lls_step_samples_create(struct lls_step_samples **out); /* -ENOMEM */
void lls_step_samples_destroy(struct lls_step_samples *);   /* NULL is allowed */

/* Adds a step, on the thread that ran it, without waiting: the step is dropped if the
 * samples are being written at that moment. */
void lls_step_samples_add(struct lls_step_samples *, const struct lls_step_sample *);

/* [any] Appends T lines of a decision log (decision_log.h). */
void lls_step_samples_write(struct lls_step_samples *, struct lls_text *out);

#endif
