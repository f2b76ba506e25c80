/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop itself, for the two files behind loop.h: loop.c, and for a change of policies
 * loop_reload.c.
 */
#ifndef LLS_LOOP_LOOP_INTERNAL_H
#define LLS_LOOP_LOOP_INTERNAL_H

#include "core/loop/far.h"
#include "core/loop/step_thread.h"

struct lls_loop {
  const void *main; /* trail of the first thread that called as main; checks only */
  struct lls_step_thread *threads; /* (n) */
  struct lls_instance **peers;     /* (n) theirs */
  struct lls_instance_info *infos; /* (n) theirs */
  struct lls_topology topology;
  uint32_t n;
  uint32_t mine;       /* the first that is here */
  struct lls_far *far; /* NULL: all are */
  struct lls_delivery delivery;
  struct lls_slots slots;
  _Atomic uint64_t *cancelled; /* (slots) id last cancelled there: a request is cancelled
                                  once; instances read it */
  bool manual;                 /* no threads: lls_loop_step is called instead */
  struct lls_loop_observer front;

  uint32_t max_requests, max_context, vocabulary, block_tokens, vector_columns;
  uint32_t alive; /* submitted and not yet handed out as finished */
  bool draining;
  bool asked;                       /* for the queues, and not all have answered */
  struct lls_loop_prepared *change; /* waits for a step boundary; NULL: none */
};

/* Another thread may have created it, while main showed that the model is loading. */
static inline bool lls_loop_is_on_main(struct lls_loop *l)
{
  l->main = l->main != NULL ? l->main : &lls_trail;
  return l->main == &lls_trail;
}

/* An engine of it has. */
static inline bool lls_loop_has_failed(struct lls_loop *l, struct lls_error *err)
{
  for (uint32_t i = 0; i < l->n; i++)
    if (lls_step_thread_failed(&l->threads[i], err))
      return true;
  return l->far != NULL && lls_far_failed(l->far, err);
}

#define LLS_ON_MAIN(LOOP) LLS_CHECK(lls_loop_is_on_main(LOOP))

#endif
