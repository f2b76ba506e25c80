/* SPDX-License-Identifier: Apache-2.0 */
/* Sends mail to other processes: the inboxes of stand-ins, and the delivery, in the
 * order described in remote.h. */
#include "core/cluster/remote_internal.h"

#include "core/cluster/fetch.h"
#include "core/cluster/remote_session.h"
#include "core/instance/inbox.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"

/* ---- the stand-ins' inboxes -------------------------------------------------------- */

static void send_orders(struct lls_remote *remote)
{
  struct lls_fetch_order order;
  while (lls_fetches_next_order(remote->fetches, &order)) {
    bool fetch = order.pack.n > 0;
    struct lls_remote_head head = lls_remote_head(
        remote, fetch ? LLS_REMOTE_FETCH : LLS_REMOTE_DROP, order.source, 0);
    head.request = order.ticket;
    lls_remote_send_head(remote, &head, order.pack.data, order.pack.n);
    free(order.pack.data);
  }
}

static void send_settled(struct lls_remote *remote, uint32_t to, uint32_t slot)
{
  const struct lls_remote_head head =
      lls_remote_head(remote, LLS_REMOTE_SETTLED, to, slot);
  if (lls_remote_is_hub(remote))
    lls_hub_settled(remote, slot, to);
  lls_remote_send_head(remote, &head, NULL, 0);
}

static void send_cancels(struct lls_remote *remote, uint32_t to)
{
  const struct lls_inbox_content *c = &remote->content;
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_CANCEL, to);
  if (!c->cancels_lost)
    lls_pack_put(&p, c->cancels, c->n_cancels * sizeof *c->cancels);
  for (uint32_t slot = 0; slot < remote->n_slots && c->cancels_lost; slot++) {
    uint64_t id = atomic_load(&remote->cancelled[slot]);
    if (id != 0)
      LLS_PACK(&p, id);
  }
  lls_remote_send(remote, &p);
}

/* Asks for a snapshot. An instance that has ended or is silent counts as empty. */
static void ask(struct lls_remote *remote, uint32_t to, struct lls_snapshot *snapshot)
{
  struct lls_remote_other *other = &remote->others[to];
  if (lls_remote_is_out(remote, to) || other->silent) {
    snapshot->n = snapshot->n_left_out = snapshot->n_counts = 0;
    snapshot->lines_left_out = 0;
    snapshot->length = 0;
    atomic_store(&snapshot->ready, true);
    remote->wake(remote->wake_context);
    return;
  }
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_ASK, to);
  other->asked = snapshot;
  lls_remote_send(remote, &p);
}

static void hold(struct lls_remote *remote, uint32_t to, int turn)
{
  for (struct lls_live *live = remote->content.arrivals; live != NULL;
       live = live->next) {
    live->move.to = to;
    *remote->held_end[turn] = live;
    remote->held_end[turn] = &live->next;
  }
}

static void send_rest(struct lls_remote *remote, uint32_t to)
{
  const struct lls_inbox_content *c = &remote->content;
  for (uint32_t i = 0; i < c->n_shifts; i++) {
    struct lls_shift shift = c->shifts[i];
    const struct lls_remote_head head =
        lls_remote_head(remote, LLS_REMOTE_SHIFT, to, shift.slot);
    shift.mailed_ns = LLS_NEVER;
    lls_remote_send_head(remote, &head, &shift, sizeof shift);
  }
  for (uint32_t i = 0; i < c->n_placed; i++) {
    const struct lls_remote_head head =
        lls_remote_head(remote, LLS_REMOTE_PLACED, to, c->placed[i].slot);
    lls_remote_send_head(remote, &head, c->placed[i].data, c->placed[i].bytes);
    free(c->placed[i].data);
  }
  if (c->n_cancels > 0 || c->cancels_lost)
    send_cancels(remote, to);
  if (c->asked != NULL)
    ask(remote, to, c->asked);
}

/* Sends main's notes on sessions, which main may free then. */
static void send_notes(struct lls_remote *remote, uint32_t to)
{
  const struct lls_inbox_content *c = &remote->content;
  for (const struct lls_session_note *note = c->notes; note != NULL; note = note->next) {
    const struct lls_remote_head head =
        lls_remote_head(remote, LLS_REMOTE_SESSION, to, 0);
    struct lls_session_word word = lls_session_word_of(note);
    word.ended_ns = lls_wire_time(word.ended_ns, remote->wire.ahead_ns);
    word.returns_ns = lls_wire_time(word.returns_ns, remote->wire.ahead_ns);
    lls_remote_send_head(remote, &head, &word, sizeof word);
  }
  if (c->notes != NULL)
    lls_inbox_return_notes(&remote->threads[to].inbox, c->notes);
}

static bool drain_inbox(struct lls_remote *remote, uint32_t i, int turn)
{
  struct lls_inbox_content *c = &remote->content;
  lls_inbox_take(&remote->threads[i].inbox, INT64_MAX, c);
  send_orders(remote); /* drops must precede settlements */
  for (uint32_t k = 0; k < c->n_settled; k++)
    send_settled(remote, i, c->settled[k].slot);
  hold(remote, i, turn);
  send_rest(remote, i);
  bool any_notes = c->notes != NULL;
  send_notes(remote, i);
  return any_notes || c->n_settled + c->n_shifts + c->n_placed + c->n_cancels > 0 ||
         c->arrivals != NULL;
}

static bool drain_inboxes(struct lls_remote *remote, int turn)
{
  bool any = false;
  for (uint32_t i = 0; i < remote->n; i++)
    if (i != remote->self)
      any |= drain_inbox(remote, i, turn);
  return any;
}

/* ---- requests and events ----------------------------------------------------------- */

static struct lls_remote_head head_of_request(const struct lls_remote *remote,
                                              const struct lls_live *live)
{
  struct lls_remote_head head =
      lls_remote_head(remote, LLS_REMOTE_REQUEST, live->move.to, live->view.slot);
  head.mail = live->move.mail;
  head.source = live->move.source;
  head.request = live->view.id;
  return head;
}

static void send_request(struct lls_remote *remote, struct lls_live *live)
{
  struct lls_remote_head head = head_of_request(remote, live);
  struct lls_pack p = {0};
  if (lls_remote_is_hub(remote)) {
    lls_hub_send_request(remote, &head, live);
    return;
  }
  LLS_PACK(&p, head);
  lls_wire_pack_request(&remote->wire, live, &p);
  lls_remote_send(remote, &p);
  lls_live_free(live);
}

static void send_held(struct lls_remote *remote)
{
  struct lls_live *next;
  for (struct lls_live *live = remote->held[0]; live != NULL; live = next) {
    next = live->next;
    send_request(remote, live);
  }
  remote->held[0] = remote->held[1];
  remote->held_end[0] = remote->held[1] != NULL ? remote->held_end[1] : &remote->held[0];
  remote->held[1] = NULL;
  remote->held_end[1] = &remote->held[1];
}

/* Sends events. The status is sent before an end, so that a client which sees the end
 * finds it counted. */
static bool send_events(struct lls_remote *remote, const struct lls_event_buffer *events)
{
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_EVENTS, 0);
  bool ends = false;
  for (size_t i = 0; i < events->n; i++)
    ends |= events->events[i].kind == LLS_EVENT_FINISHED;
  if (ends)
    lls_remote_show_status(remote);
  for (size_t i = 0; i < events->n; i++)
    lls_wire_pack_event(&remote->wire, &events->events[i], &p);
  if (events->n > 0)
    lls_remote_send(remote, &p);
  for (size_t i = 0; i < events->n; i++)
    if (events->events[i].kind == LLS_EVENT_FINISHED) {
      lls_guests_ended(remote->wire.guests, events->events[i].live);
      lls_live_free(events->events[i].live);
    }
  free(p.data);
  return events->n > 0;
}

bool lls_remote_drain(struct lls_remote *remote)
{
  const struct lls_event_buffer *events = NULL;
  bool any = drain_inboxes(remote, 0);
  if (!lls_remote_is_hub(remote)) {
    events = lls_delivery_take(remote->delivery);
    any |= drain_inboxes(remote, 1);
    any |= send_events(remote, events);
  }
  send_held(remote);
  return any || remote->held[0] != NULL;
}
