/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements made before serving, kept for the next start ([cache] measurements): an
 * INI file like a device's profile, one for each device, model and settings of the engine
 * that a measurement depends on.
 *
 *   [identity]           of what was measured; another one is not used
 *   [steps]              "KV 102 = 5123000": a decode after 102 tokens in KV form took so
 *                        many ns; likewise "hidden 102"
 */
#ifndef LLS_RECORD_MEASURED_H
#define LLS_RECORD_MEASURED_H

#include "core/base/error.h"
#include "core/engine/fingerprint.h"

#define LLS_MEASURED_STEPS 32

struct lls_measured_step {
  uint32_t context; /* tokens before the decode */
  bool hidden;      /* their form */
  int64_t ns;
};

struct lls_measured {
  uint32_t n;
  struct lls_measured_step steps[LLS_MEASURED_STEPS]; /* (n) in the order they ran */
};

/* The file of an identity: FOLDER/hidden-NUMBER.ini; -ENAMETOOLONG. */
int lls_measured_path(const char *folder, const struct lls_engine_fingerprint *,
                      char *path, size_t size);
/* -ENOENT: there is none; -ESTALE: it is of something else, as the sentence says; or what
 * is wrong with the file. */
int lls_measured_read(const char *path, const struct lls_engine_fingerprint *,
                      struct lls_measured *out, struct lls_error *err);
/* Replaces the file as a whole; makes its folder, but not that one's. */
int lls_measured_write(const char *path, const struct lls_engine_fingerprint *,
                       const struct lls_measured *, struct lls_error *err);

#endif
