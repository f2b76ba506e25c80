/* SPDX-License-Identifier: Apache-2.0 */
/* Handles mail from other processes for the local instance; see remote.h. */
#include "core/cluster/remote_internal.h"

#include "core/cluster/fetch.h"
#include "core/cluster/offered.h"
#include "core/cluster/remote_session.h"
#include "core/instance/inbox.h"
#include "core/instance/request.h"
#include "core/obs/log.h"

static void settle_there(struct lls_remote *remote, uint32_t source, uint32_t slot)
{
  const struct lls_remote_head head =
      lls_remote_head(remote, LLS_REMOTE_SETTLED, source, slot);
  lls_remote_send_head(remote, &head, NULL, 0);
}

/* Ends a request that cannot be accepted here; not in process 0. */
static void end_here(struct lls_remote *remote, const struct lls_remote_head *head)
{
  const struct lls_event event = {.kind = LLS_EVENT_FINISHED,
                                  .reason = LLS_FINISH_ERROR,
                                  .request = head->request,
                                  .arrival_ns = LLS_NEVER,
                                  .first_scheduled_ns = LLS_NEVER,
                                  .first_token_ns = LLS_NEVER,
                                  .finished_ns = lls_remote_now(remote)};
  struct lls_pack p = lls_remote_message(remote, LLS_REMOTE_EVENTS, 0);
  if (head->mail == LLS_MAIL_OFFER)
    settle_there(remote, head->source, head->slot);
  lls_wire_pack_event(&remote->wire, &event, &p);
  lls_remote_send(remote, &p);
}

void lls_remote_deliver(struct lls_remote *remote, const struct lls_remote_head *head,
                        struct lls_live *live)
{
  if (head->mail == LLS_MAIL_OFFER) {
    struct lls_offered_blocks *offered =
        &lls_remote_instance(remote, head->source)->migration.offered_blocks[head->slot];
    offered->since_ns = 0;
    offered->shifted = false;
    atomic_store(&offered->place, LLS_OFFERED_DEVICE);
  }
  lls_inbox_post(&remote->mine->inbox, live);
}

static void receive_request(struct lls_remote *remote, const struct lls_remote_head *head,
                            struct lls_unpack *u)
{
  struct lls_error why = {0};
  struct lls_live *live = lls_wire_new_request(&remote->wire, u, &why);
  if (live != NULL) {
    lls_remote_deliver(remote, head, live);
    return;
  }
  lls_log(remote->log, LLS_LOG_ERROR, "instances", "request %llu cannot be taken: %s",
          (unsigned long long)head->request, why.text);
  end_here(remote, head);
}

static void receive_cancels(struct lls_remote *remote, struct lls_unpack *u)
{
  uint64_t id = 0;
  while (u->at < u->n) {
    LLS_UNPACK(u, id);
    atomic_store(&remote->cancelled[id & (remote->n_slots - 1)], id);
    lls_inbox_cancel(&remote->mine->inbox, id);
  }
}

static void receive_fetch(struct lls_remote *remote, const struct lls_remote_head *head,
                          struct lls_unpack *u)
{
  struct lls_remote_head no = lls_remote_head(remote, LLS_REMOTE_NO, head->from, 0);
  no.request = head->request;
  if (!lls_fetches_serve(remote->fetches, head->from, head->request, u))
    lls_remote_send_head(remote, &no, NULL, 0);
}

static void receive_word(struct lls_remote *remote, struct lls_unpack *u)
{
  struct lls_session_word word = {0};
  LLS_UNPACK(u, word);
  word.ended_ns = lls_wire_time(word.ended_ns, -remote->wire.ahead_ns);
  word.returns_ns = lls_wire_time(word.returns_ns, -remote->wire.ahead_ns);
  if (!u->failed && remote->wire.guests != NULL)
    lls_guests_take(remote->wire.guests, &word);
}

void lls_remote_receive(struct lls_remote *remote, const struct lls_remote_head *head,
                        struct lls_unpack *u)
{
  struct lls_shift shift = {0};
  switch (head->kind) {
  case LLS_REMOTE_REQUEST:
    receive_request(remote, head, u);
    return;
  case LLS_REMOTE_CANCEL:
    receive_cancels(remote, u);
    return;
  case LLS_REMOTE_SETTLED:
    lls_inbox_settle(&remote->mine->inbox, head->slot, LLS_NEVER);
    return;
  case LLS_REMOTE_SHIFT:
    LLS_UNPACK(u, shift);
    lls_inbox_shift(&remote->mine->inbox, &shift);
    return;
  case LLS_REMOTE_PLACED:
    lls_offered_receive_place(lls_remote_instance(remote, head->from), u, head->slot);
    return;
  case LLS_REMOTE_FETCH:
    receive_fetch(remote, head, u);
    return;
  case LLS_REMOTE_DROP:
    lls_fetches_unserve(remote->fetches, head->from, head->request);
    return;
  case LLS_REMOTE_SESSION:
    receive_word(remote, u);
    return;
  case LLS_REMOTE_NO:
    if (head->request == 0)
      lls_fetches_cut(remote->fetches, head->from);
    else
      lls_fetches_fail(remote->fetches, head->request);
    return;
  default:
    return;
  }
}
