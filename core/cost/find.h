/* SPDX-License-Identifier: Apache-2.0 */
/* Finds profiles and models by name, installed or by any path. */
#ifndef LLS_COST_FIND_H
#define LLS_COST_FIND_H

#include "core/base/error.h"

/*
 * Finds a profile such as "a100-40g": the file of this path, if it exists, else
 * NAME.ini in $LLS_PROFILE_PATH or the folder of installed profiles. *path is
 * malloc'ed. Returns -ENOENT with both places in err.
 */
int lls_find_profile(const char *name, char **path, struct lls_error *err);
/* Finds a model such as "opt-13b": the folder of this path, else models/NAME in the
 * folder of profiles. *path is absolute. */
int lls_find_model(const char *name, char **path, struct lls_error *err);

#endif
