/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callbacks of plugins that a thread is executing. The thread records them at the
 * cost of some stores. It reads its own trail when it crashes or exits (crash.c); a
 * watchdog reads the trail of another thread by sampling, so entering a callback needs
 * no clock.
 */
#ifndef LLS_PLUGIN_TRAIL_H
#define LLS_PLUGIN_TRAIL_H

#include <stdatomic.h>
#include <stdint.h>

#define LLS_TRAIL_DEPTH 4 /* a plan calls the core, which calls the cache manager */

struct lls_trail_call {
  _Atomic uint32_t kind; /* enum lls_plugin_kind */
  _Atomic(const char *) callback;
};

/* Written only by its own thread. */
struct lls_trail {
  _Atomic uint32_t depth;     /* number of calls that have not returned */
  _Atomic uint64_t calls;     /* so far */
  _Atomic uint64_t outermost; /* number of calls made from outside of any plugin */
  struct lls_trail_call under_way[LLS_TRAIL_DEPTH];
};

extern _Thread_local struct lls_trail lls_trail;

static inline void lls_trail_count(_Atomic uint64_t *counter)
{
  uint64_t n = atomic_load_explicit(counter, memory_order_relaxed);
  atomic_store_explicit(counter, n + 1, memory_order_relaxed);
}

/* Returns the thread's own trail. The address is hidden from gcc 12, whose UBSan check
 * for NULL is wrong for the address of a thread-local variable in a loop. */
static inline struct lls_trail *lls_trail_own(void)
{
  struct lls_trail *t = &lls_trail;
  __asm__("" : "+r"(t));
  return t;
}

/* Records a call. Returns the previous depth, to be passed to lls_trail_leave. */
static inline uint32_t lls_trail_enter(uint32_t kind, const char *callback)
{
  struct lls_trail *t = lls_trail_own();
  uint32_t depth = atomic_load_explicit(&t->depth, memory_order_relaxed);
  if (depth < LLS_TRAIL_DEPTH) {
    struct lls_trail_call *call = &t->under_way[depth];
    atomic_store_explicit(&call->kind, kind, memory_order_relaxed);
    atomic_store_explicit(&call->callback, callback, memory_order_relaxed);
  }
  lls_trail_count(&t->calls);
  if (depth == 0)
    lls_trail_count(&t->outermost);
  atomic_store_explicit(&t->depth, depth + 1, memory_order_release);
  return depth;
}

static inline void lls_trail_leave(const uint32_t *depth)
{
  atomic_store_explicit(&lls_trail_own()->depth, *depth, memory_order_release);
}

/* Evaluates CALL, an expression of any type, recorded as CALLBACK of a plugin of this
 * KIND. */
#define LLS_NOTED(KIND, CALLBACK, CALL)                                                  \
  __extension__({                                                                        \
    __attribute__((cleanup(lls_trail_leave), unused)) const uint32_t lls_depth_before =  \
        lls_trail_enter(KIND, CALLBACK);                                                 \
    CALL;                                                                                \
  })

#endif
