/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of policies in instances of several processes: all change, or none. Process 0
 * leads the others from phase to phase; a phase ends when all have answered
 * (remote_change.c):
 *
 *   PREPARE   each process gets the data of process 0 and creates its policies, while
 *             steps run
 *   HOLD      each parks its step thread, and returns requests that were offered to it
 *   SETTLE    each returns requests that were offered to it meanwhile
 *   APPROVE   all requests are where their blocks are; each reconfigures and checks
 *   INSTALL   each continues with the new policies
 *   CANCEL    possible before INSTALL: each continues with the old policies
 *
 * Messages stay in order: a message that a process sent before its answer arrives before
 * the next phase begins. So an offer posted before HOLD was answered has arrived before
 * SETTLE begins, and a request returned in SETTLE is back before APPROVE.
 */
#include "core/loop/loop_internal.h"

#include <errno.h>
#include <time.h>

#include "core/base/error.h"
#include "core/instance/instance.h"

/* Refuses the change if a request is between two instances after SETTLE. */
static int check_settled(const struct lls_loop *l, struct lls_error *err)
{
  const struct lls_migration *h = &l->threads[l->mine].instance.migration;
  return h->n_offered == 0 && h->incoming.n == 0 && h->fetching.n == 0
             ? 0
             : lls_fail(err, -EAGAIN, "a request was on its way: reload again");
}

static int approve(struct lls_loop *l, struct lls_error *err)
{
  lls_loop_settle_all(l);
  int rc = check_settled(l, err);
  if (rc == 0)
    rc = lls_loop_approve_all(l, err);
  l->change->approved = rc == 0;
  return rc;
}

/* ---- process 0 --------------------------------------------------------------------- */

int lls_loop_prepared_share(struct lls_loop_prepared *p, const void *data, size_t n,
                            int64_t timeout_ns, struct lls_error *err)
{
  struct lls_loop *l = p->loop;
  int rc = 0;
  if (l->remote == NULL)
    return 0;
  p->shared = true;
  lls_remote_ask_change(l->remote, LLS_PHASE_PREPARE, data, n, timeout_ns);
  while (!lls_remote_change_answered(l->remote, &rc, err))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return rc;
}

/* Carries out, for this process's instance, the phase that the other processes have
 * answered. */
static int lead(struct lls_loop *l, struct lls_error *err)
{
  if (l->change->phase == LLS_PHASE_SETTLE)
    return approve(l, err);
  if (l->change->phase == LLS_PHASE_HOLD)
    lls_loop_settle_all(l);
  return 0;
}

static bool change_remote(struct lls_loop *l, int *rc, struct lls_error *err)
{
  struct lls_loop_prepared *p = l->change;
  *rc = 0;
  if (!lls_loop_all_parked(l) || !lls_remote_change_answered(l->remote, rc, err))
    return false;
  if (p->phase == LLS_PHASE_INSTALL) { /* no process can refuse INSTALL */
    *rc = 0;
    return true;
  }
  if (*rc == 0)
    *rc = lead(l, err);
  if (*rc < 0) {
    if (p->approved)
      lls_loop_disapprove_all(l);
    return true;
  }
  if (p->phase == LLS_PHASE_APPROVE)
    lls_loop_install_all(l);
  lls_remote_ask_change(l->remote, ++p->phase, NULL, 0, LLS_NEVER);
  return false;
}

/* ---- all instances ----------------------------------------------------------------- */

static int change_all(struct lls_loop *l, struct lls_error *err)
{
  lls_loop_settle_all(l);
  int rc = lls_loop_approve_all(l, err);
  if (rc == 0)
    lls_loop_install_all(l);
  return rc;
}

/* Returns true when the change has ended; *rc is its result. */
static bool change(struct lls_loop *l, int *rc, struct lls_error *err)
{
  bool installed = l->change->phase == LLS_PHASE_INSTALL;
  if (!installed && lls_loop_has_failed(l, err)) {
    *rc = -ESHUTDOWN;
    return true;
  }
  if (l->change->shared)
    return change_remote(l, rc, err);
  if (!lls_loop_all_parked(l))
    return false;
  *rc = change_all(l, err);
  return true;
}

bool lls_loop_reloaded(struct lls_loop *l, int *rc, struct lls_error *err)
{
  LLS_ON_MAIN(l);
  if (l->change == NULL || !change(l, rc, err))
    return false;
  /* if the change was installed, only the memory of the struct is left */
  lls_loop_prepared_free(l->change);
  l->change = NULL;
  lls_loop_release_all(l);
  return true;
}

/* ---- the other processes ----------------------------------------------------------- */

static int prepare(struct lls_loop *l, const char *data, size_t n, struct lls_error *err)
{
  return l->others.prepare(l->others.context, data, n, &l->change, err);
}

static int end(struct lls_loop *l, bool runs)
{
  struct lls_loop_prepared *p = l->change;
  if (runs)
    lls_loop_install_all(l);
  else if (p != NULL && p->approved)
    lls_loop_disapprove_all(l);
  bool held = p != NULL && p->phase >= LLS_PHASE_HOLD;
  lls_loop_prepared_free(p);
  l->change = NULL;
  if (held)
    lls_loop_release_all(l);
  l->others.over(l->others.context, runs);
  return 0;
}

static int settle(struct lls_loop *l, uint32_t phase)
{
  if (l->change->phase < LLS_PHASE_HOLD)
    lls_loop_hold_all(l);
  l->change->phase = phase;
  if (!lls_loop_all_parked(l))
    return -EINPROGRESS;
  lls_loop_settle_all(l);
  return 0;
}

int lls_loop_take_phase(void *loop, uint32_t phase, const char *data, size_t n,
                        struct lls_error *err)
{
  struct lls_loop *l = loop;
  LLS_ON_MAIN(l);
  if (phase == LLS_PHASE_PREPARE)
    return prepare(l, data, n, err);
  if (phase == LLS_PHASE_CANCEL)
    return end(l, false);
  if (l->change == NULL)
    return lls_fail(err, -EPROTO, "it has prepared nothing");
  if (phase == LLS_PHASE_APPROVE)
    return approve(l, err);
  return phase == LLS_PHASE_INSTALL ? end(l, true) : settle(l, phase);
}
