/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop itself, for the two files behind loop.h: loop.c, and for a change of policies
 * loop_reload.c.
 */
#ifndef LLS_LOOP_LOOP_INTERNAL_H
#define LLS_LOOP_LOOP_INTERNAL_H

#include "core/cluster/remote.h"
#include "core/loop/loop.h"
#include "core/loop/reload.h"
#include "core/instance/step_thread.h"

struct lls_loop {
  const void *main; /* trail of the first thread that called as main; checks only */
  struct lls_step_thread *threads; /* (n) */
  struct lls_instance **peers;     /* (n) theirs */
  struct lls_instance_info *infos; /* (n) theirs */
  struct lls_topology topology;
  uint32_t n;
  uint32_t mine;          /* the first that is here */
  struct lls_remote *far; /* NULL: all are */
  struct lls_delivery delivery;
  struct lls_slots slots;
  _Atomic uint64_t *cancelled; /* (slots) id last cancelled there: a request is cancelled
                                  once; instances read it */
  bool manual;                 /* no threads: lls_loop_step is called instead */
  struct lls_loop_observer front;

  uint32_t max_requests, max_context, vocabulary;
  struct lls_live_context live; /* of every request */
  uint32_t alive;               /* submitted and not yet handed out as finished */
  bool draining;
  bool asked;                        /* for the queues, and not all have answered */
  struct lls_loop_prepared *change;  /* waits for a step boundary; NULL: none */
  struct lls_loop_change_ops others; /* of a process that is not 0 */
};

struct lls_loop_prepared {
  struct lls_loop *loop;
  struct lls_loop_change change;
  struct lls_hang hang;        /* of the thread that creates them */
  bool shared;                 /* other processes have prepared it too */
  uint32_t phase;              /* that those are in, once it is installed */
  bool approved;               /* here */
  struct lls_reload reloads[]; /* (instances) */
};

/* ---- loop_reload.c, of the instances of this process */
bool lls_loop_all_parked(struct lls_loop *);
void lls_loop_hold_all(struct lls_loop *);
void lls_loop_release_all(struct lls_loop *);
/* While all are parked: no request is between two instances, as far as it is for these.
 */
void lls_loop_settle_all(struct lls_loop *);
int lls_loop_approve_all(struct lls_loop *, struct lls_error *err);
void lls_loop_disapprove_all(struct lls_loop *);
void lls_loop_install_all(struct lls_loop *);

/* ---- loop_phases.c, where there are other processes */
/* [main] In a process that is not 0: a phase that process 0 has begun. As prepare of the
 * ops. */
int lls_loop_take_phase(void *loop, uint32_t phase, const char *data, size_t n,
                        struct lls_error *err);

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
  return l->far != NULL && lls_remote_failed(l->far, err);
}

#define LLS_ON_MAIN(LOOP) LLS_CHECK(lls_loop_is_on_main(LOOP))

#endif
