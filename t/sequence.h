/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences with block tables, for tests and benchmarks of the engine. Units are handed
 * out in a mixed up order, so that no test passes because blocks happen to lie side by
 * side.
 */
#ifndef LLS_T_SEQUENCE_H
#define LLS_T_SEQUENCE_H

#include <assert.h>

#include <llmserve/types.h>

#define UNITS_MAX           4096
#define SEQUENCE_MAX_BLOCKS 256

struct units { /* a stack of free unit blocks */
  uint32_t n, free[UNITS_MAX];
};

struct sequence {
  uint32_t cached; /* tokens */
  struct lls_block_entry k[SEQUENCE_MAX_BLOCKS], v[SEQUENCE_MAX_BLOCKS];
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
  *s = (struct sequence){.table = {.form = LLS_FORM_KV, .k = s->k, .v = s->v}};
}

/* Makes the table cover so many tokens. */
static inline void sequence_grow(struct sequence *s, struct units *u, uint32_t tokens,
                                 uint32_t block_tokens)
{
  uint32_t blocks = (tokens + block_tokens - 1) / block_tokens;
  assert(blocks <= SEQUENCE_MAX_BLOCKS);
  while (s->table.k_count < blocks) {
    assert(u->n >= 2);
    uint32_t i = s->table.k_count++;
    s->table.v_count++;
    s->k[i].block = u->free[--u->n];
    s->v[i].block = u->free[--u->n];
  }
  for (uint32_t i = 0; i < blocks; i++) {
    uint32_t first = i * block_tokens, left = tokens - first;
    s->k[i].first_token = s->v[i].first_token = first;
    s->k[i].count = s->v[i].count = (uint16_t)(left < block_tokens ? left : block_tokens);
  }
}

/* Gives all units back and forgets what was cached. */
static inline void sequence_release(struct sequence *s, struct units *u)
{
  for (uint32_t i = 0; i < s->table.k_count; i++) {
    u->free[u->n++] = s->k[i].block;
    u->free[u->n++] = s->v[i].block;
  }
  sequence_init(s);
}

#endif
