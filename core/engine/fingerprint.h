/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine in three lines of text: what decides how long its steps take. Two engines
 * with the same lines may use each other's measurements.
 */
#ifndef LLS_ENGINE_FINGERPRINT_H
#define LLS_ENGINE_FINGERPRINT_H

#include "core/engine/engine.h"

struct lls_engine_fingerprint {
  char device[160]; /* which, and what of it computes */
  char model[160];  /* its shape */
  char engine[160]; /* numbers, blocks, ranks, contexts */
};

void lls_engine_take_fingerprint(const struct lls_engine *,
                                 struct lls_engine_fingerprint *out);

#endif
