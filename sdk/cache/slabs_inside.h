/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of slabs.h: how a word is changed, and the steps that
 * slabs_empty.c takes blocks and empties slabs by. Not installed. */
#ifndef SLABS_INSIDE_H
#define SLABS_INSIDE_H

#include <llmserve/policy/slabs.h>

/* Most changes in the journal by taking, freeing or moving one block, on this side. */
#define SLABS_CHANGES 32

/* Every change of the state goes through here. */
static inline void slabs_set(struct lls_pol_slabs *s, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(s->journal, where, value);
}

/* Returns a block of a slab of the class or of a free slab, or LLS_POL_NIL. */
uint32_t slabs_try(struct lls_pol_slabs *, uint32_t kind);
/* Takes a slab that has taken blocks off its list; it is listed by none. */
void slabs_unlist(struct lls_pol_slabs *, uint32_t slab);
/* All blocks of the slab are free, and it is on no list: it becomes a free slab. */
void slabs_close(struct lls_pol_slabs *, uint32_t slab);

#endif
