/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that a submission's lists forbid, or allow alone (lists.c). */
#ifndef LLS_INSTANCE_LISTS_H
#define LLS_INSTANCE_LISTS_H

#include "core/instance/submission.h"

struct lls_error;
struct lls_instance;
struct lls_live;

/* [any] Returns true if some tokens may never be drawn. fill_base then sets the bits of
 * all other tokens in base (lls_mask_words). */
bool lls_lists_have_base(const struct lls_submission *s);
void lls_lists_fill_base(const struct lls_submission *s, uint32_t vocabulary,
                         uint32_t *base);

/* [any] Returns true if each draw needs a mask. */
bool lls_lists_have_mask(const struct lls_submission *s, size_t n_stop_tokens,
                         uint32_t vocabulary);

/* [main] Returns -EINVAL if a new request could draw no token. */
int lls_lists_check(const struct lls_live *live, uint32_t vocabulary,
                    struct lls_error *err);

/* ---- [step] the tokens that the next draw of a request may take */
/* Sets which tokens the next draw may take. Without a grammar: sets `exhausted` if no
 * token is allowed. */
void lls_lists_set(struct lls_instance *, struct lls_live *);
/* Sets which tokens the draw after `ahead` guesses may take, in a mask of its own if
 * the request needs one; a grammar fills it later. Returns false if no token is
 * allowed. */
bool lls_lists_set_ahead(const struct lls_instance *, const struct lls_live *,
                         uint32_t ahead, uint32_t *mask, struct lls_sampling *);
/* Clears the tokens that the lists forbid after `ahead` guesses in a grammar's mask.
 * Returns false if none is left. */
bool lls_lists_cut(const struct lls_instance *, const struct lls_live *, uint32_t ahead,
                   uint32_t *mask, uint32_t vocabulary);
/* Returns the enum lls_finish_reason of an exhausted answer. */
uint32_t lls_lists_end(const struct lls_instance *, const struct lls_live *);

#endif
