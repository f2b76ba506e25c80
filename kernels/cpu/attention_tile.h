/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the tokens of a tile lie: the block table turned into one address a token, so
 * that the kernels need not know of block sizes, part-filled blocks or directions.
 */
#ifndef LLS_CPU_ATTENTION_TILE_H
#define LLS_CPU_ATTENTION_TILE_H

#include <float.h>
#include <string.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/pool.h"

#define TILE 64

/* A position in a list; moves forward only. */
struct cursor {
  const struct lls_kv_list *list;
  const struct lls_block_entry *entry; /* holds the token asked for last, or is before */
};

static inline struct cursor cursor_at(const struct lls_kv_list *l, uint32_t token)
{
  uint32_t entry = lls_pool_find(l->entries, l->n_entries, token);
  return (struct cursor){.list = l, .entry = l->entries + entry};
}

/* The addresses of tokens [first, first + n), which the list must cover. */
static inline void addresses(struct cursor *c, uint32_t first, uint32_t n,
                             const char *out[TILE])
{
  const struct lls_kv_list *l = c->list;
  const struct lls_block_entry *e = c->entry;
  for (uint32_t i = 0; i < n;) {
    while (first + i >= e->first_token + e->count)
      e++;
    uint32_t index = first + i - e->first_token;
    uint32_t run = e->count - index < n - i ? e->count - index : n - i;
    bool left = e->direction == LLS_LEFT_TO_RIGHT;
    uint32_t slot = left ? index : l->block_tokens - 1 - index;
    ptrdiff_t step = left ? (ptrdiff_t)l->slot_bytes : -(ptrdiff_t)l->slot_bytes;
    const char *p = l->base + e->block * l->unit_bytes + slot * l->slot_bytes;
    for (uint32_t end = i + run; i < end; i++, p += step)
      out[i] = p;
  }
  c->entry = e;
}

/* Tokens of [first, first + n) that the row at `position` sees, relative to first. */
static inline void tile_visible(uint32_t position, uint32_t window, uint32_t first,
                                uint32_t n, uint32_t *begin, uint32_t *end)
{
  uint32_t oldest = window != 0 && position >= window ? position + 1 - window : 0;
  *begin = oldest > first ? oldest - first : 0;
  *end = position + 1 > first ? position + 1 - first : 0;
  if (*end > n)
    *end = n;
}

/* The addresses of K (out[0..]) and V (out[TILE..]) of a tile's tokens from `first` on,
 * up to `end`. How many there are; K's are filled up to eights with the last one. */
static inline uint32_t tile_addresses(struct cursor *k, struct cursor *v, uint32_t first,
                                      uint32_t end, const char *out[2 * TILE])
{
  uint32_t n = end - first < TILE ? end - first : TILE;
  addresses(k, first, n, out);
  addresses(v, first, n, out + TILE);
  for (uint32_t i = n; i % 8 != 0; i++)
    out[i] = out[n - 1];
  return n;
}

/* The next tile's vectors, asked for in small helpings between products: a core can wait
 * for some 20 lines at a time, and blocks lie anywhere, which it cannot foresee. */
struct ahead {
  const char *const *token;
  unsigned left, helping; /* vectors */
  size_t bytes;           /* of one */
};

static inline void fetch(struct ahead *a)
{
  unsigned n = a->left < a->helping ? a->left : a->helping;
  a->left -= n;
  for (; n > 0; n--, a->token++) {
    for (size_t i = 0; i < a->bytes; i += 64)
      __builtin_prefetch(*a->token + i);
  }
}

/* Cuts [*begin, *end) to the tokens that any row of the task sees, begin to a tile. */
static inline void tile_range(const struct lls_attention_task *t, uint32_t *begin,
                              uint32_t *end)
{
  uint32_t past = t->first_position + t->n_rows; /* the last row sees up to there */
  uint32_t oldest, any;
  tile_visible(t->first_position, t->window, 0, past, &oldest, &any);
  oldest -= oldest % TILE;
  *begin = oldest > *begin ? oldest : *begin;
  *end = past < *end ? past : *end;
}

/* The queries [*begin, *end) that see any of tokens [first, first + n). */
static inline void tile_queries(const struct lls_attention_task *t, uint32_t first,
                                uint32_t n, uint32_t *begin, uint32_t *end)
{
  uint32_t oldest = first > t->first_position ? first - t->first_position : 0;
  uint64_t past = t->window == 0 ? UINT32_MAX : (uint64_t)first + n - 1 + t->window;
  uint64_t rows = past > t->first_position ? past - t->first_position : 0;
  rows = rows < t->n_rows ? rows : t->n_rows;
  *begin = oldest * t->group;
  *end = (uint32_t)rows * t->group;
}

/* The state of queries that have seen nothing. */
static inline void state_clear(const struct lls_attention_state *s, uint32_t queries,
                               uint32_t stride)
{
  for (uint32_t i = 0; i < queries; i++) {
    s->max[i] = -FLT_MAX;
    s->sum[i] = 0;
  }
  memset(s->values, 0, (size_t)queries * stride * sizeof(float));
}

#endif
