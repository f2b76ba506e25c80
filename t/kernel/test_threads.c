/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the CPU kernels: each task and item runs once; sleeping threads wake
 * up; pinning; memory. */
#include "t/tap.h"

#include "core/device/host_memory.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/threads.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define MOST 8

struct count {
  unsigned calls[MOST]; /* plain: a run is a barrier */
  unsigned n_threads;
};

static void count_task(void *arg, unsigned thread, unsigned n_threads)
{
  struct count *c = arg;
  c->calls[thread]++;
  if (thread == 0)
    c->n_threads = n_threads;
}

static void test_every_thread_runs_every_task_once(void **state)
{
  (void)state;
  for (unsigned n = 1; n <= MOST; n++) {
    struct lls_cpu_threads *t;
    struct count c = {0};
    assert_int_equal(lls_cpu_threads_create(n, false, &t), 0);
    assert_int_equal(lls_cpu_threads_count(t), n);
    for (unsigned i = 1; i <= 500; i++) {
      lls_cpu_run(t, count_task, &c);
      for (unsigned k = 0; k < n; k++)
        assert_int_equal(c.calls[k], i);
    }
    assert_int_equal(c.n_threads, n);
    lls_cpu_threads_destroy(t);
  }
}

static void late_task(void *arg, unsigned thread, unsigned n_threads)
{
  if (thread == n_threads - 1)
    usleep(20000);
  count_task(arg, thread, n_threads);
}

/* Long gaps on either side: workers asleep at the start, the caller asleep at the end. */
static void test_sleepers_wake(void **state)
{
  (void)state;
  struct lls_cpu_threads *t;
  struct count c = {0};
  assert_int_equal(lls_cpu_threads_create(2, false, &t), 0);
  for (unsigned i = 1; i <= 5; i++) {
    usleep(20000);
    lls_cpu_run(t, late_task, &c);
    assert_int_equal(c.calls[0], i);
    assert_int_equal(c.calls[1], i);
  }
  usleep(20000);
  lls_cpu_threads_destroy(t);
}

struct taking {
  struct lls_cpu_threads *threads;
  _Atomic unsigned taken[200];
  bool lazy; /* all but the last thread take nothing */
};

static void take_task(void *arg, unsigned thread, unsigned n_threads)
{
  struct taking *t = arg;
  size_t begin, end;
  if (t->lazy && thread != n_threads - 1)
    return;
  while (lls_cpu_take(t->threads, thread, &begin, &end)) {
    for (size_t i = begin; i < end; i++)
      t->taken[i]++;
  }
}

static void test_every_item_is_taken_once(void **state)
{
  (void)state;
  struct taking t;
  assert_int_equal(lls_cpu_threads_create(3, false, &t.threads), 0);
  for (size_t n = 0; n <= 200; n += n < 20 ? 1 : 45) {
    for (size_t grain = 1; grain <= 64; grain *= 4) {
      memset(t.taken, 0, sizeof t.taken);
      t.lazy = n % 2 == 1;
      lls_cpu_divide(t.threads, n, grain);
      lls_cpu_run(t.threads, take_task, &t);
      for (size_t i = 0; i < 200; i++)
        assert_int_equal(t.taken[i], i < n);
    }
  }
  lls_cpu_threads_destroy(t.threads);
}

static void test_pinning_is_undone(void **state)
{
  (void)state;
  struct lls_cpu_threads *t;
  cpu_set_t before, during, after;
  sched_getaffinity(0, sizeof before, &before);
  unsigned cores = lls_cpu_cores(1);
  assert_int_equal(lls_cpu_threads_create(0, true, &t), 0);
  assert_int_equal(lls_cpu_threads_count(t), cores);
  sched_getaffinity(0, sizeof during, &during);
  assert_int_equal(CPU_COUNT(&during), 1);
  lls_cpu_threads_destroy(t);
  sched_getaffinity(0, sizeof after, &after);
  assert_true(CPU_EQUAL(&before, &after));
}

static void test_shares_cover_everything_once(void **state)
{
  (void)state;
  for (size_t n = 0; n < 70; n++) {
    for (size_t grain = 1; grain <= 16; grain *= 4) {
      for (unsigned threads = 1; threads <= MOST; threads++) {
        size_t next = 0;
        for (unsigned i = 0; i < threads; i++) {
          size_t begin, end;
          lls_cpu_share(n, grain, i, threads, &begin, &end);
          assert_int_equal(begin, next);
          assert_true(end >= begin && (begin % grain == 0 || begin == n));
          next = end;
        }
        assert_int_equal(next, n);
      }
    }
  }
}

/* Counts the panels that a thread of one NUMA node packs, and so places in its node's
 * memory, and a thread of the other node multiplies. Threads [0, n / 2) are one node's;
 * they take parts in turns, as threads of equal speed do. */
static size_t count_remote(struct lls_cpu_threads *t, size_t panels)
{
  unsigned n = lls_cpu_threads_count(t);
  size_t border, unused, begin, end, remote = 0, taken = 0;
  lls_cpu_share(panels, 1, n / 2, n, &border, &unused);
  lls_cpu_divide(t, panels, 4); /* linear.c: whole tiles */
  for (unsigned thread = 0; taken < panels; thread = (thread + 1) % n) {
    if (!lls_cpu_take(t, thread, &begin, &end))
      continue;
    for (size_t panel = begin; panel < end; panel++)
      remote += (panel < border) != (thread < n / 2);
    taken += end - begin;
  }
  return remote;
}

/* The matrices of a 1.1B model (2,048, 5,632 and 32,000 outputs, 16 a panel). */
static void test_nodes_multiply_what_they_packed(void **state)
{
  static const size_t panels[] = {128, 352, 2000};
  (void)state;
  for (unsigned n = 8; n <= 32; n *= 2) {
    struct lls_cpu_threads *t;
    assert_int_equal(lls_cpu_threads_create(n, false, &t), 0);
    for (size_t i = 0; i < 3; i++)
      assert_true(count_remote(t, panels[i]) * 20 <= panels[i]);
    lls_cpu_threads_destroy(t);
  }
}

static void test_memory_is_aligned_and_zero(void **state)
{
  (void)state;
  static const size_t sizes[] = {0, 1, 4097, (size_t)2 << 20, ((size_t)6 << 20) + 5};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *p;
    assert_int_equal(lls_cpu_memory_alloc(sizes[i], &p), 0);
    assert_int_equal((uintptr_t)p % ((uintptr_t)2 << 20), 0);
    for (size_t k = 0; k < sizes[i]; k++)
      assert_int_equal(((char *)p)[k], 0);
    memset(p, 1, sizes[i]);
    lls_cpu_memory_free(p);
  }
  void *p;
  assert_int_equal(lls_cpu_memory_alloc(SIZE_MAX / 4, &p), -ENOMEM);
  size_t total, available;
  assert_int_equal(lls_host_memory_size(&total, &available), 0);
  assert_true(total >= available && available > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_thread_runs_every_task_once),
      cmocka_unit_test(test_sleepers_wake),
      cmocka_unit_test(test_every_item_is_taken_once),
      cmocka_unit_test(test_pinning_is_undone),
      cmocka_unit_test(test_shares_cover_everything_once),
      cmocka_unit_test(test_nodes_multiply_what_they_packed),
      cmocka_unit_test(test_memory_is_aligned_and_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
