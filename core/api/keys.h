/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys, from a file: a key a line and, after a space, the tenant whose it is; empty
 * lines and those that begin with '#' say nothing. A key without a tenant is a tenant of
 * its own, named after its hash; "-" is the tenant that clients have where there are no
 * keys.
 *
 * A key is compared with all keys of the file, each over its whole room, so that the time
 * it takes says nothing of how much of a guess was right.
 */
#ifndef LLS_API_KEYS_H
#define LLS_API_KEYS_H

#include <stdbool.h>

#include "core/base/error.h"

struct lls_api_keys;

/* -errno where the file can't be read, -EINVAL with the line where it is no such file or
 * has no key. */
int lls_api_keys_load(const char *path, struct lls_api_keys **out, struct lls_error *err);
void lls_api_keys_free(struct lls_api_keys *keys);

/* True if it is one of the keys; then *tenant is its tenant, "" if that is "-", valid as
 * long as the keys. */
bool lls_api_keys_have(const struct lls_api_keys *keys, const char *key,
                       const char **tenant);
/* Likewise of an "authorization" header's value, "Bearer KEY"; NULL: there is none. */
bool lls_api_keys_allow(const struct lls_api_keys *keys, const char *authorization,
                        const char **tenant);

/* The files of keys that there are, NULL: none. */
struct lls_api_keyring {
  struct lls_api_keys *users;  /* who may ask the model */
  struct lls_api_keys *admins; /* who may besides look at the server and steer it */
};

void lls_api_keyring_free(struct lls_api_keyring *keyring);

/* The first key of the file, as long as the keys. */
const char *lls_api_keys_first(const struct lls_api_keys *keys);

#endif
