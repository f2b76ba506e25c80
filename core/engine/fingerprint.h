/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine in three lines of text: all that the duration of its steps depends on. Two
 * engines with the same lines may use each other's measurements.
 */
#ifndef LLS_ENGINE_FINGERPRINT_H
#define LLS_ENGINE_FINGERPRINT_H

#include "core/engine/engine.h"

struct lls_engine_fingerprint {
  char device[160]; /* name of the device and of the hardware that computes */
  char model[160];  /* architecture and shape of the model */
  char engine[160]; /* bytes of weights, cache element, block size, contexts, ranks */
};

void lls_engine_take_fingerprint(const struct lls_engine *,
                                 struct lls_engine_fingerprint *out);

#endif
