/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random transactions on any cache manager over the fake host: after a rollback to a mark
 * the audited state is the one at the mark, byte for byte.
 */
#ifndef LLS_T_TRANSACTIONS_H
#define LLS_T_TRANSACTIONS_H

#include "t/tap.h"

#include "t/plugin/fake.h"

#include <string.h>

static inline uint32_t free_units(struct fake *f)
{
  struct lls_capacity c = {.size = sizeof c};
  assert_int_equal(f->c->capacity(f->cache_self, LLS_TIER_DEVICE, &c), 0);
  return c.free_units;
}

static inline struct lls_cache_info info_of(struct fake *f, const struct fake_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  assert_int_equal(f->c->info(f->cache_self, &r->view, &info), 0);
  return info;
}

/* A prompt whose first `common` tokens are the same for all. */
static inline struct fake_request *submit(struct fake *f, uint32_t common,
                                          uint32_t length, uint32_t output)
{
  int32_t tokens[256];
  for (uint32_t i = 0; i < length; i++)
    tokens[i] = i < common ? (int32_t)(i % 7) : (int32_t)fake_between(f, 10, 1 << 30);
  return fake_submit(f, tokens, length, output);
}

static inline struct fake_request *any(struct fake *f)
{
  uint32_t start = fake_between(f, 0, f->o.max_requests - 1);
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    struct fake_request *r = f->by_slot[(start + i) % f->o.max_requests];
    if (r != NULL)
      return r;
  }
  return NULL;
}

static inline void random_change(struct fake *f, struct fake_request *r)
{
  static const uint32_t forms[] = {LLS_FORM_NONE, LLS_FORM_NONE, LLS_FORM_KV,
                                   LLS_FORM_HIDDEN};
  struct lls_cache_info info = info_of(f, r);
  uint32_t left = lls_request_length(&r->view) - info.cached_tokens;
  switch (fake_between(f, 0, 4)) {
  case 0:
    if (f->c->prefix != NULL)
      f->c->prefix(f->cache_self, &r->view, true);
    break;
  case 1:
    f->c->preempt(f->cache_self, &r->view, LLS_PREEMPT_RECOMPUTE);
    break;
  case 2:
    f->c->preempt(f->cache_self, &r->view, LLS_PREEMPT_SWAP);
    break;
  default:
    if (left > 0 &&
        f->c->reserve(f->cache_self, &r->view, fake_between(f, 1, left),
                      forms[fake_between(f, 0, 3)],
                      fake_between(f, 0, 1) * LLS_MAY_DISPLACE) == LLS_RESERVE_OK)
      r->placed = PLACED_RESERVED;
  }
}

/* Some changes, some of them taken back to a mark: the state at the mark again. */
static inline void random_transaction(struct fake *f)
{
  struct {
    uint32_t mark;
    char *text;
  } marks[12];
  uint32_t n = 0;
  assert_int_equal(f->c->begin(f->cache_self), 0);
  for (uint32_t i = 0; i < 12; i++) {
    assert_int_equal(fake_audit(f), 0);
    marks[n].mark = n == 0 ? 0 : f->c->mark(f->cache_self);
    marks[n++].text = strdup(f->text);
    for (uint32_t j = fake_between(f, 0, 3); j > 0; j--)
      random_change(f, any(f));
    if (fake_between(f, 0, 2) > 0)
      continue;
    uint32_t to = fake_between(f, 0, n - 1);
    assert_int_equal(f->c->rollback(f->cache_self, marks[to].mark), 0);
    assert_int_equal(fake_audit(f), 0);
    assert_string_equal(f->text, marks[to].text);
    while (n > to)
      free(marks[--n].text);
  }
  while (n > 0)
    free(marks[--n].text);
  assert_int_equal(f->c->commit(f->cache_self), 0);
}

/* The step is over: what has room has been computed, some requests end. */
static inline void compute_and_release(struct fake *f)
{
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    struct fake_request *r = f->by_slot[i];
    if (r == NULL)
      continue;
    struct lls_cache_info info = info_of(f, r);
    uint32_t left = lls_request_length(&r->view) - info.cached_tokens;
    uint32_t room = info.free_slots < left ? info.free_slots : left;
    if (info.residency == LLS_RESIDENT_DEVICE && r->placed == PLACED_RESERVED && room > 0)
      f->c->computed(f->cache_self, &r->view,
                     info.cached_tokens + fake_between(f, 1, room));
    r->placed = PLACED_NOT;
    if (fake_between(f, 0, 9) == 0)
      fake_cancel(f, r);
  }
  assert_int_equal(fake_audit(f), 0);
}

/* 60 steps of random transactions, for each of 20 seeds. */
static inline void check_rollback(const struct fake_options *options)
{
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct fake f;
    struct fake_options o = *options;
    o.seed = seed;
    assert_int_equal(fake_open(&f, &o), 0);
    uint32_t all = free_units(&f);
    for (uint32_t step = 0; step < 60; step++) {
      for (uint32_t n = fake_between(&f, 0, 3); n > 0 || any(&f) == NULL; n -= n > 0) {
        f.next.request_class = fake_between(&f, LLS_CLASS_NONE, LLS_CLASS_BEST_EFFORT);
        submit(&f, 16 * fake_between(&f, 0, 4), fake_between(&f, 64, 100), 1);
      }
      random_transaction(&f);
      compute_and_release(&f);
    }
    for (struct fake_request *r; (r = any(&f)) != NULL;)
      fake_cancel(&f, r);
    assert_int_equal(free_units(&f), all);
    fake_close(&f);
  }
}

#endif
