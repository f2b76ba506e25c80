/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys from a file. A line has a key and, after a space, the key's tenant; empty
 * lines and lines that begin with '#' are skipped. A key without a tenant is a tenant
 * of its own, named after the key's hash. "-" means the tenant "" that clients have in
 * a server without keys.
 *
 * A client's key is compared with every key of the file, each over the full buffer, so
 * that the time does not depend on how much of a guess is right.
 */
#ifndef LLS_API_KEYS_H
#define LLS_API_KEYS_H

#include <stdbool.h>

#include "core/base/error.h"

struct lls_api_keys;

/* Returns 0; -errno if the file can't be read; -EINVAL if it is malformed (err names
 * the line) or has no key. */
int lls_api_keys_load(const char *path, struct lls_api_keys **out, struct lls_error *err);
void lls_api_keys_free(struct lls_api_keys *keys);

/* Returns true if `key` is in the file; *tenant is then its tenant ("" for "-"), valid
 * as long as `keys`. */
bool lls_api_keys_have(const struct lls_api_keys *keys, const char *key,
                       const char **tenant);
/* Does the same for the value of an "authorization" header, "Bearer KEY"; NULL: the
 * request has no such header. */
bool lls_api_keys_allow(const struct lls_api_keys *keys, const char *authorization,
                        const char **tenant);

/* The keys of clients and of admins; NULL: no file is set. */
struct lls_api_keyring {
  struct lls_api_keys *users;  /* may use /v1 */
  struct lls_api_keys *admins; /* may use /admin as well */
};

void lls_api_keyring_free(struct lls_api_keyring *keyring);

/* Returns the first key of the file, valid as long as `keys`. */
const char *lls_api_keys_first(const struct lls_api_keys *keys);

#endif
