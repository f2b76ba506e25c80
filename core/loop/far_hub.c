/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process 0: where every request is that lives in another process, from the messages
 * about it, all of which come by here; and what becomes of it when that process is gone.
 */
#include "core/loop/far_internal.h"

#include "core/config/instance_list.h"

#define FAILED_TRIES 100 /* a millisecond each, for an answer to get out */

/* ---- events ------------------------------------------------------------------------ */

void lls_hub_publish(struct lls_far *far)
{
  if (far->outbox.filling.n == 0)
    return;
  while (lls_outbox_publish(&far->outbox) < 0) /* main is far behind, and memory is out */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  far->wake(far->wake_context);
}

static struct lls_event *add_event(struct lls_far *far)
{
  if (far->outbox.filling.n >= far->events_per_step)
    lls_hub_publish(far);
  return lls_outbox_add(&far->outbox);
}

static void forget(struct lls_away *a)
{
  free(a->offer);
  *a = (struct lls_away){.source = LLS_NOBODY, .again = a->again};
}

static void receive_events(struct lls_far *far, uint32_t from, struct lls_unpack *u)
{
  uint64_t id = 0;
  while (lls_wire_next_event(u, &id)) {
    struct lls_away *a = &far->away[id & (far->n_slots - 1)];
    if (a->home == NULL || a->home->view.id != id || a->at != from) {
      lls_wire_skip_event(u);
      continue;
    }
    struct lls_event *event = add_event(far);
    lls_wire_unpack_event(&far->wire, u, a->home, event);
    if (event->kind == LLS_EVENT_FINISHED)
      forget(a);
  }
}

/* Nobody needs its blocks any more. */
static void settle(struct lls_far *far, const struct lls_away *a)
{
  if (a->source == 0) {
    lls_inbox_settle(&far->mine->inbox, a->home->view.slot, LLS_NEVER);
  } else if (a->source != LLS_NOBODY) {
    struct lls_pack p = lls_far_message(far, LLS_FAR_SETTLED, a->source);
    ((struct lls_far_head *)(void *)p.data)->slot = a->home->view.slot;
    lls_far_send(far, &p);
  }
}

/* With an error, since no instance is there to end it. */
static void end(struct lls_far *far, struct lls_away *a)
{
  struct lls_live *home = a->home;
  struct lls_request *v = &home->view;
  settle(far, a);
  v->finish_reason = LLS_FINISH_ERROR;
  struct lls_event *event = add_event(far);
  *event = (struct lls_event){.kind = LLS_EVENT_FINISHED,
                              .reason = LLS_FINISH_ERROR,
                              .request = v->id,
                              .owner = home->owner,
                              .lost = true,
                              .prompt_tokens = v->prompt_tokens,
                              .generated_tokens = v->generated_tokens,
                              .shared_tokens = home->prefix_tokens,
                              .preemptions = v->preemptions,
                              .arrival_ns = v->arrival_ns,
                              .first_scheduled_ns = v->first_scheduled_ns,
                              .first_token_ns = home->first_token_ns,
                              .finished_ns = lls_far_now(far),
                              .prediction = v->prediction,
                              .life = &home->life,
                              .live = home};
  forget(a);
}

/* ---- requests on their way --------------------------------------------------------- */

/* Back to where its blocks are, if they are; else it is prefilled again, where there is
 * an instance for that. */
static void turn(struct lls_far *far, struct lls_far_head *head)
{
  bool offered = head->mail == LLS_MAIL_OFFER;
  head->mail = offered ? LLS_MAIL_RETURN : LLS_MAIL_AGAIN;
  head->target = offered ? head->source : far->place(far->context);
}

/* To its target or, where that is gone, elsewhere. data: (bytes) a head, which is written
 * anew, and the packed request; taken over. */
static void route(struct lls_far *far, struct lls_far_head *head, char *data,
                  size_t bytes)
{
  struct lls_away *a = &far->away[head->slot];
  bool turned = false;
  while (head->target != LLS_NOBODY && far->others[head->target].gone) {
    turn(far, head);
    turned = true;
  }
  if (far->failed || head->target == LLS_NOBODY) {
    end(far, a);
    free(data);
    return;
  }
  memcpy(data, head, sizeof *head);
  if (turned)
    lls_wire_set_mail(data + sizeof *head, head->mail);
  free(a->offer);
  a->offer = NULL;
  a->at = head->target;
  a->source = head->mail == LLS_MAIL_OFFER ? head->source : LLS_NOBODY;
  if (head->mail == LLS_MAIL_OFFER) {
    a->offer = malloc(bytes);
    a->offer_bytes = bytes;
    if (a->offer != NULL) /* else its end would be the target's */
      memcpy(a->offer, data, bytes);
  }
  if (head->target != 0) {
    far->channel->ops->send(far->channel, head->target, data, bytes);
    return;
  }
  struct lls_unpack u = {.data = data, .n = bytes, .at = sizeof *head};
  struct lls_live *home = a->home;
  if (lls_wire_update_request(&far->wire, &u, home)) {
    forget(a);
    lls_far_deliver(far, head, home);
  } else {
    end(far, a);
  }
  free(data);
}

void lls_hub_send_request(struct lls_far *far, struct lls_far_head *head,
                          struct lls_live *live)
{
  struct lls_away *a = &far->away[head->slot];
  struct lls_pack p = {0};
  forget(a);
  a->home = live;
  LLS_PACK(&p, *head);
  lls_wire_pack_request(&far->wire, live, &p);
  if (!p.failed) {
    route(far, head, p.data, p.n);
    return;
  }
  free(p.data);
  a->source = head->mail == LLS_MAIL_OFFER ? head->source : LLS_NOBODY;
  end(far, a);
}

void lls_hub_settled(struct lls_far *far, uint32_t slot, uint32_t source)
{
  struct lls_away *a = &far->away[slot];
  if (a->home == NULL || a->source != source)
    return;
  a->source = LLS_NOBODY;
  free(a->offer);
  a->offer = NULL;
}

/* ---- deaths ------------------------------------------------------------------------ */

static bool any_left(const struct lls_far *far, uint32_t without_role)
{
  for (uint32_t i = 0; i < far->n; i++)
    if (!far->others[i].gone && far->threads[i].instance.info.role != without_role)
      return true;
  return false;
}

/* There is nobody to prefill, or to decode: it cannot go on. */
static void check_service(struct lls_far *far)
{
  bool prefills = any_left(far, LLS_ROLE_DECODE),
       decodes = any_left(far, LLS_ROLE_PREFILL);
  if ((prefills && decodes) || far->failed)
    return;
  pthread_mutex_lock(&far->lock);
  lls_fail(&far->why_failed, 0, "no instance is left that %s: %.400s",
           prefills ? "decodes" : "prefills", far->why_lost.text);
  far->failed = true;
  pthread_mutex_unlock(&far->lock);
  for (uint32_t slot = 0; slot < far->n_slots; slot++)
    if (far->away[slot].home != NULL)
      end(far, &far->away[slot]);
  lls_inbox_end_all(&far->mine->inbox);
}

/* Nothing of it has been sent, so that it may begin anew elsewhere, from what main made.
 * Once: it may be what its process has died of. */
static bool begin_again(struct lls_far *far, struct lls_away *a)
{
  struct lls_live *home = a->home;
  struct lls_far_head head =
      lls_far_head(far, LLS_FAR_REQUEST, LLS_NOBODY, home->view.slot);
  if (home->view.generated_tokens > 0 || a->again == home->view.id)
    return false;
  head.target = far->place(far->context);
  if (head.target == LLS_NOBODY)
    return false;
  a->again = head.request = home->view.id;
  head.mail = home->move.mail = LLS_MAIL_AGAIN;
  home->move.refusal = 0;
  lls_hub_send_request(far, &head, home);
  return true;
}

static void lose_requests(struct lls_far *far, uint32_t index)
{
  for (uint32_t slot = 0; slot < far->n_slots; slot++) {
    struct lls_away *a = &far->away[slot];
    struct lls_far_head head;
    if (a->home == NULL || a->at != index)
      continue;
    if (a->offer == NULL || far->others[a->source].gone) {
      if (!begin_again(far, a))
        end(far, a);
      continue;
    }
    char *offer = a->offer;
    a->offer = NULL;
    memcpy(&head, offer, sizeof head);
    route(far, &head, offer, a->offer_bytes); /* to the dead, from where it turns */
  }
}

static void clear_status(struct lls_step_thread *r)
{
  struct lls_loop_status *s = &r->status;
  pthread_mutex_lock(&r->status_lock);
  s->waiting = s->running = s->preempted = s->offered = 0;
  s->device_units_total = s->device_units_free = 0;
  s->host_units_total = s->host_units_free = 0;
  memset(s->cached_on_device, 0, sizeof s->cached_on_device);
  memset(s->cached_on_host, 0, sizeof s->cached_on_host);
  pthread_mutex_unlock(&r->status_lock);
}

static void tell_others(struct lls_far *far, uint32_t index)
{
  for (uint32_t i = 1; i < far->n; i++) {
    struct lls_pack p = lls_far_message(far, LLS_FAR_GONE, i);
    ((struct lls_far_head *)(void *)p.data)->source = index;
    lls_far_send(far, &p);
  }
  lls_far_tell_ranks(far, LLS_FAR_GONE, index, 0);
}

void lls_hub_lose(struct lls_far *far, uint32_t index, const char *why)
{
  struct lls_far_other *other = &far->others[index];
  if (other->gone)
    return;
  other->gone = true;
  far->n_gone++;
  atomic_store(&lls_far_instance(far, index)->broken, true);
  far->channel->ops->forget(far->channel, index);
  pthread_mutex_lock(&far->lock);
  lls_fail(&far->why_lost, 0, "instance %u (%s): %.400s", index,
           lls_role_name(far->threads[index].instance.info.role), why);
  far->lost = true;
  pthread_mutex_unlock(&far->lock);
  if (!atomic_load(&far->stopping))
    lls_log(far->log, LLS_LOG_ERROR, "instances", "%s", far->why_lost.text);
  tell_others(far, index);
  lls_fetches_lose(far->fetches, index);
  lose_requests(far, index);
  check_service(far);
  clear_status(&far->threads[index]);
  if (other->asked != NULL)
    atomic_store(&other->asked->ready, true); /* what there was, if anything */
  other->asked = NULL;
  lls_hub_publish(far);
  far->wake(far->wake_context);
}

/* ---- messages ---------------------------------------------------------------------- */

static const char *why_unlike(const struct lls_far_shape *a,
                              const struct lls_far_shape *b)
{
  if (strcmp(a->version, b->version) != 0)
    return "it is another version of llmserve";
  if (a->n != b->n || a->max_requests != b->max_requests)
    return "it has another configuration: [engine] roles, instances and max_requests "
           "have "
           "to be the same";
  if (a->vocabulary != b->vocabulary || a->max_context != b->max_context)
    return "it has another model, or another context";
  if (strcmp(a->device, b->device) != 0)
    return "its device is of another kind";
  return lls_pools_match(&a->pool, &b->pool) ? NULL : "its blocks are not alike";
}

static void receive_ready(struct lls_far *far, uint32_t from, struct lls_unpack *u)
{
  struct lls_far_shape shape;
  memset(&shape, 0, sizeof shape);
  LLS_UNPACK(u, shape);
  const char *why = why_unlike(&far->shape, &shape);
  if (why != NULL) {
    lls_hub_lose(far, from, why);
    return;
  }
  if (far->others[from].ready)
    return;
  far->others[from].ready = true;
  lls_far_show_loads(far);
  pthread_mutex_lock(&far->lock);
  far->n_ready++;
  pthread_mutex_unlock(&far->lock);
}

/* It waits to be told that this is known. */
static void receive_failed(struct lls_far *far, uint32_t from, struct lls_unpack *u)
{
  struct lls_error why = {0};
  struct lls_pack p = lls_far_message(far, LLS_FAR_END, from);
  size_t n = u->n - u->at;
  lls_unpack_take(u, why.text, n < sizeof why.text ? n : sizeof why.text - 1);
  lls_far_send(far, &p);
  for (int i = 0; i < FAILED_TRIES && !far->channel->ops->is_flushed(far->channel); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  lls_hub_lose(far, from, why.text);
}

static void receive_request(struct lls_far *far, struct lls_far_head *head,
                            struct lls_channel_message *m)
{
  const struct lls_away *a = &far->away[head->slot];
  if (a->home == NULL || a->home->view.id != head->request || a->at != m->from) {
    free(m->data); /* it has ended here */
    return;
  }
  route(far, head, m->data, m->bytes);
}

static void pass_on(struct lls_far *far, const struct lls_far_head *head,
                    struct lls_channel_message *m)
{
  struct lls_unpack u = {.data = m->data, .n = m->bytes, .at = sizeof *head};
  if (head->kind == LLS_FAR_SETTLED)
    lls_hub_settled(far, head->slot, head->target);
  if (head->target == 0) {
    lls_far_receive(far, head, &u);
    free(m->data);
  } else if (far->others[head->target].gone) {
    free(m->data);
  } else {
    far->channel->ops->send(far->channel, head->target, m->data, m->bytes);
  }
}

void lls_hub_receive(struct lls_far *far, uint32_t from, struct lls_channel_message *m)
{
  struct lls_unpack u = {.data = m->data, .n = m->bytes};
  struct lls_far_head head;
  memset(&head, 0, sizeof head);
  LLS_UNPACK(&u, head);
  bool valid = !u.failed && head.target < far->n && head.slot < far->n_slots &&
               (head.source < far->n || head.kind != LLS_FAR_REQUEST) &&
               head.from == from && !far->others[from].gone;
  if (valid)
    far->others[from].heard_ns = lls_far_now(far);
  if (valid && head.kind == LLS_FAR_REQUEST) {
    receive_request(far, &head, m);
    return;
  }
  if (valid && head.kind <= LLS_FAR_NO) {
    pass_on(far, &head, m);
    return;
  }
  if (valid && head.kind == LLS_FAR_EVENTS)
    receive_events(far, from, &u);
  else if (valid && head.kind == LLS_FAR_READY)
    receive_ready(far, from, &u);
  else if (valid && head.kind == LLS_FAR_FAILED)
    receive_failed(far, from, &u);
  else if (valid && head.kind == LLS_FAR_CHANGED)
    lls_hub_changed(far, from, &head, &u);
  else if (valid && head.kind == LLS_FAR_BYE)
    far->others[from].bye = true;
  else if (valid)
    lls_far_see(far, &head, &u);
  free(m->data);
}
