/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cache would hold. The simulated device computes nothing, so of every slot of
 * every unit block a mark is kept instead: a hash of the kind of vector (K or V) and of
 * the token with all before it, which is what a real K or V vector depends on. Writing
 * tokens sets marks, copies move them, and a sequence that is about to be read must find
 * its own. So blocks lost, given to two, filled from the wrong end or copied too late
 * show as what they would be on a real device: wrong text.
 */
#ifndef CHECK_SHADOW_H
#define CHECK_SHADOW_H

#include <llmserve/cache.h>

struct shadow {
  uint32_t block_tokens, device_units, host_units;
  uint64_t *device; /* (device_units, block_tokens) */
  uint64_t *host;   /* (host_units, block_tokens) */
};

/* Of these sizes; what is there stays if they are the same. */
void shadow_resize(struct shadow *, const struct lls_cache_geometry *);
void shadow_free(struct shadow *);

/* False: it reaches outside of a pool. */
bool shadow_copy(struct shadow *, const struct lls_copy *);
/* The forward pass computes tokens [from, until) of r. */
void shadow_write(struct shadow *, const struct lls_block_table *,
                  const struct lls_request *, uint32_t from, uint32_t until);

/* The first of the tokens [0, until) that is not where the table says, or until; *list
 * says of which list. */
uint32_t shadow_verify(const struct shadow *, const struct lls_block_table *,
                       const struct lls_request *, uint32_t until, const char **list);

#endif
