/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the section of an exported state that any cache manager can read
 * (cache.h). Reading trusts no number in it. A writer first asks for the size, then
 * fills the memory it allocated.
 */
#ifndef LLS_POL_HOLDINGS_H
#define LLS_POL_HOLDINGS_H

#include <llmserve/cache.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline size_t lls_pol_holding_bytes(uint32_t kv_count, uint32_t x_count)
{
  return sizeof(struct lls_holding) + (2 * (size_t)kv_count + x_count) * sizeof(uint32_t);
}

/* ---- writing ----------------------------------------------------------------------- */

static inline char *
lls_pol_holding_write_units(char *to, const struct lls_block_entry *list, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++, to += sizeof(uint32_t)) {
    uint32_t unit = list[i].block;
    memcpy(to, &unit, sizeof unit);
  }
  return to;
}

/* Returns the address after the written bytes. */
static inline char *lls_pol_holding_write(char *to, const struct lls_holding *h,
                                          const struct lls_block_entry *k,
                                          const struct lls_block_entry *v,
                                          const struct lls_block_entry *x)
{
  memcpy(to, h, sizeof *h);
  to = lls_pol_holding_write_units(to + sizeof *h, k, h->kv_count);
  to = lls_pol_holding_write_units(to, v, h->kv_count);
  return lls_pol_holding_write_units(to, x, h->x_count);
}

/* ---- reading ----------------------------------------------------------------------- */

struct lls_pol_holdings { /* a position in the section */
  const char *at, *end;
  uint32_t left; /* sequences left */
  bool torn;     /* the section ends too early */
};

/* Returns -ENOTSUP unless the blob begins with holdings of a pool of this size. An odd
 * last unit, which some managers do not use, is ignored. */
static inline int lls_pol_holdings_open(struct lls_pol_holdings *w,
                                        const struct lls_blob *in, uint32_t block_tokens,
                                        uint32_t device_units)
{
  struct lls_holdings head;
  if (in->version != LLS_STATE_HOLDINGS || in->bytes < sizeof head)
    return -ENOTSUP;
  memcpy(&head, in->data, sizeof head);
  if (head.block_tokens != block_tokens || head.device_units / 2 != device_units / 2)
    return -ENOTSUP;
  if (head.bytes < sizeof head || head.bytes > in->bytes)
    return -EINVAL;
  w->at = (const char *)in->data + sizeof head;
  w->end = (const char *)in->data + head.bytes;
  w->left = head.n;
  w->torn = false;
  return 0;
}

/* Gets the next sequence and its unit numbers. Returns false at the end. */
static inline bool lls_pol_holdings_next(struct lls_pol_holdings *w,
                                         struct lls_holding *h, const char **units)
{
  if (w->left == 0)
    return false;
  w->left--;
  w->torn = (size_t)(w->end - w->at) < sizeof *h;
  if (w->torn)
    return false;
  memcpy(h, w->at, sizeof *h);
  w->torn = (size_t)(w->end - w->at) < lls_pol_holding_bytes(h->kv_count, h->x_count);
  if (w->torn)
    return false;
  *units = w->at + sizeof *h;
  w->at += lls_pol_holding_bytes(h->kv_count, h->x_count);
  return true;
}

static inline uint32_t lls_pol_holding_unit(const char *units, uint32_t i)
{
  uint32_t unit;
  memcpy(&unit, units + i * sizeof unit, sizeof unit);
  return unit;
}

/* Returns the block number of its i-th pair of units, 2b for K and 2b + 1 for V;
 * n_blocks if the units are not such a pair. */
static inline uint32_t lls_pol_holding_pair(const struct lls_holding *h,
                                            const char *units, uint32_t i,
                                            uint32_t n_blocks)
{
  uint32_t k = lls_pol_holding_unit(units, i),
           v = lls_pol_holding_unit(units, h->kv_count + i);
  return k % 2 == 0 && v == k + 1 && k / 2 < n_blocks ? k / 2 : n_blocks;
}

#ifdef __cplusplus
}
#endif

#endif
