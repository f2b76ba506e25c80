/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents that the cache would hold. The simulated device computes nothing, so a
 * mark is kept for every slot of every unit block instead: a hash of the kind of vector
 * (K, V or X) and of the token with all before it, which is what a real vector depends
 * on. Writing tokens sets marks, copies move them, and a sequence that is about to be
 * read must find its own. So blocks lost, given to two, filled from the wrong end or
 * copied too late show as what they would be on a real device: wrong text.
 *
 * ASYNC copies may run at any time of their step. What they touch in it is marked as
 * busy: nothing else of that step may write it, or read what they write.
 */
#ifndef CHECK_SHADOW_H
#define CHECK_SHADOW_H

#include <llmserve/cache.h>

struct shadow {
  uint32_t block_tokens, units[2]; /* by enum lls_tier */
  uint64_t *tiers[2];              /* (units, 2 halves, block_tokens) by enum lls_tier */
  /* As the device's tier: 1 + the index of the ASYNC copy of this step that reads or
   * writes the slot, 0 where none does. */
  uint32_t *read_by, *written_by;
  bool has_async; /* this step has such copies */
};

/* A tenant beyond every table that has a place for each number. Its requests have a salt,
 * so that they share blocks with nobody else. */
#define FAR_TENANT (UINT32_C(1) << 30)

/* Sets these sizes; the contents stay if they are the same. */
void shadow_resize(struct shadow *, const struct lls_cache_geometry *);
void shadow_free(struct shadow *);

/* The ASYNC copies of the step before have ended. */
void shadow_begin(struct shadow *);
/* Copy number `index` of this step. False: it reaches outside of a pool. */
bool shadow_copy(struct shadow *, const struct lls_copy *, uint32_t index);
/* The forward pass computes tokens [from, until) of r, and K and V of those before from X
 * where the table has both. */
void shadow_write(struct shadow *, const struct lls_block_table *,
                  const struct lls_request *, uint32_t from, uint32_t until);

/* The first of the tokens [0, until) that is not where the table says, or until; *list
 * says of which list. Of K, V and X together it is X that must be there: the step makes
 * the others of it. With a window only those that the step reads. */
uint32_t shadow_verify(const struct shadow *, const struct lls_block_table *,
                       const struct lls_request *, uint32_t window, uint32_t until,
                       const char **list);

/* The pass computes tokens [from, until) after those before: the first token in a slot
 * that an ASYNC copy of this step uses otherwise, or until; *index is that copy's. */
uint32_t shadow_collide(const struct shadow *, const struct lls_block_table *,
                        uint32_t from, uint32_t until, uint32_t *index);

/* The token of r whose K and V are in this slot of these unit blocks of the device, or
 * UINT32_MAX. */
uint32_t shadow_token_in(const struct shadow *, uint32_t k_block, uint32_t v_block,
                         uint32_t slot, const struct lls_request *);

#endif
