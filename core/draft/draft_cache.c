/* SPDX-License-Identifier: Apache-2.0 */
/* See draft_cache.h. */
#include "core/draft/draft_cache.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/least.h"

int lls_draft_cache_init(struct lls_draft_cache *c, uint32_t slots, uint32_t n_blocks,
                         uint32_t block_units, uint32_t block_tokens)
{
  *c = (struct lls_draft_cache){.block_tokens = block_tokens, .n_blocks = n_blocks};
  c->sequences = calloc(slots, sizeof *c->sequences);
  c->free_blocks = calloc(n_blocks > 0 ? n_blocks : 1, sizeof *c->free_blocks);
  if (c->sequences == NULL || c->free_blocks == NULL)
    return -ENOMEM;
  c->n = slots;
  while (c->n_free < n_blocks) { /* the first ones are on top */
    c->free_blocks[c->n_free] = (n_blocks - 1 - c->n_free) * block_units;
    c->n_free++;
  }
  return 0;
}

void lls_draft_cache_free(struct lls_draft_cache *c)
{
  for (uint32_t i = 0; i < c->n; i++)
    free(c->sequences[i].entries);
  free(c->sequences);
  free(c->free_blocks);
}

static void give_back(struct lls_draft_cache *c, struct lls_draft_sequence *s)
{
  while (s->n_blocks > 0)
    c->free_blocks[c->n_free++] = s->entries[--s->n_blocks].block;
  s->computed = 0;
}

void lls_draft_cache_drop(struct lls_draft_cache *c, uint32_t slot)
{
  give_back(c, &c->sequences[slot]);
  c->sequences[slot].begun = false;
}

struct lls_draft_sequence *lls_draft_cache_find(struct lls_draft_cache *c, uint32_t slot,
                                                uint64_t id)
{
  struct lls_draft_sequence *s = &c->sequences[slot];
  if (s->begun && s->id == id)
    return s;
  give_back(c, s);
  s->begun = true;
  s->id = id;
  s->length = s->n_guesses = s->first = 0;
  return s;
}

/* Returns a sequence that has blocks and that run `now` has not used; NULL: none. */
static struct lls_draft_sequence *longest_unused(struct lls_draft_cache *c, uint64_t now)
{
  struct lls_draft_sequence *oldest = NULL;
  for (uint32_t i = 0; i < c->n; i++) {
    struct lls_draft_sequence *s = &c->sequences[i];
    if (s->n_blocks > 0 && s->used < now && (oldest == NULL || s->used < oldest->used))
      oldest = s;
  }
  return oldest;
}

static bool grow(struct lls_draft_sequence *s, uint32_t wanted)
{
  if (wanted <= s->room)
    return true;
  uint32_t room = lls_most_u32(wanted, 2 * s->room);
  struct lls_block_entry *entries = realloc(s->entries, room * sizeof *entries);
  if (entries == NULL)
    return false;
  s->entries = entries;
  s->room = room;
  return true;
}

/* Returns true if a block is free, if need be after a sequence has given its own up. */
static bool has_block(struct lls_draft_cache *c, uint64_t now)
{
  struct lls_draft_sequence *other = c->n_free == 0 ? longest_unused(c, now) : NULL;
  if (other != NULL)
    give_back(c, other);
  return c->n_free > 0;
}

bool lls_draft_cache_extend(struct lls_draft_cache *c, struct lls_draft_sequence *s,
                            uint32_t tokens, uint64_t now)
{
  uint32_t wanted = (tokens + c->block_tokens - 1) / c->block_tokens;
  bool possible = wanted <= c->n_blocks && grow(s, wanted);
  while (possible && s->n_blocks < wanted && has_block(c, now)) {
    s->entries[s->n_blocks] =
        (struct lls_block_entry){.block = c->free_blocks[--c->n_free],
                                 .first_token = s->n_blocks * c->block_tokens,
                                 .count = (uint16_t)c->block_tokens};
    s->n_blocks++;
  }
  return possible && s->n_blocks >= wanted;
}

bool lls_draft_cache_reserve(struct lls_draft_cache *c, struct lls_draft_sequence *s,
                             uint32_t tokens, uint64_t now)
{
  bool has_room = lls_draft_cache_extend(c, s, tokens, now);
  if (!has_room)
    give_back(c, s);
  return has_room;
}

void lls_draft_cache_settle(struct lls_draft_sequence *s, const int32_t *tokens,
                            uint32_t n_tokens)
{
  uint32_t right = 0;
  while (right < s->n_guesses && s->length + right < n_tokens &&
         tokens[s->length + right] == s->guesses[right])
    right++;
  s->computed = lls_least_u32(s->computed, s->length + right);
  s->computed = lls_least_u32(s->computed, n_tokens - 1);
  s->length = n_tokens;
  s->n_guesses = 0;
}
