/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks as threads of one process. No data is copied for sending: each rank publishes
 * the address of its data, all meet, each does its share of the work on the memory of
 * all ranks, and all meet again. A sum is computed slice by slice in the order of
 * ranks, so it is the same on all ranks and in every run.
 *
 * A meeting is a counter and a turn. Waiting for it is as in kernels/cpu/threads.c:
 * spinning for some 50 us, then sleeping on a futex; a step of a 32-layer model has 130
 * meetings. A sleeping rank wakes from time to time, to check for the group's failure
 * and the time limit.
 */
#include "core/ranks/ranks.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/check.h"

#define SPINS      2000u
#define CACHE_LINE 64
#define LOOK_UP_NS 20000000 /* time between two checks of a sleeping rank */

struct group;

/* A rank, and the data that it publishes. */
struct member {
  struct lls_ranks base; /* first */
  struct group *group;
  _Alignas(CACHE_LINE) _Atomic uint32_t came; /* the last turn at which it arrived */
  void *data, *whole;
};

struct group {
  struct lls_ranks_failure failure;
  uint32_t size;
  unsigned spins;
  _Atomic uint32_t handles; /* handles not yet destroyed */
  _Alignas(CACHE_LINE) _Atomic uint32_t arrived;
  _Alignas(CACHE_LINE) _Atomic uint32_t turn; /* number of meetings so far */
  _Atomic uint32_t sleepers;
  struct member members[]; /* (size) */
};

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- meeting ------------------------------------------------------------------ */

static void sleep_on(struct group *g, uint32_t turn)
{
  const struct timespec look_up = {.tv_nsec = LOOK_UP_NS};
  atomic_fetch_add(&g->sleepers, 1);
  if (atomic_load(&g->turn) == turn)
    syscall(SYS_futex, &g->turn, FUTEX_WAIT_PRIVATE, turn, &look_up, NULL, 0);
  atomic_fetch_sub(&g->sleepers, 1);
}

static int too_long(struct member *m, uint32_t turn)
{
  struct group *g = m->group;
  for (uint32_t i = 0; i < g->size; i++)
    if (atomic_load(&g->members[i].came) != turn + 1) {
      lls_ranks_failure_set(&g->failure, "rank %u did not come within %lld ms", i,
                            (long long)(m->base.timeout_ns / 1000000));
      break;
    }
  return -ECONNABORTED;
}

static int sleep_for_turn(struct member *m, uint32_t turn, bool patient)
{
  struct group *g = m->group;
  int64_t since_ns = now_ns();
  int rc = 0;
  if (!patient)
    atomic_store(&m->base.waits_since_ns, since_ns);
  while (rc == 0 && atomic_load(&g->turn) == turn) {
    if (atomic_load(&g->failure.failed))
      rc = -ECONNABORTED;
    else if (!patient && now_ns() - since_ns > m->base.timeout_ns)
      rc = too_long(m, turn);
    else
      sleep_on(g, turn);
  }
  atomic_store(&m->base.waits_since_ns, 0);
  return rc;
}

static int wait_for_turn(struct member *m, uint32_t turn, bool patient)
{
  struct group *g = m->group;
  for (unsigned i = 0; i < g->spins; i++) {
    if (atomic_load_explicit(&g->turn, memory_order_acquire) != turn)
      return 0;
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
  }
  return sleep_for_turn(m, turn, patient);
}

/* Returns when all ranks have arrived; each then sees the earlier writes of all
 * others. */
static int meet(struct member *m, bool patient)
{
  struct group *g = m->group;
  if (atomic_load(&g->failure.failed))
    return -ECONNABORTED;
  uint32_t turn = atomic_load(&g->turn);
  LLS_CHECK(atomic_load(&m->came) == turn); /* only the rank's own thread arrives, once
                                             * per turn */
  atomic_store(&m->came, turn + 1);
  if (atomic_fetch_add(&g->arrived, 1) + 1 < g->size)
    return wait_for_turn(m, turn, patient);
  atomic_store(&g->arrived, 0);
  atomic_fetch_add(&g->turn, 1);
  if (atomic_load(&g->sleepers) > 0)
    syscall(SYS_futex, &g->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  return 0;
}

static struct member *member(struct lls_ranks *r)
{
  return (struct member *)r;
}

/* ---- operations --------------------------------------------------------------- */

#define SLICE 1024 /* elements summed at a time: 4 KiB of each rank stay in the cache */

static void sum_slice(const struct group *g, size_t first, size_t n)
{
  float sums[SLICE];
  memcpy(sums, (const float *)g->members[0].data + first, n * sizeof *sums);
  for (uint32_t rank = 1; rank < g->size; rank++) {
    const float *x = (const float *)g->members[rank].data + first;
    for (size_t i = 0; i < n; i++)
      sums[i] += x[i];
  }
  for (uint32_t rank = 0; rank < g->size; rank++)
    memcpy((float *)g->members[rank].data + first, sums, n * sizeof *sums);
}

static int sum(struct lls_ranks *r, float *x, size_t n)
{
  member(r)->data = x;
  int rc = meet(member(r), false);
  if (rc < 0)
    return rc;
  size_t end = lls_ranks_first(n, r->rank + 1, r->size);
  for (size_t at = lls_ranks_first(n, r->rank, r->size), m; at < end; at += m) {
    m = end - at < SLICE ? end - at : SLICE;
    sum_slice(member(r)->group, at, m);
  }
  return meet(member(r), false);
}

static int gather(struct lls_ranks *r, const float *part, size_t rows, size_t columns,
                  bool to_all, float *whole)
{
  const struct group *g = member(r)->group;
  member(r)->whole = whole;
  int rc = meet(member(r), false);
  if (rc < 0)
    return rc;
  size_t first = lls_ranks_first(columns, r->rank, r->size);
  size_t share = lls_ranks_first(columns, r->rank + 1, r->size) - first;
  for (uint32_t to = 0; to < (to_all ? g->size : 1); to++)
    for (size_t row = 0; row < rows; row++)
      memcpy((float *)g->members[to].whole + row * columns + first, part + row * share,
             share * sizeof *part);
  return meet(member(r), false);
}

static int broadcast(struct lls_ranks *r, void *data, size_t bytes)
{
  member(r)->data = data;
  int rc = meet(member(r), r->rank > 0);
  if (rc < 0)
    return rc;
  if (r->rank > 0)
    memcpy(data, member(r)->group->members[0].data, bytes);
  return meet(member(r), false);
}

static int exchange(struct lls_ranks *r, const void *mine, size_t bytes, void *all)
{
  const struct group *g = member(r)->group;
  member(r)->data = (void *)mine;
  int rc = meet(member(r), true);
  for (uint32_t rank = 0; rc == 0 && rank < g->size; rank++)
    memcpy((char *)all + rank * bytes, g->members[rank].data, bytes);
  return rc < 0 ? rc : meet(member(r), true);
}

/* ---- creation and end --------------------------------------------------------- */

static void destroy(struct lls_ranks *r)
{
  struct group *g = member(r)->group;
  LLS_CHECK(atomic_load(&g->handles) > 0 && g->members[r->rank].group == g);
  if (atomic_fetch_sub(&g->handles, 1) > 1)
    return;
  lls_ranks_failure_fini(&g->failure);
  free(g);
}

static const struct lls_ranks_ops ops = {
    .name = "threads",
    .one_process = true,
    .sum = sum,
    .gather = gather,
    .broadcast = broadcast,
    .exchange = exchange,
    .destroy = destroy,
};

static bool enough_cores(uint32_t size)
{
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 &&
         (uint32_t)CPU_COUNT(&cores) >= size;
}

int lls_ranks_threads(uint32_t size, int64_t timeout_ns, struct lls_ranks **handles,
                      struct lls_error *err)
{
  size_t bytes = sizeof(struct group) + size * sizeof(struct member);
  struct group *g;
  if (posix_memalign((void **)&g, CACHE_LINE, bytes) != 0)
    return lls_fail(err, -ENOMEM, "no memory for %u ranks", size);
  memset(g, 0, bytes);
  lls_ranks_failure_init(&g->failure);
  g->size = size;
  g->handles = size;
  g->spins = enough_cores(size) ? SPINS : 0;
  for (uint32_t rank = 0; rank < size; rank++) {
    g->members[rank].group = g;
    g->members[rank].base = (struct lls_ranks){
        .ops = &ops,
        .rank = rank,
        .size = size,
        .local_rank = rank,
        .local_size = size,
        .shares_cores = true,
        .timeout_ns = timeout_ns,
        .failure = &g->failure,
    };
    handles[rank] = &g->members[rank].base;
  }
  return 0;
}
