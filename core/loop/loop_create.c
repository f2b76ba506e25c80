/* SPDX-License-Identifier: Apache-2.0 */
/* How a loop comes to be, with the threads of its instances, and how it ends. */
#include "core/loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/channel/channel.h"
#include "core/cluster/remote_session.h"
#include "core/engine/engine.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"
#include "core/loop/instance_life.h"
#include "core/loop/loop_internal.h"
#include "core/loop/placing.h"
#include "core/loop/step_run.h"
#include "core/step/disk_tier.h"

static int allocate(struct lls_loop *l, const struct lls_loop_options *o,
                    size_t events_per_step)
{
  l->threads = calloc(l->n, sizeof *l->threads);
  l->peers = calloc(l->n, sizeof(struct lls_instance *));
  l->infos = calloc(l->n, sizeof *l->infos);
  int rc = l->threads != NULL && l->peers != NULL && l->infos != NULL ? 0 : -ENOMEM;
  if (rc == 0)
    rc = lls_slots_init(&l->slots, o->max_requests);
  if (rc == 0)
    rc = lls_delivery_init(&l->delivery, events_per_step);
  l->cancelled = rc == 0 ? calloc(l->slots.n, sizeof *l->cancelled) : NULL;
  return l->cancelled != NULL ? 0 : -ENOMEM;
}

/* Checks that blocks can be copied between instance 0 and each other one. Instances of
 * other processes report this themselves (remote.c). */
static int check_alike(const struct lls_loop_instance *list, uint32_t n,
                       struct lls_error *err)
{
  for (uint32_t i = 1; i < n; i++) {
    if (list[0].engine == NULL || list[i].engine == NULL)
      continue;
    const char *why = lls_engine_why_no_pull(list[0].engine, list[i].engine);
    if (why != NULL)
      return lls_fail(err, -ENOTSUP, "instances 0 and %u cannot hand requests over: %s",
                      i, why);
  }
  return 0;
}

/* Process 0 has the table of sessions. Any other process has guests: the parts of those
 * sessions whose requests come to its instance. */
static int create_guests(struct lls_loop *l, struct lls_error *err)
{
  struct lls_step_thread *mine = &l->threads[l->mine];
  mine->instance.sessions.alone = true;
  int rc = lls_guests_create(&mine->inbox, &l->guests);
  return rc < 0 ? lls_fail(err, rc, "out of memory for sessions") : 0;
}

static int create_remote(struct lls_loop *l, const struct lls_step_thread_shared *shared,
                         struct lls_error *err)
{
  const struct lls_remote_options o = {.channel = shared->options->remote.channel,
                                       .options = shared->options,
                                       .threads = l->threads,
                                       .slots = &l->slots,
                                       .delivery = &l->delivery,
                                       .cancelled = l->cancelled,
                                       .live = l->live,
                                       .events_per_step = shared->events_per_step,
                                       .guests = l->guests,
                                       .place = lls_loop_place_again,
                                       .take_phase = lls_loop_take_phase,
                                       .context = l};
  return lls_remote_create(&o, &l->remote, err);
}

/* Describes every instance, before any thread, since each thread sees all of them. */
static void describe_instances(struct lls_loop *l, const struct lls_loop_options *o,
                               const struct lls_loop_instance *list)
{
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_instance *instance = &l->threads[i].instance;
    if (list[i].engine != NULL)
      lls_instance_describe(instance, o, &list[i], i);
    else
      instance->info = (struct lls_instance_info){.index = i, .role = list[i].role};
    l->peers[i] = instance;
    l->infos[i] = instance->info;
  }
}

/* Instances of other processes come last: they share a part of this process's own. */
static int create_threads(struct lls_loop *l, const struct lls_step_thread_shared *shared,
                          const struct lls_loop_instance *list, struct lls_error *err)
{
  int rc = 0;
  for (uint32_t i = 0; i < l->n && rc == 0; i++)
    if (list[i].engine != NULL)
      rc = lls_step_thread_init(&l->threads[i], shared, &list[i], err);
  for (uint32_t i = 0; i < l->n && rc == 0; i++)
    if (list[i].engine == NULL)
      rc = lls_step_thread_init_remote(&l->threads[i], shared, &l->threads[l->mine], i,
                                       list[i].role, err);
  return rc;
}

static int start_threads(struct lls_loop *l, struct lls_error *err)
{
  int rc = 0;
  for (uint32_t i = 0; i < l->n && rc == 0 && !l->manual; i++)
    rc = l->threads[i].instance.remote ? 0 : lls_step_thread_start(&l->threads[i], err);
  if (rc == 0 && l->remote != NULL && l->mine == 0)
    rc = lls_remote_start(l->remote, err);
  return rc;
}

/* Creates what the threads need from each other, and starts them. */
static int create_parts(struct lls_loop *l, const struct lls_step_thread_shared *shared,
                        const struct lls_loop_instance *list, struct lls_error *err)
{
  int rc = check_alike(list, l->n, err);
  describe_instances(l, shared->options, list);
  if (rc == 0)
    rc = create_threads(l, shared, list, err);
  if (rc == 0 && l->mine != 0)
    rc = create_guests(l, err);
  if (rc == 0 && shared->options->remote.channel != NULL)
    rc = create_remote(l, shared, err);
  if (rc == 0 && l->n > 1)
    rc = lls_placing_init(l, err);
  if (rc == 0)
    rc = lls_loop_create_sessions(l, shared->options->leases.key_bytes, err);
  return rc == 0 ? start_threads(l, err) : rc;
}

/* Sets what follows from the options and from this process's engine. */
static void configure(struct lls_loop *l, const struct lls_loop_options *o,
                      const struct lls_engine *engine)
{
  const struct lls_engine_caps *caps = lls_engine_caps(engine);
  uint32_t block_tokens = lls_engine_pool_shape(engine)->block_tokens;
  l->placing = o->placing;
  l->manual = o->manual;
  l->front = o->front;
  l->others = o->remote.change;
  l->max_requests = o->max_requests;
  l->max_context = caps->max_context;
  l->vocabulary = lls_engine_config(engine)->vocab;
  l->live = (struct lls_live_context){.block_tokens = l->n > 1 ? block_tokens : 0,
                                      .n_groups = caps->n_groups,
                                      .vector_columns = lls_engine_vector_columns(engine),
                                      .vocabulary = l->vocabulary,
                                      .max_drafts = caps->max_drafts,
                                      .key_tokens = block_tokens,
                                      .secret = o->key_secret};
}

/* Returns the most events of a step: it can send a token of each draw, and end every live
 * request. */
static size_t most_events(const struct lls_loop_options *o,
                          const struct lls_engine *engine)
{
  return lls_engine_caps(engine)->max_sequences + (size_t)o->max_requests +
         lls_engine_draft_rows(engine);
}

int lls_loop_create(const struct lls_loop_options *o, struct lls_loop **out,
                    struct lls_error *err)
{
  const struct lls_loop_instance alone = {.engine = o->engine};
  const struct lls_loop_instance *list = o->n_instances > 0 ? o->instances : &alone;
  struct lls_loop *l = calloc(1, sizeof *l);
  if (l == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  l->n = o->n_instances > 0 ? o->n_instances : 1;
  l->mine = o->remote.channel != NULL ? o->remote.channel->self : 0;
  configure(l, o, list[l->mine].engine);
  size_t events_per_step = most_events(o, list[l->mine].engine);
  int rc = allocate(l, o, events_per_step);
  if (rc < 0) {
    lls_fail(err, rc, "out of memory for %u requests", o->max_requests);
    goto fail;
  }
  l->topology = (struct lls_topology){
      .size = sizeof l->topology, .n_instances = l->n, .instances = l->infos};
  const struct lls_step_thread_shared shared = {.options = o,
                                                .slots = &l->slots,
                                                .delivery = &l->delivery,
                                                .topology = &l->topology,
                                                .peers = l->peers,
                                                .cancelled = l->cancelled,
                                                .events_per_step = events_per_step};
  rc = create_parts(l, &shared, list, err);
  if (rc < 0)
    goto fail;
  *out = l;
  return 0;

fail:
  lls_loop_destroy(l);
  return rc;
}

/* Drops the live requests without an event. */
static void drop_alive(struct lls_loop *l)
{
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_instance *in = &l->threads[i].instance;
    if (!l->threads[i].created)
      continue;
    if (in->adoption.any)
      lls_disk_tier_adopt(in);
    lls_disk_tier_arrive_all(in);
    lls_lifecycle_finish_all(in, LLS_FINISH_CANCELLED);
    lls_session_end_all(in);
    lls_outbox_publish(&l->threads[i].outbox);
  }
  const struct lls_event_buffer *events = lls_delivery_take(&l->delivery);
  for (size_t i = 0; i < events->n; i++)
    if (events->events[i].kind == LLS_EVENT_FINISHED)
      lls_live_free(events->events[i].live);
}

void lls_loop_destroy(struct lls_loop *l)
{
  if (l == NULL)
    return;
  LLS_ON_MAIN(l);
  if (l->threads != NULL) {
    if (l->remote != NULL)
      lls_remote_stop(l->remote);
    for (uint32_t i = 0; i < l->n; i++)
      lls_step_thread_stop(&l->threads[i], LLS_NEVER);
    drop_alive(l);
    lls_loop_prepared_free(l->change);
    lls_remote_destroy(l->remote);
    for (uint32_t i = 0; i < l->n; i++)
      lls_step_thread_end_policies(&l->threads[i]);
    for (uint32_t i = 0; i < l->n; i++)
      lls_step_thread_free(&l->threads[i]);
    lls_sessions_free(&l->sessions);
    lls_guests_free(l->guests);
  }
  lls_delivery_free(&l->delivery);
  lls_slots_free(&l->slots);
  free(l->cancelled);
  free(l->infos);
  free(l->peers);
  free(l->threads);
  free(l);
}
