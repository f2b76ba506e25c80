/* SPDX-License-Identifier: Apache-2.0 */
/* Mail from other processes for the instance of this one; see remote.h. */
#include "core/cluster/remote_internal.h"

#include "core/cluster/fetch.h"
#include "core/cluster/left.h"

static void settle_there(struct lls_remote *far, uint32_t source, uint32_t slot)
{
  const struct lls_remote_head head =
      lls_remote_head(far, LLS_REMOTE_SETTLED, source, slot);
  lls_remote_send_head(far, &head, NULL, 0);
}

/* It cannot be taken here: it ends, in a process that is not 0. */
static void end_here(struct lls_remote *far, const struct lls_remote_head *head)
{
  const struct lls_event event = {.kind = LLS_EVENT_FINISHED,
                                  .reason = LLS_FINISH_ERROR,
                                  .request = head->request,
                                  .arrival_ns = LLS_NEVER,
                                  .first_scheduled_ns = LLS_NEVER,
                                  .first_token_ns = LLS_NEVER,
                                  .finished_ns = lls_remote_now(far)};
  struct lls_pack p = lls_remote_message(far, LLS_REMOTE_EVENTS, 0);
  if (head->mail == LLS_MAIL_OFFER)
    settle_there(far, head->source, head->slot);
  lls_wire_pack_event(&far->wire, &event, &p);
  lls_remote_send(far, &p);
}

void lls_remote_deliver(struct lls_remote *far, const struct lls_remote_head *head,
                        struct lls_live *live)
{
  if (head->mail == LLS_MAIL_OFFER) {
    struct lls_left *left =
        &lls_remote_instance(far, head->source)->migration.shelf[head->slot];
    left->since_ns = 0;
    left->shifted = false;
    atomic_store(&left->place, LLS_LEFT_HERE);
  }
  lls_inbox_post(&far->mine->inbox, live);
}

static void receive_request(struct lls_remote *far, const struct lls_remote_head *head,
                            struct lls_unpack *u)
{
  struct lls_error why = {0};
  struct lls_live *live = lls_wire_new_request(&far->wire, u, &why);
  if (live != NULL) {
    lls_remote_deliver(far, head, live);
    return;
  }
  lls_log(far->log, LLS_LOG_ERROR, "instances", "request %llu cannot be taken: %s",
          (unsigned long long)head->request, why.text);
  end_here(far, head);
}

static void receive_cancels(struct lls_remote *far, struct lls_unpack *u)
{
  uint64_t id = 0;
  while (u->at < u->n) {
    LLS_UNPACK(u, id);
    atomic_store(&far->cancelled[id & (far->n_slots - 1)], id);
    lls_inbox_cancel(&far->mine->inbox, id);
  }
}

static void receive_fetch(struct lls_remote *far, const struct lls_remote_head *head,
                          struct lls_unpack *u)
{
  struct lls_remote_head no = lls_remote_head(far, LLS_REMOTE_NO, head->from, 0);
  no.request = head->request;
  if (!lls_fetches_serve(far->fetches, head->from, head->request, u))
    lls_remote_send_head(far, &no, NULL, 0);
}

void lls_remote_receive(struct lls_remote *far, const struct lls_remote_head *head,
                        struct lls_unpack *u)
{
  struct lls_shift shift = {0};
  switch (head->kind) {
  case LLS_REMOTE_REQUEST:
    receive_request(far, head, u);
    return;
  case LLS_REMOTE_CANCEL:
    receive_cancels(far, u);
    return;
  case LLS_REMOTE_SETTLED:
    lls_inbox_settle(&far->mine->inbox, head->slot, LLS_NEVER);
    return;
  case LLS_REMOTE_SHIFT:
    LLS_UNPACK(u, shift);
    lls_inbox_shift(&far->mine->inbox, &shift);
    return;
  case LLS_REMOTE_PLACED:
    lls_left_receive_place(lls_remote_instance(far, head->from), u, head->slot);
    return;
  case LLS_REMOTE_FETCH:
    receive_fetch(far, head, u);
    return;
  case LLS_REMOTE_DROP:
    lls_fetches_unserve(far->fetches, head->from, head->request);
    return;
  case LLS_REMOTE_NO:
    lls_fetches_fail(far->fetches, head->request);
    return;
  default:
    return;
  }
}
