/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences with block tables, for tests and benchmarks of the engine. Units are handed
 * out in a shuffled order, so that no test passes because blocks happen to be
 * contiguous.
 */
#ifndef LLS_T_SEQUENCE_H
#define LLS_T_SEQUENCE_H

#include <assert.h>
#include <stdbool.h>

#include <llmserve/types.h>

#define UNITS_MAX           4096
#define SEQUENCE_MAX_BLOCKS 256

struct units { /* a stack of free unit blocks */
  uint32_t n, free[UNITS_MAX];
};

struct sequence {
  uint32_t cached; /* tokens */
  bool reversed;   /* every other block is filled from the right end */
  struct lls_block_entry k[SEQUENCE_MAX_BLOCKS], v[SEQUENCE_MAX_BLOCKS],
      x[SEQUENCE_MAX_BLOCKS];
  struct lls_block_table table;
};

static inline void units_init(struct units *u, uint32_t n)
{
  assert(n <= UNITS_MAX);
  u->n = n;
  for (uint32_t i = 0; i < n; i++)
    u->free[i] = i;
  for (uint32_t i = n, random = 1; i > 1; i--) {
    random = random * 1664525u + 1013904223u;
    uint32_t j = (random >> 8) % i, unit = u->free[j];
    u->free[j] = u->free[i - 1];
    u->free[i - 1] = unit;
  }
}

static inline void sequence_init(struct sequence *s)
{
  *s = (struct sequence){.table = {.form = LLS_FORM_KV, .k = s->k, .v = s->v, .x = s->x}};
}

/* Extends a list to n entries that cover `tokens` tokens. */
static inline void list_grow(struct lls_block_entry *list, uint32_t *n, struct units *u,
                             uint32_t tokens, uint32_t block_tokens, bool reversed)
{
  uint32_t blocks = (tokens + block_tokens - 1) / block_tokens;
  assert(blocks <= SEQUENCE_MAX_BLOCKS);
  while (*n < blocks) {
    assert(u->n >= 1);
    list[*n].direction = reversed && *n % 2 == 0 ? LLS_RIGHT_TO_LEFT : LLS_LEFT_TO_RIGHT;
    list[(*n)++].block = u->free[--u->n];
  }
  for (uint32_t i = 0; i < blocks; i++) {
    uint32_t first = i * block_tokens, left = tokens - first;
    list[i].first_token = first;
    list[i].count = (uint16_t)(left < block_tokens ? left : block_tokens);
  }
}

static inline void list_release(struct lls_block_entry *list, uint32_t *n,
                                struct units *u)
{
  for (; *n > 0; --*n) {
    struct lls_block_entry *e = &list[*n - 1];
    u->free[u->n++] =
        e->block >> (e->form == LLS_FORM_INT8); /* an INT8 block is alone in its unit */
    e->form = LLS_FORM_KV;
  }
}

/* Extends the table to cover `tokens` tokens, in its present form. */
static inline void sequence_grow(struct sequence *s, struct units *u, uint32_t tokens,
                                 uint32_t block_tokens)
{
  struct lls_block_table *t = &s->table;
  if (t->form == LLS_FORM_HIDDEN) {
    list_grow(s->x, &t->x_count, u, tokens, block_tokens, s->reversed);
    return;
  }
  list_grow(s->k, &t->k_count, u, tokens, block_tokens, s->reversed);
  list_grow(s->v, &t->v_count, u, tokens, block_tokens, s->reversed);
}

/* Returns all units and forgets the cached tokens. */
static inline void sequence_release(struct sequence *s, struct units *u)
{
  list_release(s->k, &s->table.k_count, u);
  list_release(s->v, &s->table.v_count, u);
  list_release(s->x, &s->table.x_count, u);
  sequence_init(s);
}

#endif
