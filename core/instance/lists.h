/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that a submission rules out for good, before the step loop has it (lists.c).
 */
#ifndef LLS_INSTANCE_LISTS_H
#define LLS_INSTANCE_LISTS_H

#include "core/instance/submission.h"

struct lls_error;
struct lls_instance;
struct lls_live;

/* [any] True if some tokens are never drawn; fill_base sets the bits of all others in
 * base (lls_mask_words). */
bool lls_lists_have_base(const struct lls_submission *s);
void lls_lists_fill_base(const struct lls_submission *s, uint32_t vocabulary,
                         uint32_t *base);

/* [any] True if a mask is needed before each draw. */
bool lls_lists_have_mask(const struct lls_submission *s, size_t n_stop_tokens,
                         uint32_t vocabulary);

/* [main] -EINVAL where a new request has no token that it could draw. */
int lls_lists_check(const struct lls_live *live, uint32_t vocabulary,
                    struct lls_error *err);

/* ---- [step] the tokens that the next draw of a request may take */
/* Before each draw. Without a grammar: sets exhausted if nothing is left. */
void lls_lists_set(struct lls_instance *, struct lls_live *);
/* Leaves of a grammar's mask what the lists allow too; false if nothing is left. */
bool lls_lists_cut(const struct lls_instance *, const struct lls_live *, uint32_t *mask,
                   uint32_t vocabulary);
/* How an answer ends that is exhausted: enum lls_finish_reason. */
uint32_t lls_lists_end(const struct lls_instance *, const struct lls_live *);

#endif
