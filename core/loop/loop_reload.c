/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of policies in all instances at once: each of them changes, or none does. What
 * a plugin does when it is created is its own affair and takes its own time: that part
 * may be on any thread and reads nothing that a later change writes, so that who waits
 * for it may go on without it.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/loop/loop_internal.h"
#include "core/loop/reload.h"

struct lls_loop_prepared {
  struct lls_loop *loop;
  struct lls_loop_change change;
  struct lls_hang hang;        /* of the thread that creates them */
  struct lls_reload reloads[]; /* (instances) */
};

/* ---- prepare ----------------------------------------------------------------------- */

int lls_loop_prepare(struct lls_loop *l, const struct lls_loop_change *change,
                     struct lls_loop_prepared **out, struct lls_error *err)
{
  struct lls_loop_prepared *p = calloc(1, sizeof *p + l->n * sizeof p->reloads[0]);
  int rc = 0;
  if (p == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  if (l->far != NULL)
    rc = lls_fail(err, -ENOTSUP,
                  "instances in several processes keep the configuration that they were "
                  "started with: start the service again");
  p->loop = l;
  p->change = *change;
  for (uint32_t i = 0; i < l->n && rc == 0; i++)
    rc = lls_reload_prepare(&l->threads[i].instance, &p->change, &p->reloads[i], err);
  for (uint32_t i = 0; i < l->n && rc < 0 && l->far == NULL; i++)
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
  lls_hang_look(&p->hang, &p->reloads[0].next, now_ns, limit_ns);
  if (p->hang.hangs)
    *why = p->hang.why;
  return p->hang.hangs;
}

void lls_loop_prepared_free(struct lls_loop_prepared *p)
{
  if (p == NULL)
    return;
  LLS_ON_MAIN(p->loop);
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
  for (uint32_t i = 0; i < l->n && !l->manual; i++)
    lls_inbox_hold(&l->threads[i].inbox);
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

/* Does what the previous reload left for a step, since none may have run since: the
 * policies at work must know every live request before others take over from them. */
static void adopt_all(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n; i++)
    if (l->threads[i].instance.adoption.any)
      lls_adoption_run(&l->threads[i].instance);
}

/* No request is between two instances: each is where its blocks are. Twice, since the
 * first round posts what the second receives. */
static void settle_all(struct lls_loop *l)
{
  for (int round = 0; round < 2 && l->n > 1; round++) {
    for (uint32_t i = 0; i < l->n; i++)
      lls_instance_receive(&l->threads[i].instance, INT64_MAX);
    for (uint32_t i = 0; i < l->n && round == 0; i++)
      lls_migrate_return_all(&l->threads[i].instance);
  }
}

static int approve_all(struct lls_loop *l, struct lls_error *err)
{
  uint32_t i = 0;
  int rc = 0;
  for (; i < l->n && rc == 0; i++)
    rc = lls_reload_approve(&l->threads[i].instance, &l->change->reloads[i], err);
  if (rc < 0) /* the one that refused has undone its own */
    for (i--; i-- > 0;)
      lls_reload_disapprove(&l->threads[i].instance, &l->change->reloads[i]);
  return rc;
}

static int install_all(struct lls_loop *l, struct lls_error *err)
{
  adopt_all(l);
  settle_all(l);
  int rc = approve_all(l, err);
  for (uint32_t i = 0; i < l->n && rc == 0; i++)
    lls_reload_install(&l->threads[i].instance, &l->change->reloads[i]);
  return rc;
}

static void release_all(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n && !l->manual; i++)
    lls_inbox_release(&l->threads[i].inbox);
}

static bool all_parked(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n && !l->manual; i++)
    if (!lls_inbox_is_parked(&l->threads[i].inbox))
      return false;
  return true;
}

bool lls_loop_reloaded(struct lls_loop *l, int *rc, struct lls_error *err)
{
  LLS_ON_MAIN(l);
  if (l->change == NULL)
    return false;
  bool failed = lls_loop_has_failed(l, err);
  if (!failed && !all_parked(l))
    return false;
  *rc = failed ? -ESHUTDOWN : install_all(l, err);
  lls_loop_prepared_free(l->change); /* of one that was installed nothing is left */
  l->change = NULL;
  release_all(l);
  return true;
}
