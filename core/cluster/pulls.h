/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies that bring a sequence from the blocks of one instance into those of another:
 * whole blocks where both are filled alike, else runs of slots. Nothing is copied here.
 */
#ifndef LLS_CLUSTER_PULLS_H
#define LLS_CLUSTER_PULLS_H

#include <stdbool.h>
#include <stdint.h>

#include <llmserve/types.h>

#include "core/instance/migration.h"

/* Appends the copies of the sequence's first `tokens` tokens, but of those that no layer
 * sees behind its window (0: all are seen) only what both tables have. False: `to` has
 * another form or no such room, or the list is full; then nothing is appended. */
bool lls_pulls_append(struct lls_pulls *, const struct lls_block_table *from,
                      const struct lls_block_table *to, uint32_t tokens,
                      uint32_t window_tokens, uint32_t block_tokens);

#endif
