/* SPDX-License-Identifier: Apache-2.0 */
/* Which API key is sent. */
#ifndef LLS_CTL_KEY_H
#define LLS_CTL_KEY_H

#include "core/config/ini.h"

#define CTL_KEY_BYTES 256

/*
 * The first key of the file; where that is NULL the one in LLMSERVE_ADMIN_KEY, else the
 * first of the files that [server] admin_keys or api_keys of the INI (or NULL) names.
 * "" where there is none, or the INI's can't be read: the server says whether it wants
 * one. Fails where a file that was asked for has none.
 */
int ctl_find_key(const char *file, const struct lls_ini *ini, char key[CTL_KEY_BYTES],
                 struct lls_error *err);

#endif
