/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) in hex digits, as sha256sum prints it. Plugins are pinned by
 * it. */
#ifndef LLS_BASE_SHA256_H
#define LLS_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define LLS_SHA256_HEX 65 /* digits and NUL */

struct lls_sha256 {
  uint32_t state[8];
  uint64_t bytes;
  unsigned char block[64];
};

void lls_sha256_begin(struct lls_sha256 *);
void lls_sha256_add(struct lls_sha256 *, const void *data, size_t n);
void lls_sha256_end(struct lls_sha256 *, char hex[LLS_SHA256_HEX]);

#endif
