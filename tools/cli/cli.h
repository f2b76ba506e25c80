/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines from tables: the same struct lls_param that describes a key of
 * llmserve.ini describes an option, "request_rate" being --request-rate. Parsing,
 * checking and --help come from the table. Texts are owned by the bound structs.
 *
 *   --name=value  --name value  --flag  --no-flag
 *
 * An option marked LLS_OPTION_LIST takes every argument up to the next one that begins
 * with a dash, and may be repeated; its texts are joined by line ends.
 */
#ifndef LLS_CLI_H
#define LLS_CLI_H

#include <stdio.h>

#include "core/params/params.h"

enum lls_option_flags {                               /* beside enum lls_param_flags */
                        LLS_OPTION_LIST = 1u << 16,   /* STRING only */
                        LLS_OPTION_FILE = 1u << 17,   /* STRING: a path; what is there
                                                         counts, not its name */
                        LLS_OPTION_FOLDER = 1u << 18, /* STRING: the same, of a folder */
                        LLS_OPTION_APART =
                            1u << 19, /* decides nothing of what a run finds */
};

struct lls_option_group {
  const char *title; /* of its part of --help */
  struct lls_param_table table;
};

/* A group and the struct it is bound to. */
struct lls_bound_options {
  const struct lls_option_group *group;
  void *values;
};

/* Binds every default. On failure nothing is left to release. */
int lls_options_default(const struct lls_bound_options *bound, size_t n,
                        struct lls_error *err);
void lls_options_release(const struct lls_bound_options *bound, size_t n);

/*
 * Reads argv[1..]. -EINVAL with a sentence that names the option: unknown (with the
 * nearest there is), without its value, or with one that is not expected.
 */
int lls_options_parse(const struct lls_bound_options *bound, size_t n, int argc,
                      char *const *argv, struct lls_error *err);

/* One option by its name, with dashes or underscores; what --sweep uses. */
int lls_option_set(const struct lls_bound_options *bound, size_t n, const char *name,
                   const char *text, struct lls_error *err);

/* --help: every option of the groups with what it expects, its default and its
 * sentence. */
void lls_options_help(const struct lls_bound_options *bound, size_t n, FILE *out);

/* For the texts of a LIST: the next line from *at, its length in *length; NULL at the
 * end. */
const char *lls_option_next(const char **at, size_t *length);

#endif
