/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that a submission rules out for good, before the step loop has it (lists.c).
 */
#ifndef LLS_LOOP_LISTS_H
#define LLS_LOOP_LISTS_H

#include "core/loop/loop.h"

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

#endif
