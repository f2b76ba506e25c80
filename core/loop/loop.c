/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop as main sees it, and the step thread itself. Everything here but thread_main
 * and what it calls runs on [main].
 */
#include "core/loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/loop/instance.h"
#include "core/loop/reload.h"
#include "core/plugin/crash.h"

struct lls_loop {
  struct lls_instance instance; /* [step], but for create and destroy */
  struct lls_inbox inbox;
  struct lls_outbox outbox;
  struct lls_request_table table; /* free slots and ids are [main]'s */
  struct lls_reload reload;       /* [main] */
  pthread_t thread;
  bool running; /* the thread was started */
  bool manual;  /* there is none: lls_loop_step is called instead */
  bool created; /* all of it */

  /* [main] */
  uint64_t *cancelled; /* (slots) id last cancelled there: a request is cancelled once */
  uint32_t max_requests, max_context, vocabulary;
  uint32_t alive; /* submitted and not yet handed out as finished */
  bool draining;
  void (*wake)(void *context);
  void *wake_context;

  /* under status_lock: written by [step] after each step, read by anyone */
  pthread_mutex_t status_lock;
  struct lls_loop_status status;
  bool failed;
  struct lls_error failure;
};

static int64_t monotonic_ns(void *context)
{
  (void)context;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

static int64_t thread_cpu_ns(void *context)
{
  (void)context;
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

/* The status first: whoever sees a request end with an error finds the loop failed. */
static void publish(struct lls_loop *l)
{
  struct lls_instance *in = &l->instance;
  pthread_mutex_lock(&l->status_lock);
  bool anything = l->outbox.filling.n > 0 || (in->failed && !l->failed);
  l->status = in->status;
  if (in->failed && !l->failed) {
    l->failed = true;
    l->failure = in->failure;
  }
  pthread_mutex_unlock(&l->status_lock);
  while (lls_outbox_publish(&l->outbox) < 0) /* main is far behind and memory is out */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  if (anything)
    l->wake(l->wake_context);
}

/* What a step has left to be done beside the next one. */
static void publish_late(void *context)
{
  struct lls_loop *l = context;
  lls_instance_count(&l->instance);
  publish(l);
}

/* After a failure only the inbox is served: what still arrives ends with ERROR. */
static void serve_failed(struct lls_loop *l)
{
  struct lls_instance *in = &l->instance;
  for (bool stop = false; !stop;) {
    lls_inbox_wait(&l->inbox, LLS_NEVER);
    lls_inbox_take(&l->inbox, &in->content);
    for (struct lls_live *live = in->content.arrivals, *next; live != NULL; live = next) {
      next = live->next;
      lls_instance_arrive(in, live);
    }
    lls_instance_finish_all(in, LLS_FINISH_ERROR);
    stop = in->content.stop;
    publish(l);
  }
}

static void *thread_main(void *argument)
{
  struct lls_loop *l = argument;
  struct lls_instance *in = &l->instance;
  bool busy = false;
  lls_crash_stack();
  while (lls_instance_step(in, &busy)) {
    if (!in->behind)
      publish(l);
    if (!busy)
      lls_inbox_wait(&l->inbox, lls_instance_idle_ns(in));
    lls_inbox_park(&l->inbox, l->wake, l->wake_context);
  }
  publish(l);
  if (in->failed)
    serve_failed(l);
  return NULL;
}

int lls_loop_step(struct lls_loop *l)
{
  bool busy = false;
  if (l->instance.failed)
    return -EIO;
  lls_instance_step(&l->instance, &busy);
  publish(l);
  return l->instance.failed ? -EIO : busy;
}

int64_t lls_loop_idle_ns(struct lls_loop *l)
{
  return lls_instance_idle_ns(&l->instance);
}

static int start_thread(struct lls_loop *l, struct lls_error *err)
{
  int rc = -pthread_create(&l->thread, NULL, thread_main, l);
  if (rc < 0)
    return lls_fail(err, rc, "cannot start the step thread: %s", strerror(-rc));
  l->running = true;
  pthread_setname_np(l->thread, "llmserve-step");
  return 0;
}

static int init_mailboxes(struct lls_loop *l, const struct lls_loop_options *o)
{
  int rc = lls_request_table_init(&l->table, o->max_requests);
  if (rc == 0)
    rc = lls_inbox_init(&l->inbox, o->max_requests);
  if (rc == 0) /* a step can send a token per sequence and end everybody alive */
    rc = lls_outbox_init(&l->outbox, lls_engine_caps(o->engine)->max_sequences +
                                         (size_t)o->max_requests);
  l->cancelled = rc == 0 ? calloc(l->table.slots, sizeof *l->cancelled) : NULL;
  return l->cancelled != NULL ? 0 : -ENOMEM;
}

int lls_loop_create(const struct lls_loop_options *o, struct lls_loop **out,
                    struct lls_error *err)
{
  struct lls_loop *l = calloc(1, sizeof *l);
  if (l == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  pthread_mutex_init(&l->status_lock, NULL);
  l->max_requests = o->max_requests;
  l->max_context = lls_engine_caps(o->engine)->max_context;
  l->vocabulary = lls_engine_config(o->engine)->vocab;
  l->wake = o->wake;
  l->wake_context = o->wake_context;
  int rc = init_mailboxes(l, o);
  if (rc < 0) {
    lls_fail(err, rc, "out of memory for %u requests", o->max_requests);
    goto fail;
  }
  struct lls_instance *in = &l->instance;
  in->table = &l->table;
  in->inbox = &l->inbox;
  in->outbox = &l->outbox;
  in->clock = o->clock != NULL ? o->clock : monotonic_ns;
  in->clock_context = o->clock_context;
  in->plan_clock = o->plan_clock != NULL ? o->plan_clock : thread_cpu_ns;
  rc = lls_instance_init(in, o, err);
  l->manual = o->manual;
  if (rc == 0 && !o->manual && lls_engine_is_asynchronous(o->engine)) {
    in->beside = publish_late;
    in->beside_context = l;
  }
  l->status = in->status; /* its histograms have their bounds before the first step */
  if (rc == 0 && !o->manual)
    rc = start_thread(l, err);
  if (rc < 0)
    goto fail;
  l->created = true;
  *out = l;
  return 0;

fail:
  lls_loop_destroy(l);
  return rc;
}

void lls_loop_destroy(struct lls_loop *l)
{
  if (l == NULL)
    return;
  if (l->running) {
    lls_inbox_stop(&l->inbox);
    pthread_join(l->thread, NULL);
  }
  if (l->created) {
    if (l->instance.adopt.any)
      lls_instance_adopt(&l->instance);
    lls_instance_finish_all(&l->instance, LLS_FINISH_CANCELLED);
    lls_outbox_publish(&l->outbox);
    const struct lls_event_buffer *events = lls_outbox_take(&l->outbox);
    for (size_t i = 0; i < events->n; i++)
      if (events->events[i].kind == LLS_EVENT_FINISHED)
        lls_live_free(events->events[i].live);
  }
  lls_reload_abandon(&l->reload);
  lls_instance_fini(&l->instance);
  lls_inbox_free(&l->inbox);
  lls_outbox_free(&l->outbox);
  lls_request_table_free(&l->table);
  free(l->cancelled);
  pthread_mutex_destroy(&l->status_lock);
  free(l);
}

/* ---- reload -------------------------------------------------------------------------
 */

int lls_loop_reload(struct lls_loop *l, const struct lls_loop_change *change,
                    struct lls_error *err)
{
  struct lls_error why;
  if (l->reload.pending)
    return lls_fail(err, -EBUSY, "the reload before is not over yet");
  if (lls_loop_failed(l, &why))
    return lls_fail(err, -ESHUTDOWN, "the engine has failed: %s", why.text);
  int rc = lls_reload_prepare(&l->instance, change, &l->reload, err);
  if (rc == 0 && !l->manual)
    lls_inbox_hold(&l->inbox);
  return rc;
}

bool lls_loop_reloaded(struct lls_loop *l, int *rc, struct lls_error *err)
{
  if (!l->reload.pending)
    return false;
  if (lls_loop_failed(l, err)) {
    lls_reload_abandon(&l->reload);
    lls_inbox_release(&l->inbox);
    *rc = -ESHUTDOWN;
    return true;
  }
  if (!l->manual && !lls_inbox_is_parked(&l->inbox))
    return false;
  *rc = lls_reload_install(&l->instance, &l->reload, err);
  if (!l->manual)
    lls_inbox_release(&l->inbox);
  return true;
}

/* ---- submit, cancel, events ---------------------------------------------------------
 */

static int check_submission(const struct lls_loop *l, const struct lls_submission *s,
                            struct lls_error *err)
{
  if (s->n_tokens == 0)
    return lls_fail(err, -EINVAL, "the prompt is empty");
  if (s->max_new_tokens == 0)
    return lls_fail(err, -EINVAL, "at least one token must be asked for");
  for (uint32_t i = 0; i < s->n_tokens; i++)
    if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= l->vocabulary)
      return lls_fail(err, -EINVAL, "prompt token %d is outside the vocabulary of %u",
                      s->tokens[i], l->vocabulary);
  if (s->n_tokens >= l->max_context)
    return lls_fail(
        err, -E2BIG,
        "the prompt has %u tokens and the context holds %u: nothing is left for an "
        "answer",
        s->n_tokens, l->max_context);
  return 0;
}

int lls_loop_submit(struct lls_loop *l, const struct lls_submission *s, uint64_t *id,
                    struct lls_error *err)
{
  struct lls_error why;
  if (l->draining || lls_loop_failed(l, &why))
    return lls_fail(err, -ESHUTDOWN, "%s",
                    l->draining ? "the server is shutting down"
                                : "the engine has failed");
  int rc = check_submission(l, s, err);
  if (rc < 0)
    return rc;
  uint32_t slot;
  rc = lls_request_table_take(&l->table, &slot, id);
  if (rc < 0)
    return lls_fail(err, rc, "%u requests are waiting or running, which is the limit",
                    l->max_requests);
  uint32_t room = l->max_context - s->n_tokens;
  uint32_t max_new_tokens = s->max_new_tokens < room ? s->max_new_tokens : room;
  int64_t arrival_ns = s->arrival_ns > 0 ? s->arrival_ns : lls_instance_now(&l->instance);
  struct lls_live *live =
      lls_live_create(s, *id, slot, max_new_tokens, arrival_ns, l->instance.eos_tokens,
                      l->instance.n_eos_tokens);
  if (live == NULL) {
    lls_request_table_give_back(&l->table, slot);
    return lls_fail(err, -ENOMEM, "out of memory for a request of %u tokens",
                    s->n_tokens + max_new_tokens);
  }
  l->alive++;
  lls_inbox_post(&l->inbox, live);
  return 0;
}

void lls_loop_cancel(struct lls_loop *l, uint64_t id)
{
  uint64_t *last = &l->cancelled[id & (l->table.slots - 1)];
  if (*last == id)
    return;
  *last = id;
  lls_inbox_cancel(&l->inbox, id);
}

void lls_loop_events(struct lls_loop *l,
                     void (*on_event)(void *context, const struct lls_event *),
                     void *context)
{
  const struct lls_event_buffer *b = lls_outbox_take(&l->outbox);
  for (size_t i = 0; i < b->n; i++) {
    const struct lls_event *event = &b->events[i];
    on_event(context, event);
    if (event->kind != LLS_EVENT_FINISHED)
      continue;
    lls_request_table_give_back(&l->table, event->live->view.slot);
    lls_live_free(event->live);
    l->alive--;
  }
}

void lls_loop_status(struct lls_loop *l, struct lls_loop_status *out)
{
  pthread_mutex_lock(&l->status_lock);
  *out = l->status;
  pthread_mutex_unlock(&l->status_lock);
  out->draining = l->draining;
}

void lls_loop_drain(struct lls_loop *l)
{
  l->draining = true;
}

bool lls_loop_idle(struct lls_loop *l)
{
  return l->alive == 0;
}

bool lls_loop_failed(struct lls_loop *l, struct lls_error *err)
{
  pthread_mutex_lock(&l->status_lock);
  bool failed = l->failed;
  if (failed && err != NULL)
    *err = l->failure;
  pthread_mutex_unlock(&l->status_lock);
  return failed;
}
