/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements made before serving, kept for the next start ([cache] measurements): an
 * INI file like a device's profile, one for each device, model and settings of the
 * engine that a measurement depends on.
 *
 *   [identity]  version, device, model and engine that were measured; a file with
 *               another identity is not used
 *   [steps]     "KV 102 = 5123000": a decode after 102 tokens in KV form took 5123000
 *               ns; likewise "hidden 102"
 */
#ifndef LLS_RECORD_MEASURED_H
#define LLS_RECORD_MEASURED_H

#include "core/base/error.h"
#include "core/engine/fingerprint.h"

#define LLS_MEASURED_STEPS 32

struct lls_measured_step {
  uint32_t context; /* tokens before the decode */
  bool hidden;      /* the context's cache is in hidden form */
  int64_t ns;
};

struct lls_measured {
  uint32_t n;
  struct lls_measured_step steps[LLS_MEASURED_STEPS]; /* (n) in the order they ran */
};

/* Writes the file's path for an identity: FOLDER/hidden-NUMBER.ini. Returns
 * -ENAMETOOLONG if it exceeds `size`. */
int lls_measured_path(const char *folder, const struct lls_engine_fingerprint *,
                      char *path, size_t size);
/* Returns 0; -ENOENT: no such file; -ESTALE: measured with another device, model,
 * engine or version (err names it); another -errno: unreadable or malformed (err has
 * the reason). */
int lls_measured_read(const char *path, const struct lls_engine_fingerprint *,
                      struct lls_measured *out, struct lls_error *err);
/* Replaces the file as a whole; makes its folder, but not the folder's parent. */
int lls_measured_write(const char *path, const struct lls_engine_fingerprint *,
                       const struct lls_measured *, struct lls_error *err);

#endif
