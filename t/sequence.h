/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences with block tables, for tests and benchmarks of the engine. Blocks are handed
 * out in a mixed up order, so that no test passes because blocks happen to lie side by
 * side. A block of any form takes the room of one in KV form.
 */
#ifndef LLS_T_SEQUENCE_H
#define LLS_T_SEQUENCE_H

#include <assert.h>
#include <stdbool.h>

#include <llmserve/types.h>

#define UNITS_MAX           4096
#define SEQUENCE_MAX_BLOCKS 256

struct units { /* a stack of free blocks */
  uint32_t n, free[UNITS_MAX];
};

struct sequence {
  uint32_t cached; /* tokens */
  bool hidden;     /* its blocks are to be in hidden form */
  bool reversed;   /* every other block is filled from the right */
  struct lls_block_entry kv[SEQUENCE_MAX_BLOCKS], x[SEQUENCE_MAX_BLOCKS];
  uint32_t n_kv, n_x;
  struct lls_group_list list;
  struct lls_block_table table;
};

/* The blocks of n units, with block_units units each. */
static inline void units_init(struct units *u, uint32_t n, uint32_t block_units)
{
  u->n = n / block_units;
  assert(u->n <= UNITS_MAX);
  for (uint32_t i = 0; i < u->n; i++)
    u->free[i] = i * block_units;
  for (uint32_t i = u->n, random = 1; i > 1; i--) {
    random = random * 1664525u + 1013904223u;
    uint32_t j = (random >> 8) % i, unit = u->free[j];
    u->free[j] = u->free[i - 1];
    u->free[i - 1] = unit;
  }
}

static inline void sequence_init(struct sequence *s)
{
  *s = (struct sequence){0};
  s->table = (struct lls_block_table){.n_groups = 1, .lists = &s->list};
}

/* Extends a list to n entries that cover `tokens` tokens. */
static inline void list_grow(struct lls_block_entry *list, uint32_t *n, struct units *u,
                             uint32_t tokens, uint32_t block_tokens, uint8_t form,
                             bool reversed)
{
  uint32_t blocks = (tokens + block_tokens - 1) / block_tokens;
  assert(blocks <= SEQUENCE_MAX_BLOCKS);
  while (*n < blocks) {
    assert(u->n >= 1);
    list[*n].direction = reversed && *n % 2 == 0 ? LLS_RIGHT_TO_LEFT : LLS_LEFT_TO_RIGHT;
    list[*n].form = form;
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
  for (; *n > 0; --*n)
    u->free[u->n++] = list[*n - 1].block;
}

/* Shows the lists that the sequence has in its table. */
static inline void sequence_show(struct sequence *s)
{
  s->list = (struct lls_group_list){
      .entries = s->hidden ? s->x : s->kv,
      .restored = s->x,
      .n_entries = s->hidden ? s->n_x : s->n_kv,
      .n_restored = s->hidden ? 0 : s->n_x,
  };
}

/* Extends the table to cover `tokens` tokens, in its present form. */
static inline void sequence_grow(struct sequence *s, struct units *u, uint32_t tokens,
                                 uint32_t block_tokens)
{
  if (s->hidden)
    list_grow(s->x, &s->n_x, u, tokens, block_tokens, LLS_FORM_HIDDEN, s->reversed);
  else
    list_grow(s->kv, &s->n_kv, u, tokens, block_tokens, LLS_FORM_KV, s->reversed);
  sequence_show(s);
}

/* Gives all blocks back and forgets what was cached. */
static inline void sequence_release(struct sequence *s, struct units *u)
{
  list_release(s->kv, &s->n_kv, u);
  list_release(s->x, &s->n_x, u);
  sequence_init(s);
}

#endif
