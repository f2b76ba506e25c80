/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin of a result: everything that affects a run's result, as the member
 * "made_by" of its JSON. An existing result replaces a run only if both have the same
 * origin.
 *
 *   program   name, version and hash of the tool itself
 *   options   the ones that differ from their default; files by name and hash, not by
 *             path, so that a folder may be moved
 *   ...       what the tool adds: plugins, profiles, the server that was asked
 *
 * Hashes are 64-bit FNV-1a: they distinguish builds, but do not protect against files
 * forged to be alike.
 */
#ifndef LLS_SWEEP_MADE_BY_H
#define LLS_SWEEP_MADE_BY_H

#include <jansson.h>

#include "tools/cli/cli.h"

/* Returns a new object with program and options. NULL with an error: out of memory, or
 * a file that an option names cannot be read. */
json_t *lls_made_by(const char *tool, const struct lls_bound_options *bound, size_t n,
                    struct lls_error *err);

/* Returns {"name", "hash"} of a file, and its text if it is a configuration (*.ini).
 * NULL with an error. */
json_t *lls_made_by_file(const char *path, struct lls_error *err);

/* Is there a result at path with the same origin? */
bool lls_result_made_by(const char *path, const json_t *made_by);

#endif
