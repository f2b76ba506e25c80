/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines from tables: the same struct lls_param that describes a key of
 * llmserve.ini describes an option, "request_rate" being --request-rate. Parsing,
 * checking and --help come from the table. Texts are owned by the bound structs.
 *
 *   --name=value  --name value  --flag  --no-flag
 *
 * An option marked LLS_OPTION_LIST takes all arguments up to the next one that begins
 * with a dash, and may be repeated; its texts are joined with newlines.
 */
#ifndef LLS_CLI_H
#define LLS_CLI_H

#include <stdio.h>

#include "core/params/params.h"

/* flags in addition to enum lls_param_flags */
enum lls_option_flags {
  LLS_OPTION_LIST = 1u << 16, /* for STRING only */
  /* STRING: a path; the file's contents matter, not its name */
  LLS_OPTION_FILE = 1u << 17,
  LLS_OPTION_FOLDER = 1u << 18, /* STRING: the same for a folder */
  LLS_OPTION_APART = 1u << 19,  /* does not affect the results of a run */
};

struct lls_option_group {
  const char *title; /* heading in --help */
  struct lls_param_table table;
};

/* A group and the struct it is bound to. */
struct lls_bound_options {
  const struct lls_option_group *group;
  void *values;
};

/* Sets every option to its default. On failure nothing is left to release. */
int lls_options_default(const struct lls_bound_options *bound, size_t n,
                        struct lls_error *err);
void lls_options_release(const struct lls_bound_options *bound, size_t n);

/*
 * Reads argv[1..]. -EINVAL with an error that names the option: it is unknown (the
 * error names the nearest one), has no value, or has one that is not allowed.
 */
int lls_options_parse(const struct lls_bound_options *bound, size_t n, int argc,
                      char *const *argv, struct lls_error *err);

/* Sets one option by its name, with dashes or underscores; used by --sweep. */
int lls_option_set(const struct lls_bound_options *bound, size_t n, const char *name,
                   const char *text, struct lls_error *err);

/* Prints --help: every option of the groups with its value, default and description. */
void lls_options_help(const struct lls_bound_options *bound, size_t n, FILE *out);

/* Iterates over the lines of a LIST: returns the next line from *at, its length in
 * *length; NULL at the end. */
const char *lls_option_next(const char **at, size_t *length);

#endif
