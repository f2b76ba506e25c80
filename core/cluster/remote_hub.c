/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process 0's record of every request that lives in another process, kept from the
 * messages about it, all of which pass through process 0; and the continuation of
 * requests whose process is lost.
 */
#include "core/cluster/remote_internal.h"

#include "core/instance/inbox.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"

/* ---- events ------------------------------------------------------------------------ */

void lls_hub_publish(struct lls_remote *remote)
{
  if (remote->outbox.filling.n == 0)
    return;
  while (lls_outbox_publish(&remote->outbox) <
         0) /* main is far behind, and memory is exhausted */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  remote->wake(remote->wake_context);
}

static struct lls_event *add_event(struct lls_remote *remote)
{
  if (remote->outbox.filling.n >= remote->events_per_step)
    lls_hub_publish(remote);
  return lls_outbox_add(&remote->outbox);
}

static void forget(struct lls_away *a)
{
  free(a->offer);
  *a = (struct lls_away){
      .source = LLS_NOBODY, .again = a->again, .again_tokens = a->again_tokens};
}

/* Records the times of its tokens, for when the request continues on another instance. */
static void note_times(struct lls_remote *remote, struct lls_live *home)
{
  struct lls_request *v = &home->view;
  v->last_token_ns = lls_remote_now(remote);
  if (home->first_token_ns == LLS_NEVER)
    home->first_token_ns = v->last_token_ns;
  if (v->first_scheduled_ns == LLS_NEVER)
    v->first_scheduled_ns = v->last_token_ns;
}

/* Publishes events. The end of a request that its failing process reports as lost is
 * dropped, since process 0 continues the request elsewhere. */
void lls_hub_receive_events(struct lls_remote *remote, uint32_t from,
                            struct lls_unpack *u)
{
  uint64_t id = 0;
  bool lost = false;
  while (lls_wire_next_event(u, &id, &lost)) {
    struct lls_away *a = &remote->away[id & (remote->n_slots - 1)];
    if (a->home == NULL || a->home->view.id != id || a->at != from || lost) {
      lls_wire_skip_event(u);
      continue;
    }
    struct lls_event *event = add_event(remote);
    lls_wire_unpack_event(&remote->wire, u, a->home, event);
    if (event->kind == LLS_EVENT_FINISHED) {
      event->live->view.instance = from;
      forget(a);
    } else if (event->kind == LLS_EVENT_TOKEN)
      note_times(remote, a->home);
  }
}

/* Tells the source that the request's blocks are not needed any more. */
static void settle(struct lls_remote *remote, const struct lls_away *a)
{
  if (a->source == 0) {
    lls_inbox_settle(&remote->mine->inbox, a->home->view.slot, LLS_NEVER);
  } else if (a->source != LLS_NOBODY) {
    struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_SETTLED, a->source);
    ((struct lls_remote_head *)(void *)p.data)->slot = a->home->view.slot;
    lls_remote_send(remote, &p);
  }
}

/* Ends the request with an error, since no instance has it that could end it. why:
 * static, or NULL if a process died of it, or everything failed: the loop knows why. */
static void end(struct lls_remote *remote, struct lls_away *a, const char *why)
{
  struct lls_live *home = a->home;
  struct lls_request *v = &home->view;
  settle(remote, a);
  v->finish_reason = LLS_FINISH_ERROR;
  struct lls_event *event = add_event(remote);
  *event = (struct lls_event){.kind = LLS_EVENT_FINISHED,
                              .reason = LLS_FINISH_ERROR,
                              .request = v->id,
                              .owner = home->owner,
                              .lost = true,
                              .why_lost = why,
                              .prompt_tokens = v->prompt_tokens,
                              .generated_tokens = v->generated_tokens,
                              .shared_tokens = home->prefix_tokens,
                              .preemptions = v->preemptions,
                              .drafted_tokens = home->drafted,
                              .accepted_tokens = home->accepted,
                              .arrival_ns = v->arrival_ns,
                              .first_scheduled_ns = v->first_scheduled_ns,
                              .first_token_ns = home->first_token_ns,
                              .finished_ns = lls_remote_now(remote),
                              .prediction = v->prediction,
                              .life = &home->life,
                              .live = home};
  forget(a);
}

/* ---- requests under way ------------------------------------------------------------ */

/* Turns a request back to the instance with its blocks, or, if that has ended, to one
 * that can prefill it again. */
static void turn(struct lls_remote *remote, const struct lls_away *a,
                 struct lls_remote_head *head)
{
  bool offered = head->mail == LLS_MAIL_OFFER;
  head->mail = offered ? LLS_MAIL_RETURN : LLS_MAIL_AGAIN;
  head->target = offered ? head->source
                         : remote->place(remote->context, a->home->view.prompt_tokens);
}

/* Records where the message takes the request, with a copy of the message if it is an
 * offer: if the target is lost, the copy goes back to the source. */
static void note_route(struct lls_away *a, const struct lls_remote_head *head,
                       const char *data, size_t bytes)
{
  free(a->offer);
  a->offer = NULL;
  a->at = head->target;
  a->source = head->mail == LLS_MAIL_OFFER ? head->source : LLS_NOBODY;
  if (head->mail != LLS_MAIL_OFFER)
    return;
  a->offer = malloc(bytes);
  a->offer_bytes = bytes;
  if (a->offer != NULL)
    memcpy(a->offer, data, bytes);
}

/* Hands the request of a message to this process's instance. */
static void deliver_here(struct lls_remote *remote, struct lls_away *a,
                         struct lls_remote_head *head, const char *data, size_t bytes)
{
  struct lls_unpack u = {.data = data, .n = bytes, .at = sizeof *head};
  struct lls_live *home = a->home;
  if (!lls_wire_update_request(&remote->wire, &u, home)) {
    end(remote, a, "its message cannot be read");
    return;
  }
  forget(a);
  /* Publishes its tokens first: the local instance may end it at once, which would be
   * before the events of this round. */
  lls_hub_publish(remote);
  lls_remote_deliver(remote, head, home);
}

void lls_hub_route(struct lls_remote *remote, struct lls_remote_head *head, char *data,
                   size_t bytes)
{
  struct lls_away *a = &remote->away[head->slot];
  bool turned = false;
  while (head->target != LLS_NOBODY && lls_remote_is_out(remote, head->target)) {
    turn(remote, a, head);
    turned = true;
  }
  if (remote->failed || head->target == LLS_NOBODY) {
    end(remote, a, remote->failed ? NULL : "no other process can compute it");
    free(data);
    return;
  }
  memcpy(data, head, sizeof *head);
  if (turned)
    lls_wire_set_mail(data + sizeof *head, head->mail);
  note_route(a, head, data, bytes);
  if (head->target != 0) {
    remote->channel->ops->send(remote->channel, head->target, data, bytes);
    return;
  }
  deliver_here(remote, a, head, data, bytes);
  free(data);
}

void lls_hub_send_request(struct lls_remote *remote, struct lls_remote_head *head,
                          struct lls_live *live)
{
  struct lls_away *a = &remote->away[head->slot];
  struct lls_pack p = {0};
  forget(a);
  a->home = live;
  LLS_PACK(&p, *head);
  lls_wire_pack_request(&remote->wire, live, &p);
  if (!p.failed) {
    lls_hub_route(remote, head, p.data, p.n);
    return;
  }
  free(p.data);
  a->source = head->mail == LLS_MAIL_OFFER ? head->source : LLS_NOBODY;
  end(remote, a, "there is no memory for its message");
}

void lls_hub_settled(struct lls_remote *remote, uint32_t slot, uint32_t source)
{
  struct lls_away *a = &remote->away[slot];
  if (a->home == NULL || a->source != source)
    return;
  a->source = LLS_NOBODY;
  free(a->offer);
  a->offer = NULL;
}

/* ---- lost processes ---------------------------------------------------------------- */

/* Returns true if the process of the request before died, too, and the request has no new
 * token since: it may be what its processes die of. */
static bool died_of_it(const struct lls_away *a)
{
  const struct lls_request *v = &a->home->view;
  return a->again == v->id && a->again_tokens == v->generated_tokens;
}

/*
 * Continues a request on another instance, from the submission and the tokens received
 * since: all are prefilled, and everything that depends on them (penalties, grammar,
 * banned words, random numbers) follows. died: the request's process died; otherwise it
 * was silent or left. Returns false if the request may not or cannot continue.
 */
static bool go_on(struct lls_remote *remote, struct lls_away *a, bool died)
{
  struct lls_live *home = a->home;
  struct lls_request *v = &home->view;
  bool complete = v->generated_tokens > 0 && v->generated_tokens >= v->max_new_tokens;
  if ((died && died_of_it(a)) || complete)
    return false;
  struct lls_remote_head head =
      lls_remote_head(remote, LLS_REMOTE_REQUEST, LLS_NOBODY, v->slot);
  head.target = remote->place(remote->context, v->prompt_tokens);
  if (head.target == LLS_NOBODY)
    return false;
  head.request = v->id;
  if (died) {
    a->again = v->id;
    a->again_tokens = v->generated_tokens;
  }
  head.mail = home->move.mail = LLS_MAIL_AGAIN;
  home->move.refusal = 0;
  lls_hub_send_request(remote, &head, home);
  return true;
}

/* Routes the copy of an offer to its lost target, from which it is turned back. */
static void return_offer(struct lls_remote *remote, struct lls_away *a)
{
  struct lls_remote_head head;
  char *offer = a->offer;
  a->offer = NULL;
  memcpy(&head, offer, sizeof head);
  lls_hub_route(remote, &head, offer, a->offer_bytes);
}

/* Continues a request of a lost process, or ends it. */
static void save(struct lls_remote *remote, struct lls_away *a, bool died)
{
  if (a->offer != NULL && !lls_remote_is_out(remote, a->source)) {
    return_offer(remote, a);
    return;
  }
  settle(remote, a);
  a->source = LLS_NOBODY;
  if (!go_on(remote, a, died))
    end(remote, a, died ? NULL : "its process has left, and no other can go on with it");
}

void lls_hub_move_requests(struct lls_remote *remote, uint32_t index, bool died)
{
  for (uint32_t slot = 0; slot < remote->n_slots; slot++) {
    struct lls_away *a = &remote->away[slot];
    if (a->home != NULL && a->at == index)
      save(remote, a, died);
  }
}

void lls_hub_end_requests(struct lls_remote *remote)
{
  for (uint32_t slot = 0; slot < remote->n_slots; slot++)
    if (remote->away[slot].home != NULL)
      end(remote, &remote->away[slot], NULL);
}

bool lls_hub_has_requests(const struct lls_remote *remote, uint32_t index)
{
  for (uint32_t slot = 0; slot < remote->n_slots; slot++) {
    const struct lls_away *a = &remote->away[slot];
    if (a->home != NULL && (a->at == index || a->source == index))
      return true;
  }
  return false;
}
