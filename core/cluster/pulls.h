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

/* Copies the entries of all groups that have any of the first `tokens` tokens to `to`,
 * which has room for `max`; `out` then has them. Returns false if there are more, or if
 * hidden form is being converted. */
bool lls_lists_copy(struct lls_block_lists *out, const struct lls_group_list *lists,
                    uint32_t n_groups, uint32_t tokens, struct lls_block_entry *to,
                    uint32_t max);
size_t lls_lists_entries(const struct lls_block_lists *);
/* Says where the entries are now. */
void lls_lists_move(struct lls_block_lists *, const struct lls_block_entry *);

/* Appends the copies of the sequence's first `tokens` tokens in all groups, but of those
 * that no step reads any more in their group only what both lists have. False: `to` has
 * another form or no such room, or the list of copies is full; then nothing is
 * appended. */
bool lls_pulls_append(struct lls_pulls *, const struct lls_block_lists *from,
                      const struct lls_block_table *to, uint32_t tokens,
                      const struct lls_group *const *, uint32_t block_tokens);

#endif
