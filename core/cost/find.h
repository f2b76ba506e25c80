/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles and models by name: those that ship, or any path. */
#ifndef LLS_COST_FIND_H
#define LLS_COST_FIND_H

#include "core/base/error.h"

/*
 * "a100-40g": the file itself if there is one, else NAME.ini in $LLS_PROFILE_PATH or the
 * folder where profiles are installed. Malloc'ed; -ENOENT with both places.
 */
int lls_find_profile(const char *name, char **path, struct lls_error *err);
/* "opt-13b": the folder itself, else models/NAME there. Absolute. */
int lls_find_model(const char *name, char **path, struct lls_error *err);

#endif
