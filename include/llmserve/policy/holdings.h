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

/* Bytes of a sequence with n_lists lists of n_blocks blocks together. */
static inline size_t lls_pol_holding_bytes(uint32_t n_lists, size_t n_blocks)
{
  return sizeof(struct lls_holding) + n_lists * sizeof(struct lls_held_list) +
         n_blocks * sizeof(uint32_t);
}

/* ---- writing ----------------------------------------------------------------------- */

/* Behind what it wrote. */
static inline char *lls_pol_holding_write(char *to, const struct lls_holding *h)
{
  memcpy(to, h, sizeof *h);
  return to + sizeof *h;
}

static inline char *lls_pol_holding_write_list(char *to, const struct lls_held_list *list,
                                               const struct lls_block_entry *entries)
{
  memcpy(to, list, sizeof *list);
  to += sizeof *list;
  for (uint32_t i = 0; i < list->n_blocks; i++, to += sizeof(uint32_t)) {
    uint32_t unit = entries[i].block;
    memcpy(to, &unit, sizeof unit);
  }
  return to;
}

/* ---- reading ----------------------------------------------------------------------- */

struct lls_pol_holdings { /* a position in the section */
  const char *at, *end;
  uint32_t left; /* sequences left */
  bool torn;     /* the section ends too early */
};

/* -ENOTSUP unless the blob begins with holdings of such a pool; units that make no whole
 * block in KV form, which some managers have no use for, do not count. */
static inline int lls_pol_holdings_open(struct lls_pol_holdings *w,
                                        const struct lls_blob *in, uint32_t block_tokens,
                                        uint32_t device_units, uint32_t block_units)
{
  struct lls_holdings head;
  if (in->version != LLS_STATE_HOLDINGS || in->bytes < sizeof head)
    return -ENOTSUP;
  memcpy(&head, in->data, sizeof head);
  if (head.block_tokens != block_tokens ||
      head.device_units / block_units != device_units / block_units)
    return -ENOTSUP;
  if (head.bytes < sizeof head || head.bytes > in->bytes)
    return -EINVAL;
  w->at = (const char *)in->data + sizeof head;
  w->end = (const char *)in->data + head.bytes;
  w->left = head.n;
  w->torn = false;
  return 0;
}

/* Passes by that many bytes; NULL, and torn: there are not so many. */
static inline const char *lls_pol_holdings_take(struct lls_pol_holdings *w, size_t bytes)
{
  const char *at = w->at;
  w->torn |= (size_t)(w->end - w->at) < bytes;
  if (w->torn)
    return NULL;
  w->at += bytes;
  return at;
}

#define LLS_POL_HELD_LISTS                                                               \
  2 /* in this version: one, and one that it is restored from                            \
     */

/* A sequence's list of blocks. */
struct lls_pol_held {
  struct lls_held_list list;
  const char *units; /* their numbers */
};

static inline uint32_t lls_pol_held_unit(const struct lls_pol_held *h, uint32_t i)
{
  uint32_t unit;
  memcpy(&unit, h->units + i * sizeof unit, sizeof unit);
  return unit;
}

/* The next sequence and its first lists; *n says how many there are, of which those
 * beyond LLS_POL_HELD_LISTS are left out. False at the end. */
static inline bool lls_pol_holdings_next(struct lls_pol_holdings *w,
                                         struct lls_holding *h,
                                         struct lls_pol_held lists[LLS_POL_HELD_LISTS],
                                         uint32_t *n)
{
  const char *at = w->left > 0 ? lls_pol_holdings_take(w, sizeof *h) : NULL;
  if (at == NULL)
    return false;
  w->left--;
  memcpy(h, at, sizeof *h);
  *n = h->n_lists;
  for (uint32_t i = 0; i < h->n_lists && !w->torn; i++) {
    struct lls_pol_held one;
    at = lls_pol_holdings_take(w, sizeof one.list);
    if (at == NULL)
      return false;
    memcpy(&one.list, at, sizeof one.list);
    one.units = lls_pol_holdings_take(w, one.list.n_blocks * sizeof(uint32_t));
    if (i < LLS_POL_HELD_LISTS)
      lists[i] = one;
  }
  return !w->torn;
}

/* Is the sequence one list of blocks in KV form, from the first token on? */
static inline bool lls_pol_holding_is_plain(const struct lls_pol_held *lists, uint32_t n)
{
  return n == 1 && lists[0].list.group == 0 && lists[0].list.form == LLS_FORM_KV &&
         lists[0].list.first_token == 0;
}

#ifdef __cplusplus
}
#endif

#endif
