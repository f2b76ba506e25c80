/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which callbacks of plugins a thread is in. The thread notes it at the cost of some
 * stores; it reads its own trail when it crashes or exits (crash.c), and a watchdog reads
 * that of another thread: since it samples, no clock is needed on the way in.
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

/* Written by its thread alone. */
struct lls_trail {
  _Atomic uint32_t depth;     /* of calls that have not returned */
  _Atomic uint64_t calls;     /* so far */
  _Atomic uint64_t outermost; /* of these, from outside of all plugins */
  struct lls_trail_call under_way[LLS_TRAIL_DEPTH];
};

extern _Thread_local struct lls_trail lls_trail;

static inline void lls_trail_count(_Atomic uint64_t *counter)
{
  uint64_t n = atomic_load_explicit(counter, memory_order_relaxed);
  atomic_store_explicit(counter, n + 1, memory_order_relaxed);
}

/* The thread's own. Where it comes from is hidden from gcc 12, whose check for NULL under
 * UBSan goes wrong over the address of a thread's variable in a loop. */
static inline struct lls_trail *lls_trail_own(void)
{
  struct lls_trail *t = &lls_trail;
  __asm__("" : "+r"(t));
  return t;
}

/* The depth before, which lls_trail_leave goes back to. */
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

/* CALL, an expression of any type, noted as CALLBACK of a plugin of this KIND. */
#define LLS_NOTED(KIND, CALLBACK, CALL)                                                  \
  __extension__({                                                                        \
    __attribute__((cleanup(lls_trail_leave), unused)) const uint32_t lls_depth_before =  \
        lls_trail_enter(KIND, CALLBACK);                                                 \
    CALL;                                                                                \
  })

#endif
