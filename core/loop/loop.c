/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop as main sees it: all instances as one. Everything here runs on [main]. The
 * step thread's code is in step_run.c and below, a change of policies in loop_reload.c
 * and loop_phases.c.
 */
#include "core/loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/channel/channel.h"
#include "core/cost/samples.h"
#include "core/cluster/remote_session.h"
#include "core/engine/engine.h"
#include "core/instance/block_events.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/lists.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"
#include "core/loop/hang.h"
#include "core/loop/instance_life.h"
#include "core/loop/loop_internal.h"
#include "core/loop/placing.h"
#include "core/loop/step_run.h"
#include "core/record/snapshot.h"
#include "core/step/constraint.h"
#include "core/step/step.h"

bool lls_loop_stop(struct lls_loop *l, int64_t timeout_ns)
{
  bool all = true;
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n; i++) /* first: so that all end at the same time */
    if (l->threads[i].running)
      lls_inbox_stop(&l->threads[i].inbox);
  for (uint32_t i = 0; i < l->n; i++)
    all = lls_step_thread_stop(&l->threads[i], all ? timeout_ns : 0) && all;
  return all;
}

/* ---- callbacks that do not return -------------------------------------------------- */

bool lls_loop_look(struct lls_loop *l, int64_t now_ns, int64_t limit_ns)
{
  bool hung = lls_loop_hangs(l, NULL);
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_step_thread *r = &l->threads[i];
    if (!r->instance.remote)
      lls_hang_look(&r->hang, &r->instance.policies, now_ns, limit_ns);
  }
  return lls_loop_hangs(l, NULL) != hung;
}

bool lls_loop_hangs(struct lls_loop *l, struct lls_error *why)
{
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n; i++) {
    if (!l->threads[i].hang.hangs)
      continue;
    if (why != NULL)
      *why = l->threads[i].hang.why;
    return true;
  }
  return false;
}

/* ---- steps of a manual loop -------------------------------------------------------- */

int lls_loop_step_one(struct lls_loop *l, uint32_t instance)
{
  struct lls_step_thread *r = &l->threads[instance];
  LLS_ON_MAIN(l);
  if (r->instance.health.failed)
    return -EIO;
  lls_step_thread_step(r);
  return r->instance.health.failed ? -EIO : r->busy;
}

int lls_loop_step(struct lls_loop *l)
{
  int busy = 0;
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n; i++) {
    int rc = lls_loop_step_one(l, i);
    if (rc < 0)
      return rc;
    busy |= rc;
  }
  return busy;
}

int64_t lls_loop_idle_ns(struct lls_loop *l)
{
  int64_t idle_ns = LLS_NEVER;
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n; i++) {
    int64_t ns = lls_instance_idle_ns(&l->threads[i].instance);
    if (lls_inbox_due_ns(&l->threads[i].inbox) != LLS_NEVER)
      ns = 0;
    if (ns != LLS_NEVER && (idle_ns == LLS_NEVER || ns < idle_ns))
      idle_ns = ns;
  }
  return idle_ns;
}

/* Returns the time of the instance's next step by its own clock; LLS_NEVER: none
 * without a message. */
static int64_t next_of(struct lls_step_thread *r)
{
  int64_t now_ns = lls_instance_now(&r->instance);
  int64_t idle_ns = lls_instance_idle_ns(&r->instance);
  int64_t due_ns = lls_inbox_due_ns(&r->inbox);
  if (r->busy)
    return now_ns;
  int64_t next_ns = idle_ns != LLS_NEVER ? now_ns + idle_ns : LLS_NEVER;
  if (due_ns != LLS_NEVER && due_ns < now_ns)
    due_ns = now_ns;
  return due_ns != LLS_NEVER && (next_ns == LLS_NEVER || due_ns < next_ns) ? due_ns
                                                                           : next_ns;
}

int64_t lls_loop_next_ns(struct lls_loop *l, uint32_t *instance)
{
  int64_t next_ns = LLS_NEVER;
  LLS_ON_MAIN(l);
  *instance = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    int64_t ns = next_of(&l->threads[i]);
    if (ns == LLS_NEVER || (next_ns != LLS_NEVER && ns >= next_ns))
      continue;
    next_ns = ns;
    *instance = i;
  }
  return next_ns;
}

/* ---- submit, cancel, events -------------------------------------------------------- */

static int check_submission(const struct lls_loop *l, const struct lls_submission *s,
                            struct lls_error *err)
{
  if (s->n_tokens == 0)
    return lls_fail(err, -EINVAL, "the prompt is empty");
  bool pooled = s->pooling != LLS_POOLING_NONE;
  if (pooled != (s->max_new_tokens == 0) ||
      (!pooled && lls_engine_config(l->threads[l->mine].instance.engine)->encoder))
    return lls_fail(err, -EINVAL,
                    "set max_new_tokens or pooling: a request needs tokens or a vector");
  for (uint32_t i = 0; i < s->n_tokens; i++)
    if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= l->vocabulary)
      return lls_fail(err, -EINVAL, "prompt token %d is outside the vocabulary of %u",
                      s->tokens[i], l->vocabulary);
  if (s->n_tokens > l->max_context - !pooled)
    return lls_fail(err, -E2BIG, "the prompt has %u tokens and the context holds %u%s",
                    s->n_tokens, l->max_context,
                    pooled ? "" : ": nothing is left for an answer");
  return lls_constraint_check(s->grammar, l->vocabulary, s->n_tokens, err);
}

uint32_t lls_loop_place_again(void *loop, uint32_t prompt_tokens)
{
  struct lls_step_thread *r = lls_placing_again(loop, prompt_tokens);
  return r != NULL ? r->instance.info.index : LLS_NOBODY;
}

int lls_loop_submit(struct lls_loop *l, const struct lls_submission *s, uint64_t *id,
                    struct lls_error *err)
{
  struct lls_error why;
  LLS_ON_MAIN(l);
  if (l->draining || lls_loop_failed(l, &why))
    return lls_fail(err, -ESHUTDOWN, "%s",
                    l->draining ? "the server is shutting down"
                                : "the engine has failed");
  int rc = check_submission(l, s, err);
  if (rc < 0)
    return rc;
  uint32_t slot;
  rc = lls_slots_take(&l->slots, &slot, id);
  if (rc < 0)
    return lls_fail(err, rc, "%u requests are waiting or running, which is the limit",
                    l->max_requests);
  uint32_t room = l->max_context - s->n_tokens;
  uint32_t max_new_tokens = s->max_new_tokens < room ? s->max_new_tokens : room;
  const struct lls_instance *in = &l->threads[l->mine].instance;
  int64_t arrival_ns = s->arrival_ns > 0 ? s->arrival_ns : lls_instance_now(in);
  struct lls_live_context context = l->live;
  context.eos_tokens = in->eos_tokens;
  context.n_eos_tokens = in->n_eos_tokens;
  struct lls_live *live =
      lls_live_create(s, &context, *id, slot, max_new_tokens, arrival_ns);
  if (live == NULL) {
    lls_slots_give_back(&l->slots, slot);
    return lls_fail(err, -ENOMEM, "out of memory for a request of %u tokens",
                    s->n_tokens + max_new_tokens);
  }
  rc = lls_lists_check(live, l->vocabulary, err);
  if (rc < 0) {
    lls_live_free(live);
    lls_slots_give_back(&l->slots, slot);
    return rc;
  }
  lls_sessions_enter(&l->sessions, &s->session, live);
  struct lls_step_thread *r = lls_placing_choose(l, live);
  lls_sessions_place(&l->sessions, live, r->instance.info.index);
  l->alive++;
  if (l->front.on_arrival != NULL)
    l->front.on_arrival(l->front.context, &live->view);
  lls_inbox_post(&r->inbox, live);
  return 0;
}

void lls_loop_block_events(struct lls_loop *l,
                           void (*each)(void *context, uint32_t instance,
                                        const struct lls_block_event_list *),
                           void *context)
{
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n; i++) {
    const struct lls_block_event_list list =
        lls_block_events_take(&l->threads[i].instance);
    if (list.n > 0)
      each(context, i, &list);
  }
}

void lls_loop_cancel(struct lls_loop *l, uint64_t id)
{
  _Atomic uint64_t *last = &l->cancelled[id & (l->slots.n - 1)];
  LLS_ON_MAIN(l);
  if (atomic_load(last) == id)
    return;
  atomic_store(last, id); /* first: the target of a migration checks it */
  for (uint32_t i = 0; i < l->n; i++)
    lls_inbox_cancel(&l->threads[i].inbox, id);
}

void lls_loop_events(struct lls_loop *l,
                     void (*on_event)(void *context, const struct lls_event *),
                     void *context)
{
  const struct lls_event_buffer *b = lls_delivery_take(&l->delivery);
  LLS_ON_MAIN(l);
  for (size_t i = 0; i < b->n; i++) {
    const struct lls_event *event = &b->events[i];
    if (event->kind == LLS_EVENT_FINISHED)
      lls_loop_begin_leaving(l, event);
    on_event(context, event);
    if (event->kind != LLS_EVENT_FINISHED)
      continue;
    lls_placing_note(l, event->live);
    lls_sessions_leave(&l->sessions, event->live, event->finished_ns);
    if (l->front.on_finish != NULL)
      l->front.on_finish(l->front.context, &event->live->view);
    lls_slots_give_back(&l->slots, event->live->view.slot);
    lls_live_free(event->live);
    l->alive--;
  }
}

void lls_loop_status(struct lls_loop *l, struct lls_loop_status *out)
{
  struct lls_loop_status more;
  lls_step_thread_status(&l->threads[0], out);
  for (uint32_t i = 1; i < l->n; i++) {
    lls_step_thread_status(&l->threads[i], &more);
    lls_loop_status_add(out, &more);
  }
  out->draining = l->draining;
}

void lls_loop_write_steps(struct lls_loop *l, struct lls_text *out)
{
  for (uint32_t i = 0; i < l->n; i++)
    if (l->threads[i].instance.samples != NULL)
      lls_step_samples_write(l->threads[i].instance.samples, out);
}

uint32_t lls_loop_n_instances(const struct lls_loop *l)
{
  return l->n;
}

void lls_loop_instance_status(struct lls_loop *l, uint32_t instance, uint32_t *role,
                              struct lls_loop_status *out)
{
  *role = l->infos[instance].role;
  lls_step_thread_status(&l->threads[instance], out);
}

void lls_loop_policy_stats(struct lls_loop *l, uint32_t instance,
                           struct lls_loop_policy_stats *out)
{
  lls_step_thread_policy_stats(&l->threads[instance], out);
}

static int allocate_snapshots(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_snapshot **q = &l->threads[i].snapshot;
    *q = *q != NULL ? *q : malloc(sizeof **q);
    if (*q == NULL)
      return -ENOMEM;
  }
  return 0;
}

int lls_loop_ask_snapshot(struct lls_loop *l)
{
  LLS_ON_MAIN(l);
  if (l->asked)
    return -EBUSY;
  int rc = allocate_snapshots(l);
  l->asked = rc == 0;
  for (uint32_t i = 0; i < l->n && rc == 0; i++) {
    atomic_init(&l->threads[i].snapshot->ready, false);
    lls_inbox_ask(&l->threads[i].inbox, l->threads[i].snapshot);
  }
  return rc;
}

bool lls_loop_snapshot_ready(struct lls_loop *l)
{
  bool ready = l->asked;
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n && ready; i++)
    ready = atomic_load(&l->threads[i].snapshot->ready);
  l->asked &= !ready;
  return ready;
}

const struct lls_snapshot *lls_loop_snapshot(struct lls_loop *l, uint32_t instance)
{
  LLS_ON_MAIN(l);
  return l->threads[instance].snapshot;
}

void lls_loop_drain(struct lls_loop *l)
{
  LLS_ON_MAIN(l);
  l->draining = true;
}

bool lls_loop_idle(struct lls_loop *l)
{
  LLS_ON_MAIN(l);
  return l->alive == 0;
}

bool lls_loop_failed(struct lls_loop *l, struct lls_error *err)
{
  LLS_ON_MAIN(l);
  return lls_loop_has_failed(l, err);
}

int lls_loop_await(struct lls_loop *l, const _Atomic(bool) *give_up,
                   struct lls_error *err)
{
  return l->remote != NULL ? lls_remote_await(l->remote, give_up, err) : 0;
}

int lls_loop_follow(struct lls_loop *l, struct lls_error *err)
{
  LLS_ON_MAIN(l);
  return lls_remote_follow(l->remote, err);
}

bool lls_loop_lost(struct lls_loop *l, struct lls_error *why)
{
  LLS_ON_MAIN(l);
  return l->remote != NULL && lls_remote_lost(l->remote, why);
}
