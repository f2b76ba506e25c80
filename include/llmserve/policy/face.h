/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache manager's vtable, for managers whose state begins with a struct lls_pol_side
 * (side.h): each function here is the member of struct lls_cache_vtable with its name,
 * and calls the usual policy. A manager names these in its vtable, and its own
 * functions where it differs; LLS_POL_FACE names those in which hardly any does.
 *
 * A manager with no idea of its own needs `create`, which makes the side, and a
 * descriptor: see plugins/caches/paged.
 */
#ifndef LLS_POL_FACE_H
#define LLS_POL_FACE_H

#include <llmserve/policy/side.h>

#ifdef __cplusplus
extern "C" {
#endif

int lls_pol_face_begin(void *self);
uint32_t lls_pol_face_mark(void *self);
int lls_pol_face_rollback(void *self, uint32_t mark);
int lls_pol_face_commit(void *self);
int lls_pol_face_admit(void *self, const struct lls_request *);
void lls_pol_face_release(void *self, const struct lls_request *,
                          const struct lls_release *);

int lls_pol_face_capacity(void *self, uint32_t tier, struct lls_capacity *);
int lls_pol_face_need(void *self, const struct lls_request *, uint32_t tokens,
                      uint32_t form, struct lls_need *);
int lls_pol_face_reserve(void *self, const struct lls_request *, uint32_t tokens,
                         uint32_t form, uint32_t flags);
int lls_pol_face_preempt(void *self, const struct lls_request *, uint32_t mode);
uint32_t lls_pol_face_preempt_modes(void *self);
int lls_pol_face_prefix(void *self, const struct lls_request *, bool take,
                        struct lls_prefix *);
void lls_pol_face_computed(void *self, const struct lls_request *, uint32_t cached);

int lls_pol_face_info(void *self, const struct lls_request *, struct lls_cache_info *);
int lls_pol_face_table(void *self, const struct lls_request *, struct lls_block_table *);
size_t lls_pol_face_copies(void *self, const struct lls_copy **);
void lls_pol_face_stats(void *self, const struct lls_sink *);
int lls_pol_face_audit(void *self, const struct lls_sink *);

/* The side's `writer` names the state. An import that can't be taken over, or contradicts
 * itself, leaves the manager empty. */
int lls_pol_face_export(void *self, struct lls_blob *);
int lls_pol_face_import(void *self, const struct lls_blob *);
size_t lls_pol_face_kept(void *self, struct lls_kept_block *, size_t max);
size_t lls_pol_face_adopt(void *self, struct lls_kept_block *, size_t n);
int lls_pol_face_retain(void *self, const struct lls_retained *);
int lls_pol_face_fetch(void *self, const struct lls_retained *);
size_t lls_pol_face_changes(void *self, struct lls_block_change *out, size_t max);

/* Every manager leaves these to the kit. */
#define LLS_POL_FACE_ALWAYS                                                              \
  .api_version = LLS_API_VERSION, .size = sizeof(struct lls_cache_vtable),               \
  .mark = lls_pol_face_mark, .rollback = lls_pol_face_rollback,                          \
  .capacity = lls_pol_face_capacity, .copies = lls_pol_face_copies,                      \
  .audit = lls_pol_face_audit

/* These too, but for a manager with its own idea of the transaction, or of where blocks
 * are. */
#define LLS_POL_FACE                                                                     \
  LLS_POL_FACE_ALWAYS, .begin = lls_pol_face_begin, .commit = lls_pol_face_commit,       \
                       .admit = lls_pol_face_admit, .release = lls_pol_face_release,     \
                       .info = lls_pol_face_info,                                        \
                       .preempt_modes = lls_pol_face_preempt_modes,                      \
                       .table = lls_pol_face_table

#ifdef __cplusplus
}
#endif

#endif
