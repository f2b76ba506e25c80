/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that requests made while the server ran (POST /admin/reload with a body):
 * they override the file and the command line until a reload without settings reads the
 * file again. The file is never written.
 *
 * The sender of a request may have no right to write the file, and must not gain the
 * rights of the file's owner: to open a file or a shared object, or to start a program.
 * So a request can name plugins that are on the search path, and set their parameters,
 * but no path, and nothing of a plugin that starts programs.
 */
#ifndef LLS_CONFIG_CHANGES_H
#define LLS_CONFIG_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Most settings of a request: more than all keys of a server, and few enough to compare
 * each with each. */
#define LLS_CHANGES_MAX 500

struct lls_changes {
  size_t n;
  char **list; /* (n) "SECTION.KEY=VALUE" each, malloc'ed */
};

/* Adds a setting; it replaces an earlier one of the same key. Returns 0 or -ENOMEM. */
int lls_changes_set(struct lls_changes *, const char *section, const char *key,
                    const char *value);
/* Adds every setting of `more` like lls_changes_set. */
int lls_changes_add(struct lls_changes *, const struct lls_changes *more);
void lls_changes_free(struct lls_changes *);

/* Returns true for the section of a policy with a parameter that is a command of the
 * shell. */
bool lls_changes_starts_programs(const char *section);
/* Checks that a request may name this policy, without opening it. Returns -EACCES for a
 * path, or for a policy that starts programs; -ENOENT with the names of the installed
 * policies in err. */
int lls_changes_check_policy(uint32_t kind, const char *name, struct lls_error *err);

#endif
