/* SPDX-License-Identifier: Apache-2.0 */
/* An account's members, for accounts.c and accounts_shared.c. */
#ifndef LLS_API_ACCOUNTS_INTERNAL_H
#define LLS_API_ACCOUNTS_INTERNAL_H

#include <uthash.h>

#include "core/api/accounts.h"

struct lls_bucket {
  double used;
  int64_t at_ns; /* when `used` was last updated */
};

struct lls_account {
  char name[LLS_TENANT_BYTES];
  struct lls_bucket requests, tokens;
  uint32_t inside; /* admitted requests that are not finished */
  uint32_t references;
  /* used here since the account exists, and what of it other replicas know */
  struct lls_tenant_usage own, reported;
  struct lls_tenant_usage others; /* what all others have used, as last read */
  UT_hash_handle hh;
};

#endif
