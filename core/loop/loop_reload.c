/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of policies in all instances at once: all change, or none. Creating a plugin
 * may take any time; it may be done on any thread and reads nothing that a later change
 * writes, so that a caller can stop waiting for it and continue.
 */
#include "core/loop/loop_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/error.h"
#include "core/cluster/migrate.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/loop/hang.h"
#include "core/policy/reload.h"
#include "core/step/disk_tier.h"
#include "core/step/step.h"

/* Returns true if instance i is in this process. */
static bool is_here(const struct lls_loop *l, uint32_t i)
{
  return !l->threads[i].instance.remote;
}

/* ---- prepare ----------------------------------------------------------------------- */

int lls_loop_prepare(struct lls_loop *l, const struct lls_loop_change *change,
                     struct lls_loop_prepared **out, struct lls_error *err)
{
  struct lls_loop_prepared *p = calloc(1, sizeof *p + l->n * sizeof p->reloads[0]);
  int rc = 0;
  if (p == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  p->loop = l;
  p->change = *change;
  for (uint32_t i = 0; i < l->n && rc == 0; i++)
    if (is_here(l, i))
      rc = lls_reload_prepare(&l->threads[i].instance, &p->change, &p->reloads[i], err);
  for (uint32_t i = 0; i < l->n && rc < 0; i++)
    lls_reload_abandon(&p->reloads[i]);
  if (rc < 0)
    free(p);
  else
    *out = p;
  return rc;
}

int lls_loop_prepared_create(struct lls_loop_prepared *p, struct lls_error *err)
{
  int rc = 0;
  atomic_store(&p->hang.trail, &lls_trail);
  for (uint32_t i = 0; i < p->loop->n && rc == 0; i++)
    rc = lls_policies_create(&p->reloads[i].next, err);
  atomic_store(&p->hang.trail, NULL);
  return rc;
}

bool lls_loop_prepared_hangs(struct lls_loop_prepared *p, int64_t now_ns,
                             int64_t limit_ns, struct lls_error *why)
{
  LLS_ON_MAIN(p->loop);
  lls_hang_look(&p->hang, &p->reloads[p->loop->mine].next, now_ns, limit_ns);
  if (p->hang.hangs)
    *why = p->hang.why;
  return p->hang.hangs;
}

void lls_loop_prepared_free(struct lls_loop_prepared *p)
{
  if (p == NULL)
    return;
  LLS_ON_MAIN(p->loop);
  if (p->shared && p->phase != LLS_PHASE_INSTALL)
    lls_remote_ask_change(p->loop->remote, LLS_PHASE_CANCEL, NULL, 0, LLS_NEVER);
  for (uint32_t i = 0; i < p->loop->n; i++)
    lls_reload_abandon(&p->reloads[i]);
  free(p);
}

/* ---- install ----------------------------------------------------------------------- */

int lls_loop_reload(struct lls_loop *l, struct lls_loop_prepared *p,
                    struct lls_error *err)
{
  struct lls_error why;
  LLS_ON_MAIN(l);
  if (l->change != NULL)
    return lls_fail(err, -EBUSY, "the reload before is not over yet");
  if (lls_loop_has_failed(l, &why))
    return lls_fail(err, -ESHUTDOWN, "the engine has failed: %s", why.text);
  l->change = p;
  lls_loop_hold_all(l);
  if (p->shared)
    lls_remote_ask_change(l->remote, p->phase = LLS_PHASE_HOLD, NULL, 0, LLS_NEVER);
  return 0;
}

int lls_loop_reload_at_once(struct lls_loop *l, const struct lls_loop_change *change,
                            struct lls_error *err)
{
  struct lls_loop_prepared *p = NULL;
  LLS_ON_MAIN(l);
  int rc = lls_loop_prepare(l, change, &p, err);
  if (rc == 0)
    rc = lls_loop_prepared_create(p, err);
  if (rc == 0)
    rc = lls_loop_reload(l, p, err);
  if (rc < 0)
    lls_loop_prepared_free(p);
  return rc;
}

void lls_loop_hold_all(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n && !l->manual; i++)
    if (is_here(l, i))
      lls_inbox_hold(&l->threads[i].inbox);
}

void lls_loop_release_all(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n && !l->manual; i++)
    if (is_here(l, i))
      lls_inbox_release(&l->threads[i].inbox);
}

bool lls_loop_all_parked(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n && !l->manual; i++)
    if (is_here(l, i) && !lls_inbox_is_parked(&l->threads[i].inbox))
      return false;
  return true;
}

/* Runs the adoption that the previous reload left to the next step, if no step has run
 * since: the current policies must know every live request before new policies take
 * over from them. */
static void adopt_all(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n; i++)
    if (l->threads[i].instance.adoption.any)
      lls_disk_tier_adopt(&l->threads[i].instance);
}

/* Returns every offered request to the instance that has its blocks. Two rounds: the
 * first posts the messages, the second receives them. */
void lls_loop_settle_all(struct lls_loop *l)
{
  adopt_all(l);
  for (int round = 0; round < 2 && l->n > 1; round++) {
    for (uint32_t i = 0; i < l->n; i++)
      if (is_here(l, i))
        lls_instance_receive(&l->threads[i].instance, INT64_MAX);
    for (uint32_t i = 0; i < l->n && round == 0; i++)
      if (is_here(l, i))
        lls_migrate_return_all(&l->threads[i].instance);
  }
}

static void disapprove(struct lls_loop *l, uint32_t n)
{
  while (n-- > 0)
    if (is_here(l, n))
      lls_reload_disapprove(&l->threads[n].instance, &l->change->reloads[n]);
}

int lls_loop_approve_all(struct lls_loop *l, struct lls_error *err)
{
  uint32_t i = 0;
  int rc = 0;
  for (; i < l->n && rc == 0; i++)
    if (is_here(l, i))
      rc = lls_reload_approve(&l->threads[i].instance, &l->change->reloads[i], err);
  if (rc < 0) /* the instance that refused has undone its part */
    disapprove(l, i - 1);
  return rc;
}

void lls_loop_disapprove_all(struct lls_loop *l)
{
  disapprove(l, l->n);
}

void lls_loop_install_all(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n; i++)
    if (is_here(l, i))
      lls_reload_install(&l->threads[i].instance, &l->change->reloads[i]);
}
