/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two counters carry a run. The caller increments `generation`, and a worker that sees
 * it change runs the task. `pending` counts the workers still running it: the last one
 * to finish brings it to 0, and the caller returns. Both sides wait by spinning for a
 * while, then by sleeping on a futex, so an idle server uses no CPU.
 *
 * A step of a 22-layer model makes some 300 runs, a few microseconds apart: SPINS is
 * some 50 us. After such a wait a wake-up by the kernel (5 us) adds little, and the
 * core is free for other processes. Where there are more threads than cores, spinning
 * only takes time from the thread waited for, so they sleep at once.
 */
#include "kernels/cpu/threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/device/control_group.h"
#include "core/device/cores.h"

#define SPINS      2000u
#define CACHE_LINE 64

struct worker {
  /* the next item of its share that is not taken */
  _Alignas(CACHE_LINE) _Atomic size_t next;
  size_t end;
  struct lls_cpu_threads *threads;
  pthread_t handle;
  unsigned index;
  int cpu; /* the one that it runs on, if pinned */
};

struct lls_cpu_threads {
  unsigned count;
  unsigned spins;
  lls_cpu_task task; /* task of the present generation; NULL: the worker exits */
  void *arg;
  size_t grain;           /* items taken at a time */
  struct worker *workers; /* (count); [0] is the caller */
  cpu_set_t caller_cores; /* the caller's affinity before it was pinned */
  bool pinned;
  _Alignas(CACHE_LINE) _Atomic uint32_t generation;
  _Alignas(CACHE_LINE) _Atomic uint32_t pending;
  _Atomic uint32_t sleepers; /* number of workers asleep on `generation` */
};

static void pause_core(void)
{
#if defined __x86_64__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until *word differs from `old`; returns the new value. */
static uint32_t await_change(struct lls_cpu_threads *t, _Atomic uint32_t *word,
                             uint32_t old)
{
  for (unsigned i = 0; i < t->spins; i++) {
    uint32_t now = atomic_load_explicit(word, memory_order_acquire);
    if (now != old)
      return now;
    pause_core();
  }
  uint32_t now;
  atomic_fetch_add(&t->sleepers, 1);
  while ((now = atomic_load(word)) == old)
    futex_wait(word, old);
  atomic_fetch_sub(&t->sleepers, 1);
  return now;
}

/* Wakes the threads asleep on `word`, after it was changed. The changer writes the word
 * before it reads `sleepers`; a sleeper raises `sleepers` before it reads the word
 * again. So at least one of the two sees the other. */
static void wake_sleepers(struct lls_cpu_threads *t, _Atomic uint32_t *word)
{
  if (atomic_load(&t->sleepers) > 0)
    futex_wake(word);
}

static void *work(void *arg)
{
  struct worker *w = arg;
  struct lls_cpu_threads *t = w->threads;
  for (uint32_t seen = 0;;) {
    seen = await_change(t, &t->generation, seen);
    if (t->task == NULL)
      return NULL;
    t->task(t->arg, w->index, t->count);
    if (atomic_fetch_sub(&t->pending, 1) == 1)
      wake_sleepers(t, &t->pending);
  }
}

static void release_workers(struct lls_cpu_threads *t, lls_cpu_task task, void *arg)
{
  t->task = task;
  t->arg = arg;
  atomic_store(&t->pending, t->count - 1);
  atomic_fetch_add(&t->generation, 1);
  wake_sleepers(t, &t->generation);
}

void lls_cpu_run(struct lls_cpu_threads *t, lls_cpu_task task, void *arg)
{
  if (t->count == 1) {
    task(arg, 0, 1);
    return;
  }
  release_workers(t, task, arg);
  task(arg, 0, t->count);
  uint32_t left = atomic_load_explicit(&t->pending, memory_order_acquire);
  while (left != 0)
    left = await_change(t, &t->pending, left);
}

void lls_cpu_divide(struct lls_cpu_threads *t, size_t n, size_t grain)
{
  size_t grains = (n + grain - 1) / grain;
  t->grain = grain;
  for (unsigned i = 0; i < t->count; i++) {
    size_t end = grains * (i + 1) / t->count * grain;
    atomic_store_explicit(&t->workers[i].next, grains * i / t->count * grain,
                          memory_order_relaxed);
    t->workers[i].end = end < n ? end : n;
  }
}

bool lls_cpu_take(struct lls_cpu_threads *t, unsigned thread, size_t *begin, size_t *end)
{
  for (unsigned i = 0; i < t->count; i++) {
    struct worker *w = &t->workers[(thread + i) % t->count];
    if (atomic_load_explicit(&w->next, memory_order_relaxed) >= w->end)
      continue;
    size_t at = atomic_fetch_add_explicit(&w->next, t->grain, memory_order_relaxed);
    if (at >= w->end)
      continue;
    *begin = at;
    *end = w->end - at < t->grain ? w->end : at + t->grain;
    return true;
  }
  return false;
}

static void pin(pthread_t thread, int cpu)
{
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  pthread_setaffinity_np(thread, sizeof one, &one); /* a failure only costs speed */
}

/* Assigns a cpu to each thread: first one of every physical core. A NUMA node's threads
 * follow each other, so do the parts that they own of every matrix, and each takes over
 * a slower neighbour's part (lls_cpu_take) before one of another node. */
static void assign_cores(struct lls_cpu_threads *t)
{
  struct lls_core cores[CPU_SETSIZE];
  size_t n = lls_cores_list(lls_cores_folder, &t->caller_cores, LLS_CORES_APART, cores);
  for (unsigned i = 0; i < t->count; i++)
    t->workers[i].cpu = cores[i % n].cpu;
}

/* Starts worker `index`, on its own core if `pinned`. */
static int start_worker(struct lls_cpu_threads *t, unsigned index)
{
  struct worker *w = &t->workers[index];
  w->threads = t;
  w->index = index;
  int rc = pthread_create(&w->handle, NULL, work, w);
  if (rc == 0 && t->pinned)
    pin(w->handle, w->cpu);
  return -rc;
}

static void stop_workers(struct lls_cpu_threads *t, unsigned started)
{
  release_workers(t, NULL, NULL);
  for (unsigned i = 1; i < started; i++)
    pthread_join(t->workers[i].handle, NULL);
}

unsigned lls_cpu_cores(unsigned shares)
{
  cpu_set_t mine;
  double time = lls_control_group_cores(&lls_control_groups) / shares;
  int n = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
  return time >= n ? (unsigned)n : time < 1 ? 1 : (unsigned)time;
}

int lls_cpu_threads_create(unsigned n, bool pin_them, struct lls_cpu_threads **out)
{
  struct lls_cpu_threads *t;
  int rc = posix_memalign((void **)&t, CACHE_LINE, sizeof *t);
  if (rc != 0)
    return -rc;
  *t = (struct lls_cpu_threads){.pinned = pin_them};
  if (sched_getaffinity(0, sizeof t->caller_cores, &t->caller_cores) != 0) {
    rc = -errno;
    goto fail_affinity;
  }
  unsigned cores = lls_cpu_cores(1);
  t->count = n != 0 ? n : cores;
  t->spins = t->count <= cores ? SPINS : 0;
  rc = posix_memalign((void **)&t->workers, CACHE_LINE, t->count * sizeof *t->workers);
  if (rc != 0) {
    rc = -rc;
    goto fail_affinity;
  }
  assign_cores(t);
  unsigned i = 1;
  for (; i < t->count; i++) {
    rc = start_worker(t, i);
    if (rc != 0)
      goto fail_worker;
  }
  if (t->pinned)
    pin(pthread_self(), t->workers[0].cpu);
  *out = t;
  return 0;

fail_worker:
  stop_workers(t, i);
  free(t->workers);
fail_affinity:
  free(t);
  return rc;
}

void lls_cpu_threads_destroy(struct lls_cpu_threads *t)
{
  if (t == NULL)
    return;
  stop_workers(t, t->count);
  if (t->pinned)
    pthread_setaffinity_np(pthread_self(), sizeof t->caller_cores, &t->caller_cores);
  free(t->workers);
  free(t);
}

unsigned lls_cpu_threads_count(const struct lls_cpu_threads *t)
{
  return t->count;
}
