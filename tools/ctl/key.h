/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the API key to send. */
#ifndef LLS_CTL_KEY_H
#define LLS_CTL_KEY_H

#include "core/config/ini.h"

#define CTL_KEY_BYTES 256

/*
 * Finds the first key in `file`. If file is NULL: the key in LLMSERVE_ADMIN_KEY, else
 * the first key in the files that [server] admin_keys or api_keys of the INI (or NULL)
 * name. "" if there is none, or if the INI's files cannot be read: the server then
 * answers whether it requires a key. Fails if `file` is given and has no key.
 */
int ctl_find_key(const char *file, const struct lls_ini *ini, char key[CTL_KEY_BYTES],
                 struct lls_error *err);

#endif
