/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a draft model's cache: each request's sequence, and who gives its blocks
 * up when there are none left. No policy and no prefix: what is lost is computed again.
 */
#ifndef LLS_DRAFT_DRAFT_CACHE_H
#define LLS_DRAFT_DRAFT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <llmserve/types.h>

#include "core/config/limits.h"

/* A request, as far as the draft model has computed it. */
struct lls_draft_sequence {
  bool begun;
  uint64_t id;       /* of the request; another one's is not its own */
  uint32_t computed; /* tokens in the cache, guesses included */
  uint32_t first;    /* place in the text of the first of them: 0, but for heads */
  /* The last guesses, made behind a text of `length` tokens. */
  uint32_t length, n_guesses;
  int32_t guesses[LLS_MAX_DRAFTS];
  uint64_t used;                   /* the run that used it last */
  struct lls_block_entry *entries; /* (n_blocks) with room for more */
  uint32_t n_blocks, room;
};

struct lls_draft_cache {
  struct lls_draft_sequence *sequences; /* (n) by the requests' slots */
  uint32_t n;
  uint32_t block_tokens;
  uint32_t *free_blocks; /* (n_free) stack of first units */
  uint32_t n_free, n_blocks;
};

/* Returns 0 or -ENOMEM; the cache must be freed even then. */
int lls_draft_cache_init(struct lls_draft_cache *, uint32_t slots, uint32_t n_blocks,
                         uint32_t block_units, uint32_t block_tokens);
void lls_draft_cache_free(struct lls_draft_cache *);

/* Returns the sequence of a request, which is new if another had the slot. */
struct lls_draft_sequence *lls_draft_cache_find(struct lls_draft_cache *, uint32_t slot,
                                                uint64_t id);
/* Forgets the slot's request. */
void lls_draft_cache_drop(struct lls_draft_cache *, uint32_t slot);
/* Makes room for `tokens` tokens of a sequence, if need be by dropping those that run
 * `now` has not used, the longest unused first. Returns false if there is none: the
 * sequence then has given its blocks up, so that others, which are in use, too, go on. */
bool lls_draft_cache_reserve(struct lls_draft_cache *, struct lls_draft_sequence *,
                             uint32_t tokens, uint64_t now);
/* Reserves blocks as lls_draft_cache_reserve does, for one more guess. If there is no
 * room the sequence keeps the blocks that it has. */
bool lls_draft_cache_extend(struct lls_draft_cache *, struct lls_draft_sequence *,
                            uint32_t tokens, uint64_t now);
/* Makes `computed` what the cache has of this text: guesses that did not become text are
 * forgotten, and at least its last token is still to be computed. */
void lls_draft_cache_settle(struct lls_draft_sequence *, const int32_t *tokens,
                            uint32_t n_tokens);

#endif
