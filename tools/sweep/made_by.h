/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin of a result: everything that decides what a run finds, as the member
 * "made_by" of its JSON. A result is taken for a run that is to be done only where both
 * were made by the same.
 *
 *   program   name, version and hash of the tool itself
 *   options   those that are not at their default; files by name and hash, not by path,
 *             so that a folder may be moved
 *   ...       what the tool adds: plugins, profiles, the server that was asked
 *
 * Hashes are FNV-1a of 64 bits: they tell builds apart, and are no protection from
 * somebody who wants two files to look alike.
 */
#ifndef LLS_SWEEP_MADE_BY_H
#define LLS_SWEEP_MADE_BY_H

#include <jansson.h>

#include "tools/cli/cli.h"

/* A new object with program and options; NULL with a sentence: no memory, or a file that
 * an option names can't be read. */
json_t *lls_made_by(const char *tool, const struct lls_bound_options *bound, size_t n,
                    struct lls_error *err);

/* {"name", "hash"} of a file, and its text where it is a configuration (*.ini); NULL with
 * a sentence. */
json_t *lls_made_by_file(const char *path, struct lls_error *err);

/* Is there a result at path, and was it made by the same? */
bool lls_result_made_by(const char *path, const json_t *made_by);

#endif
