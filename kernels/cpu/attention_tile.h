/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the block table into one address for each token of a tile, so that the kernels
 * need not know block sizes, part-filled blocks or the order of slots.
 */
#ifndef LLS_CPU_ATTENTION_TILE_H
#define LLS_CPU_ATTENTION_TILE_H

#include <float.h>
#include <string.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/pool.h"

#define TILE 64

/* A position in a list of blocks; it only moves forward. */
struct cursor {
  const struct lls_kv_list *list;
  /* the entry of the last token looked up, or an earlier one */
  const struct lls_block_entry *entry;
};

static inline struct cursor cursor_at(const struct lls_kv_list *l, uint32_t token)
{
  uint32_t first = l->chosen != NULL ? l->chosen[token] : token;
  uint32_t entry = lls_pool_find(l->entries, l->n_entries, first);
  return (struct cursor){.list = l, .entry = l->entries + entry};
}

/* The addresses of a tile's tokens: K's, then V's. */
struct tokens {
  const char *at[2 * TILE];
  /* (2, head_dim) steps and least values of an INT8 token, else NULL; valid if int8 */
  const uint16_t *scales[2 * TILE];
  bool int8; /* some of the tokens may be INT8 */
};

/* Returns slot 0 of an entry's block and sets the bytes from slot to slot. */
static inline const char *block_of(const struct lls_kv_list *l,
                                   const struct lls_block_entry *e, size_t *slot_bytes)
{
  if (e->form != LLS_FORM_INT8) {
    *slot_bytes = l->slot_bytes;
    return l->base + e->block * l->unit_bytes;
  }
  *slot_bytes = l->head_dim;
  return l->int8 + e->block * l->unit_bytes;
}

/* Returns the scales of an entry's block; NULL: it has none. */
static inline const uint16_t *scales_of(const struct lls_kv_list *l,
                                        const struct lls_block_entry *e)
{
  if (e->form != LLS_FORM_INT8)
    return NULL;
  return (const uint16_t *)(const void *)(l->scales + e->block * l->unit_bytes);
}

/* The same as `addresses` for a list with `chosen`. */
static inline void chosen_addresses(struct cursor *c, uint32_t first, uint32_t n,
                                    const char *out[TILE], const uint16_t *scales[TILE])
{
  const struct lls_kv_list *l = c->list;
  const struct lls_block_entry *e = c->entry;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t token = l->chosen[first + i];
    while (token >= e->first_token + e->count)
      e++;
    uint32_t index = token - e->first_token;
    bool left = e->direction == LLS_LEFT_TO_RIGHT;
    uint32_t slot = left ? index : l->block_tokens - 1 - index;
    size_t slot_bytes;
    out[i] = block_of(l, e, &slot_bytes);
    out[i] += slot * slot_bytes;
    if (scales != NULL)
      scales[i] = scales_of(l, e);
  }
  c->entry = e;
}

/* Writes the addresses of tokens [first, first + n), and their scales. The list may
 * lack the first of these tokens, which no query sees. They get the address of a token
 * that exists, because their values, multiplied by 0, must be finite. */
static inline void addresses(struct cursor *c, uint32_t first, uint32_t n,
                             const char *out[TILE], const uint16_t *scales[TILE])
{
  const struct lls_kv_list *l = c->list;
  const struct lls_block_entry *e = c->entry;
  if (l->chosen != NULL) {
    chosen_addresses(c, first, n, out, scales);
    return;
  }
  uint32_t begin = lls_list_begin(l->entries, l->n_entries);
  uint32_t before = begin > first ? begin - first : 0;
  for (uint32_t i = before; i < n;) {
    while (first + i >= e->first_token + e->count)
      e++;
    uint32_t index = first + i - e->first_token;
    uint32_t run = e->count - index < n - i ? e->count - index : n - i;
    bool left = e->direction == LLS_LEFT_TO_RIGHT;
    uint32_t slot = left ? index : l->block_tokens - 1 - index;
    size_t slot_bytes;
    const char *p = block_of(l, e, &slot_bytes) + slot * slot_bytes;
    ptrdiff_t step = left ? (ptrdiff_t)slot_bytes : -(ptrdiff_t)slot_bytes;
    const uint16_t *scale = scales_of(l, e);
    for (uint32_t j = i; scales != NULL && j < i + run; j++)
      scales[j] = scale;
    for (uint32_t end = i + run; i < end; i++, p += step)
      out[i] = p;
  }
  for (uint32_t i = 0; i < before; i++) {
    out[i] = out[before];
    if (scales != NULL)
      scales[i] = scales[before];
  }
  c->entry = e;
}

/* Tokens of [first, first + n) that a row sees, relative to first. */
static inline void tile_visible(const struct lls_attention_task *t, uint32_t row,
                                uint32_t first, uint32_t n, uint32_t *begin,
                                uint32_t *end)
{
  uint32_t position = t->first_position + row, window = t->window;
  uint32_t oldest = window != 0 && position >= window ? position + 1 - window : 0;
  oldest = oldest > t->oldest ? oldest : t->oldest;
  *begin = oldest > first ? oldest - first : 0;
  *end = position + 1 > first ? position + 1 - first : 0;
  if (*end > n)
    *end = n;
}

/* Returns the distance of a token that ALiBi multiplies by a slope. It is counted from
 * the task's first row in all rows: a number that all scores of a row have in addition
 * does not change their weights. */
static inline float tile_distance(const struct lls_attention_task *t, uint32_t token)
{
  return (float)((int64_t)token - (int64_t)t->first_position);
}

/* Finds the addresses of a tile's tokens from `first` on, up to `end`, and returns
 * their number. K's are padded to a multiple of 8 with the last one. */
static inline uint32_t tile_addresses(struct cursor *k, struct cursor *v, uint32_t first,
                                      uint32_t end, struct tokens *out)
{
  uint32_t n = end - first < TILE ? end - first : TILE;
  out->int8 = k->list->int8 != NULL;
  addresses(k, first, n, out->at, out->int8 ? out->scales : NULL);
  addresses(v, first, n, out->at + TILE, out->int8 ? out->scales + TILE : NULL);
  for (uint32_t i = n; i % 8 != 0; i++) {
    out->at[i] = out->at[n - 1];
    if (out->int8)
      out->scales[i] = out->scales[n - 1];
  }
  return n;
}

/* Prefetches the next tile's vectors in short bursts between products: a core can have
 * some 20 cache lines outstanding, and its hardware prefetcher cannot predict scattered
 * blocks. */
struct ahead {
  const char *const *token;
  unsigned left, helping; /* vectors left, and in a burst */
  size_t bytes;           /* prefetched of each vector */
};

/* Returns the bytes to prefetch for a token; where INT8 blocks exist, nearly all are
 * INT8. */
static inline size_t usual_bytes(const struct lls_kv_list *l)
{
  return l->int8 != NULL ? l->head_dim : l->slot_bytes;
}

static inline void fetch(struct ahead *a)
{
  unsigned n = a->left < a->helping ? a->left : a->helping;
  a->left -= n;
  for (; n > 0; n--, a->token++) {
    for (size_t i = 0; i < a->bytes; i += 64)
      __builtin_prefetch(*a->token + i);
  }
}

/* Narrows [*begin, *end) to the tokens that any row of the task sees; begin is rounded
 * down to a tile. */
static inline void tile_range(const struct lls_attention_task *t, uint32_t *begin,
                              uint32_t *end)
{
  /* the token after the last one that the last row sees */
  uint32_t past = t->first_position + t->n_rows;
  uint32_t oldest, any;
  tile_visible(t, 0, 0, past, &oldest, &any);
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

/* Sets the state of queries that have seen no token yet. */
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
