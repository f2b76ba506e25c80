/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the copies that bring a sequence from the blocks of one instance to those of
 * another one: whole blocks if both are filled alike, else runs of slots. It copies
 * nothing itself.
 */
#ifndef LLS_CLUSTER_PULLS_H
#define LLS_CLUSTER_PULLS_H

#include <stdbool.h>
#include <stdint.h>

#include <llmserve/types.h>

#include "core/instance/migration.h"

/* The form of a list, where INT8 is KV. */
static inline uint32_t lls_list_form(const struct lls_group_list *l)
{
  bool hidden = l->n_entries > 0 && l->entries[0].form == LLS_FORM_HIDDEN;
  return hidden ? LLS_FORM_HIDDEN : LLS_FORM_KV;
}

/* Appends the copies of the sequence's first `tokens` tokens, but of those that no step
 * reads any more in their group only what both lists have. False: `to` has another form
 * or no such room, or the list of copies is full; then nothing is appended. */
bool lls_pulls_append(struct lls_pulls *, const struct lls_group_list *from,
                      const struct lls_group_list *to, uint32_t tokens,
                      const struct lls_group *, uint32_t block_tokens);

#endif
