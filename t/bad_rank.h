/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks, as threads. Rank 1 fails at the end of a step, or is late in the middle of
 * one. Rank 0 must report the reason, and neither rank may hang.
 */
#ifndef LLS_T_BAD_RANK_H
#define LLS_T_BAD_RANK_H

#include "t/drive.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

struct bad_rank {
  int (*create_device)(const struct lls_device_options *, struct lls_device **,
                       struct lls_error *);
  int sums;           /* sums over the ranks until rank 1 fails */
  bool slow;          /* rank 1 sleeps until rank 0 has given up, instead of failing */
  int64_t timeout_ns; /* applies from the second step on: the first must succeed */
};

static struct lls_device_ops bad_rank_ops;
static const struct lls_device_ops *bad_rank_good_ops;
static const struct bad_rank *bad_rank_now;
static _Atomic int bad_rank_left;    /* sums until rank 1 fails */
static _Atomic int bad_rank_noticed; /* failures reported to rank 0 */

static int bad_rank_step_end(struct lls_device *device, struct lls_error *err)
{
  int rc = bad_rank_good_ops->step_end(device, err);
  if (bad_rank_now->slow || rc < 0 || bad_rank_left > 0)
    return rc;
  return lls_fail(err, -EIO, "it fell off the bus");
}

static void bad_rank_all_reduce(struct lls_device *device, void *x, uint32_t n_rows,
                                uint32_t columns)
{
  const struct timespec a_while = {.tv_nsec = 1000000};
  bool late = atomic_fetch_sub(&bad_rank_left, 1) == 1 && bad_rank_now->slow;
  while (late && bad_rank_noticed == 0)
    nanosleep(&a_while, NULL);
  bad_rank_good_ops->all_reduce(device, x, n_rows, columns);
}

static int bad_rank_create(const struct lls_device_options *options,
                           struct lls_device **out, struct lls_error *err)
{
  int rc = bad_rank_now->create_device(options, out, err);
  if (rc < 0 || options->ranks->rank != 1)
    return rc;
  bad_rank_good_ops = (*out)->ops;
  bad_rank_ops = *bad_rank_good_ops;
  bad_rank_ops.all_reduce = bad_rank_all_reduce;
  bad_rank_ops.step_end = bad_rank_step_end;
  (*out)->ops = &bad_rank_ops;
  return 0;
}

/* Runs steps until one fails; returns how many succeeded. */
static int bad_rank_steps(struct drive_model *m, struct lls_error *err)
{
  const struct reference_prompt *p = &m->reference->prompts[0];
  struct units units;
  struct sequence s;
  int good = 0;
  units_init(&units, DRIVE_DEVICE_UNITS,
             lls_form_units(lls_engine_pool_shape(m->engine), LLS_FORM_KV));
  sequence_init(&s);
  for (uint32_t i = 0; i < p->n_prompt; i++, good++) {
    sequence_grow(&s, &units, i + 1, 16);
    const struct lls_engine_sequence one = {.tokens = p->tokens + i,
                                            .n_tokens = 1,
                                            .context = i,
                                            .table = &s.table,
                                            .sampling = &drive_greedy};
    const struct lls_engine_batch batch = {.n_sequences = 1, .sequences = &one};
    struct lls_engine_result result;
    int rc = lls_engine_submit(m->engine, &batch, err);
    if (rc == 0)
      rc = lls_engine_wait(m->engine, &result, err);
    if (rc < 0)
      return good;
    m->ranks->timeout_ns = bad_rank_now->timeout_ns;
  }
  fail_msg("no step failed");
  return good;
}

static void bad_rank_notice(void *context)
{
  (void)context;
  atomic_fetch_add(&bad_rank_noticed, 1);
}

/* Returns how many steps succeeded before rank 0 failed with that error. */
static int bad_rank_check(const struct bad_rank *bad, const char *sentence)
{
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32,
                                        .ranks = 2,
                                        .create_device = bad_rank_create};
  struct drive_model m = {0};
  struct lls_error err = {0};
  bad_rank_now = bad;
  bad_rank_left = bad->sums;
  bad_rank_noticed = 0;
  drive_open(&m, "llama", &options);
  m.ranks->timeout_ns = 600 * LLS_NS_PER_S;
  lls_ranks_on_failure(m.ranks, bad_rank_notice, NULL);
  int good = bad_rank_steps(&m, &err);
  assert_string_equal(err.text, sentence);
  assert_int_equal(bad_rank_noticed, 1);
  assert_int_equal(lls_ranks_failed(m.ranks, NULL), -ECONNABORTED);
  drive_close(&m);
  return good;
}

#endif
