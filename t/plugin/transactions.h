/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random transactions with any cache manager in a bed: after a rollback to a mark the
 * audited state equals the one at the mark, byte for byte.
 */
#ifndef LLS_T_TRANSACTIONS_H
#define LLS_T_TRANSACTIONS_H

#include "t/tap.h"

#include "t/plugin/bed.h"

#include <errno.h>
#include <string.h>

static inline uint32_t free_in(struct bed *bed, uint32_t tier)
{
  struct lls_capacity c = {.size = sizeof c};
  assert_int_equal(bed->c->capacity(bed->cache_self, tier, &c), 0);
  return c.free_units;
}

static inline uint32_t free_units(struct bed *bed)
{
  return free_in(bed, LLS_TIER_DEVICE);
}

static inline uint32_t host_free(struct bed *bed)
{
  return free_in(bed, LLS_TIER_HOST);
}

static inline struct lls_cache_info info_of(struct bed *bed, const struct lls_live *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  assert_int_equal(bed->c->info(bed->cache_self, &r->view, &info), 0);
  return info;
}

/* Submits a prompt whose first `common` tokens are the same for all. */
static inline struct lls_live *submit(struct bed *bed, uint32_t common, uint32_t length,
                                      uint32_t output)
{
  int32_t tokens[256];
  for (uint32_t i = 0; i < length; i++)
    tokens[i] = i < common ? (int32_t)(i % 7) : (int32_t)bed_between(bed, 10, 31999);
  return bed_submit(bed, tokens, length, output);
}

static inline struct lls_live *any(struct bed *bed)
{
  uint32_t start = bed_between(bed, 0, bed->o.max_requests - 1);
  for (uint32_t i = 0; i < bed->o.max_requests; i++) {
    struct lls_live *r = bed->by_slot[(start + i) % bed->o.max_requests];
    if (r != NULL)
      return r;
  }
  return NULL;
}

/* Units of a block in that form; 0: there is none. */
static inline uint32_t units_of(const struct bed *bed, uint32_t form)
{
  const struct lls_group_form *f = lls_group_form_of(bed->in->caps.groups[0], form);
  return f != NULL ? f->block_units : 0;
}

static inline void leave(struct bed *bed, const struct lls_live *r, bool keep)
{
  const struct lls_release how = {.size = sizeof how,
                                  .flags = keep ? LLS_KEEP_PREFIX : 0};
  bed->c->release(bed->cache_self, &r->view, &how);
}

/* Tokens of the prefix that r takes, or would take; none where the manager shares none.
 */
static inline uint32_t take_prefix(struct bed *bed, const struct lls_live *r, bool take)
{
  struct lls_prefix prefix = {.size = sizeof prefix};
  int rc = bed->c->prefix(bed->cache_self, &r->view, take, &prefix);
  assert_true(rc == 0 || (rc == -ENOTSUP && prefix.tokens == 0));
  return prefix.tokens;
}

static inline void random_change(struct bed *bed, struct lls_live *r)
{
  static const uint32_t forms[] = {LLS_FORM_NONE, LLS_FORM_NONE, LLS_FORM_KV,
                                   LLS_FORM_HIDDEN};
  struct lls_cache_info info = info_of(bed, r);
  uint32_t left = lls_request_length(&r->view) - info.cached_tokens;
  switch (bed_between(bed, 0, 4)) {
  case 0:
    if (bed->c->prefix != NULL && info.cached_tokens == 0)
      take_prefix(bed, r, true);
    break;
  case 1:
    bed->c->preempt(bed->cache_self, &r->view, LLS_PREEMPT_RECOMPUTE);
    break;
  case 2:
    bed->c->preempt(bed->cache_self, &r->view, LLS_PREEMPT_SWAP);
    break;
  default:
    if (left > 0 &&
        bed->c->reserve(bed->cache_self, &r->view, bed_between(bed, 1, left),
                        forms[bed_between(bed, 0, 3)],
                        bed_between(bed, 0, 1) * LLS_MAY_DISPLACE) == LLS_RESERVE_OK)
      r->placed = LLS_PLACED_RESERVED;
  }
}

/* Does a step's copies as the engine does, and ends the transfers. */
static inline void carry_out(struct bed *bed)
{
  const struct lls_copy *copies;
  uint64_t ended = 0;
  size_t n = bed->c->copies(bed->cache_self, &copies);
  for (size_t i = 0; i < n; i++)
    if (copies[i].transfer != 0 && copies[i].transfer != ended) {
      ended = copies[i].transfer;
      bed->c->on_transfer(bed->cache_self, ended);
    }
}

/* Computes a step: tokens with reserved slots are written where the table says, after
 * all earlier tokens were read. */
static inline void compute(struct bed *bed, struct lls_live *r, uint32_t tokens)
{
  struct lls_block_table table;
  r->view.cached_tokens = info_of(bed, r).cached_tokens;
  assert_int_equal(bed->c->table(bed->cache_self, &r->view, &table), 0);
  bed->c->computed(bed->cache_self, &r->view, r->view.cached_tokens + tokens);
  r->view.cached_tokens += tokens;
  assert_string_equal(bed_found(bed), "");
}

/* Checks that attention would read the computed values of the first n tokens. */
static inline void check_slots(struct bed *bed, const struct lls_live *r, uint32_t n)
{
  const char *list;
  struct lls_block_table table;
  assert_int_equal(bed->c->table(bed->cache_self, &r->view, &table), 0);
  assert_int_equal(shadow_verify(bed_shadow(bed), table.lists, &r->view,
                                 bed->in->caps.groups[0], n, &list),
                   n);
}

/* Makes some changes, rolls some back to a mark, and compares with the state at the
 * mark. */
static inline void random_transaction(struct bed *bed)
{
  struct {
    uint32_t mark;
    char *text;
  } marks[12];
  uint32_t n = 0;
  assert_int_equal(bed->c->begin(bed->cache_self), 0);
  for (uint32_t i = 0; i < 12; i++) {
    assert_int_equal(bed_audit(bed), 0);
    marks[n].mark = n == 0 ? 0 : bed->c->mark(bed->cache_self);
    marks[n++].text = strdup(bed->text);
    for (uint32_t j = bed_between(bed, 0, 3); j > 0; j--)
      random_change(bed, any(bed));
    if (bed_between(bed, 0, 2) > 0)
      continue;
    uint32_t to = bed_between(bed, 0, n - 1);
    assert_int_equal(bed->c->rollback(bed->cache_self, marks[to].mark), 0);
    assert_int_equal(bed_audit(bed), 0);
    assert_string_equal(bed->text, marks[to].text);
    while (n > to)
      free(marks[--n].text);
  }
  while (n > 0)
    free(marks[--n].text);
  assert_int_equal(bed->c->commit(bed->cache_self), 0);
}

/* Ends the step: reserved tokens have been computed, some requests end. */
static inline void compute_and_release(struct bed *bed)
{
  for (uint32_t i = 0; i < bed->o.max_requests; i++) {
    struct lls_live *r = bed->by_slot[i];
    if (r == NULL)
      continue;
    struct lls_cache_info info = info_of(bed, r);
    uint32_t left = lls_request_length(&r->view) - info.cached_tokens;
    uint32_t room = info.free_slots < left ? info.free_slots : left;
    if (info.residency == LLS_RESIDENT_DEVICE && r->placed == LLS_PLACED_RESERVED &&
        room > 0)
      bed->c->computed(bed->cache_self, &r->view,
                       info.cached_tokens + bed_between(bed, 1, room));
    r->placed = LLS_PLACED_NOT;
    if (bed_between(bed, 0, 9) == 0)
      bed_cancel(bed, r);
  }
  assert_int_equal(bed_audit(bed), 0);
}

/* 60 steps of random transactions, for each of 20 seeds. */
static inline void check_rollback(const struct bed_options *options)
{
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct bed bed;
    struct bed_options o = *options;
    o.seed = seed;
    assert_int_equal(bed_open(&bed, &o), 0);
    uint32_t all = free_units(&bed);
    for (uint32_t step = 0; step < 60; step++) {
      for (uint32_t n = bed_between(&bed, 0, 3); n > 0 || any(&bed) == NULL; n -= n > 0) {
        bed.next.request_class = bed_between(&bed, LLS_CLASS_NONE, LLS_CLASS_BEST_EFFORT);
        submit(&bed, 16 * bed_between(&bed, 0, 4), bed_between(&bed, 64, 100), 1);
      }
      random_transaction(&bed);
      compute_and_release(&bed);
    }
    for (struct lls_live *r; (r = any(&bed)) != NULL;)
      bed_cancel(&bed, r);
    assert_int_equal(free_units(&bed), all);
    bed_close(&bed);
  }
}

static inline void empty_step(struct bed *bed)
{
  bed->c->begin(bed->cache_self);
  bed->c->commit(bed->cache_self);
  carry_out(bed);
  assert_int_equal(bed_audit(bed), 0);
}

/* Checks that attention in the next step would read the computed values. */
static inline void check_memory(struct bed *bed, const struct lls_live *r)
{
  empty_step(bed);
  check_slots(bed, r, info_of(bed, r).cached_tokens);
}

#endif
