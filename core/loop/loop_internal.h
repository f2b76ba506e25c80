/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct lls_loop, for the files that implement loop.h: loop.c, loop_lives.c, and for a
 * change of policies loop_reload.c and loop_phases.c, for sessions loop_sessions.c.
 */
#ifndef LLS_LOOP_LOOP_INTERNAL_H
#define LLS_LOOP_LOOP_INTERNAL_H

#include <stdatomic.h>

#include "core/cluster/remote.h"
#include "core/loop/loop.h"
#include "core/loop/sessions.h"
#include "core/policy/reload.h"
#include "core/instance/step_thread.h"

struct lls_loop {
  const void *main; /* trail of the first thread that called as main; checks only */
  struct lls_step_thread *threads; /* (n) */
  struct lls_instance **peers;     /* (n) in threads */
  struct lls_instance_info *infos; /* (n) data of each instance */
  struct lls_topology topology;
  uint32_t n;
  uint32_t placing;          /* enum lls_placing_rule */
  uint32_t mine;             /* index of the first instance of this process */
  struct lls_remote *remote; /* NULL: no other processes */
  struct lls_delivery delivery;
  struct lls_slots slots;
  struct lls_sessions sessions;
  struct lls_guests *guests;   /* in a process other than 0: its parts of sessions */
  _Atomic uint64_t *cancelled; /* (slots) id last cancelled there: a request is cancelled
                                  once; instances read it */
  bool manual;                 /* no threads: lls_loop_step is called instead */
  struct lls_loop_observer front;

  uint32_t max_requests, max_context, vocabulary;
  struct lls_live_context live; /* shared by all requests */
  uint32_t alive;               /* submitted and not yet handed out as finished */
  atomic_bool draining; /* main sets it; lls_loop_status may be called on any thread */
  bool asked;           /* a snapshot is being collected */
  /* the change in progress, until it is installed or refused; NULL: none */
  struct lls_loop_prepared *change;
  struct lls_loop_change_ops others; /* for a process other than 0 */
};

struct lls_loop_prepared {
  struct lls_loop *loop;
  struct lls_loop_change change;
  struct lls_hang hang;        /* the thread that calls create */
  bool shared;                 /* sent to other processes */
  uint32_t phase;              /* (shared) the other processes' phase */
  bool approved;               /* this process has approved the change */
  struct lls_reload reloads[]; /* (instances) */
};

/* ---- loop_reload.c: the instances of this process */
bool lls_loop_all_parked(struct lls_loop *);
void lls_loop_hold_all(struct lls_loop *);
void lls_loop_release_all(struct lls_loop *);
/* While all threads are parked: returns every offered request to the instance that has
 * its blocks, as far as this process can. */
void lls_loop_settle_all(struct lls_loop *);
int lls_loop_approve_all(struct lls_loop *, struct lls_error *err);
void lls_loop_disapprove_all(struct lls_loop *);
void lls_loop_install_all(struct lls_loop *);

/* ---- loop_sessions.c */
int lls_loop_create_sessions(struct lls_loop *, int64_t key_bytes, struct lls_error *err);
/* Called before the event of a request's end is handed out. */
void lls_loop_begin_leaving(struct lls_loop *, const struct lls_event *);

/* ---- loop.c */
/* [channel] Returns the instance that continues a request of a lost one; LLS_NOBODY: no
 * instance can. */
uint32_t lls_loop_place_again(void *loop, uint32_t prompt_tokens);

/* ---- loop_phases.c: changes that other processes share */
/* [main] In a process other than 0: carries out a phase that process 0 has begun.
 * Returns as `prepare` of struct lls_loop_change_ops. */
int lls_loop_take_phase(void *loop, uint32_t phase, const char *data, size_t n,
                        struct lls_error *err);

/* Returns true on main, which is the first thread that calls this function. It need not
 * have created the loop: another thread may do so while main answers that the model is
 * loading. */
static inline bool lls_loop_is_on_main(struct lls_loop *l)
{
  l->main = l->main != NULL ? l->main : &lls_trail;
  return l->main == &lls_trail;
}

/* Returns true if an engine of the loop has failed. */
static inline bool lls_loop_has_failed(struct lls_loop *l, struct lls_error *err)
{
  for (uint32_t i = 0; i < l->n; i++)
    if (lls_step_thread_failed(&l->threads[i], err))
      return true;
  return l->remote != NULL && lls_remote_failed(l->remote, err);
}

#define LLS_ON_MAIN(LOOP) LLS_CHECK(lls_loop_is_on_main(LOOP))

#endif
