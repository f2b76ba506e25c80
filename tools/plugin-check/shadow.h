/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents that the cache would hold. The simulated device computes nothing, so a
 * mark is kept for every slot of every unit instead: a hash of the form of the block, of
 * which of its units this is, and of the token with all before it, which is what a real
 * vector depends on. Writing tokens sets marks, copies move them, and before a sequence
 * is read all its marks must be right. So blocks that are lost, given to two requests,
 * filled from the wrong end or copied too late are detected; on a real device they would
 * produce wrong text.
 *
 * ASYNC copies may run at any time of their step. The slots that they use are marked as
 * busy: nothing else in that step may write them, or read those that the copies write.
 */
#ifndef CHECK_SHADOW_H
#define CHECK_SHADOW_H

#include <llmserve/cache.h>

struct shadow {
  uint32_t block_tokens, units[2];        /* by enum lls_tier */
  uint32_t form_units[LLS_FORM_INT8 + 1]; /* units of a block by form; 0: none such */
  uint64_t *tiers[2];                     /* (units, block_tokens) by enum lls_tier */
  /* For the device's tier: 1 + the index of the ASYNC copy of this step that reads or
   * writes the slot; 0: none. */
  uint32_t *read_by, *written_by;
  bool has_async; /* the current step has ASYNC copies */
};

/* A tenant with a number beyond any table indexed by tenant. Its requests have a salt,
 * so that they share blocks with no other tenant. */
#define FAR_TENANT (UINT32_C(1) << 30)

/* Sets the sizes; the contents are kept if the sizes do not change. */
void shadow_resize(struct shadow *, const struct lls_cache_geometry *,
                   const struct lls_group *);
void shadow_free(struct shadow *);

/* Begins a step: the ASYNC copies of the previous step have ended. */
void shadow_begin(struct shadow *);
/* Does copy number `index` of this step. Returns false if it reaches outside of a
 * pool. */
bool shadow_copy(struct shadow *, const struct lls_copy *, uint32_t index);
/* The forward pass computes tokens [from, until) of r; if blocks are restored, it also
 * computes K and V of earlier tokens from X. */
void shadow_write(struct shadow *, const struct lls_group_list *,
                  const struct lls_request *, uint32_t from, uint32_t until);

/* Returns the first of the tokens [0, until) whose mark is not where the list says, or
 * until; *name is that of the list. If blocks are restored, only X is checked, since the
 * step computes K and V from it. Only the tokens that the step reads in the group are
 * checked. */
uint32_t shadow_verify(const struct shadow *, const struct lls_group_list *,
                       const struct lls_request *, const struct lls_group *,
                       uint32_t until, const char **name);

/* The forward pass computes tokens [from, until). Returns the first token in a slot
 * that an ASYNC copy of this step uses in conflict, or until; *index is that copy's. */
uint32_t shadow_collide(const struct shadow *, const struct lls_group_list *,
                        uint32_t from, uint32_t until, uint32_t *index);

/* Returns the token of r whose K and V are in this slot of this block of the device, or
 * UINT32_MAX. */
uint32_t shadow_token_in(const struct shadow *, uint32_t block, uint32_t slot,
                         const struct lls_request *);

#endif
