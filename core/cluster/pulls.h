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

/*
 * Appends copies of the sequence's first `tokens` tokens. Of the tokens that no layer
 * sees behind its window (0: all are seen), only those in both tables are copied.
 * Returns false, with nothing appended, if `to` has another form or too little room, or
 * the list is full.
 */
bool lls_pulls_append(struct lls_pulls *, const struct lls_block_table *from,
                      const struct lls_block_table *to, uint32_t tokens,
                      uint32_t window_tokens, uint32_t block_tokens);

#endif
