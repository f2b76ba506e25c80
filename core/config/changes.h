/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that requests made while the server ran (POST /admin/reload with a body):
 * they count instead of the file's and the command line's until a reload without any
 * reads the file again. Nothing is ever written to the file.
 *
 * A request may be of somebody who may not write the file, and must not gain by it what
 * only that may do: open a file or a shared object. So a request can name plugins that
 * are on the search path, and set their parameters, but no path.
 */
#ifndef LLS_CONFIG_CHANGES_H
#define LLS_CONFIG_CHANGES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* The most settings of a request: more than all keys of a server together, and few enough
 * to be compared with each other. */
#define LLS_CHANGES_MAX 500

struct lls_changes {
  size_t n;
  char **list; /* (n) "SECTION.KEY=VALUE" each, malloc'ed */
};

/* Instead of what was set for the key before; -ENOMEM. */
int lls_changes_set(struct lls_changes *, const char *section, const char *key,
                    const char *value);
/* All of `more` likewise. */
int lls_changes_add(struct lls_changes *, const struct lls_changes *more);
void lls_changes_free(struct lls_changes *);

/* Tells whether a request may name this policy: -EACCES for a path, -ENOENT with the
 * names that there are. Nothing is opened for it. */
int lls_changes_check_policy(uint32_t kind, const char *name, struct lls_error *err);

#endif
