/* SPDX-License-Identifier: Apache-2.0 */
/* Process 0: handles each message of the other processes, or passes it on. */
#include "core/cluster/remote_internal.h"

#include "core/config/instance_list.h"

static const char *why_unlike(const struct lls_remote_shape *a,
                              const struct lls_remote_shape *b)
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

static void receive_ready(struct lls_remote *remote, uint32_t from, struct lls_unpack *u)
{
  struct lls_remote_shape shape;
  memset(&shape, 0, sizeof shape);
  LLS_UNPACK(u, shape);
  const char *why = why_unlike(&remote->shape, &shape);
  if (why != NULL) {
    lls_hub_refuse(remote, from, why, why);
    return;
  }
  if (remote->others[from].ready)
    return;
  remote->others[from].ready = true;
  if (remote->others[from].joining)
    return; /* admitted soon: remote_join.c */
  for (uint32_t to = 1; to < remote->n; to++)
    lls_remote_show_loads(remote, to);
  pthread_mutex_lock(&remote->lock);
  remote->n_ready++;
  pthread_mutex_unlock(&remote->lock);
}

static void receive_failed(struct lls_remote *remote, uint32_t from, struct lls_unpack *u)
{
  struct lls_error why = {0};
  size_t n = u->n - u->at;
  lls_unpack_take(u, why.text, n < sizeof why.text ? n : sizeof why.text - 1);
  lls_hub_refuse(remote, from, "", why.text);
}

static void receive_request(struct lls_remote *remote, struct lls_remote_head *head,
                            struct lls_channel_message *m)
{
  const struct lls_away *a = &remote->away[head->slot];
  if (a->home == NULL || a->home->view.id != head->request || a->at != m->from) {
    free(m->data); /* the request has ended here */
    return;
  }
  lls_hub_route(remote, head, m->data, m->bytes);
}

static void pass_on(struct lls_remote *remote, const struct lls_remote_head *head,
                    struct lls_channel_message *m)
{
  struct lls_unpack u = {.data = m->data, .n = m->bytes, .at = sizeof *head};
  if (head->kind == LLS_REMOTE_SETTLED)
    lls_hub_settled(remote, head->slot, head->target);
  if (head->target == 0) {
    lls_remote_receive(remote, head, &u);
    free(m->data);
  } else if (lls_remote_is_out(remote, head->target)) {
    free(m->data);
  } else {
    remote->channel->ops->send(remote->channel, head->target, m->data, m->bytes);
  }
}

void lls_hub_receive(struct lls_remote *remote, uint32_t from,
                     struct lls_channel_message *m)
{
  struct lls_unpack u = {.data = m->data, .n = m->bytes};
  struct lls_remote_head head;
  memset(&head, 0, sizeof head);
  LLS_UNPACK(&u, head);
  bool valid = !u.failed && head.target < remote->n && head.slot < remote->n_slots &&
               (head.source < remote->n || head.kind != LLS_REMOTE_REQUEST) &&
               head.from == from && !remote->others[from].gone;
  valid = valid && lls_hub_hear(remote, from, head.kind);
  if (valid && head.kind == LLS_REMOTE_REQUEST) {
    receive_request(remote, &head, m);
    return;
  }
  if (valid && head.kind <= LLS_REMOTE_NO) {
    pass_on(remote, &head, m);
    return;
  }
  if (valid && head.kind == LLS_REMOTE_EVENTS)
    lls_hub_receive_events(remote, from, &u);
  else if (valid && head.kind == LLS_REMOTE_READY)
    receive_ready(remote, from, &u);
  else if (valid && head.kind == LLS_REMOTE_FAILED)
    receive_failed(remote, from, &u);
  else if (valid && head.kind == LLS_REMOTE_CHANGED && remote->others[from].joining)
    lls_hub_led(remote, from, &head, &u);
  else if (valid && head.kind == LLS_REMOTE_CHANGED)
    lls_hub_changed(remote, from, &head, &u);
  else if (valid && head.kind == LLS_REMOTE_CLEARED)
    lls_hub_cleared(remote, from, &head, &u);
  else if (valid && head.kind == LLS_REMOTE_LEAVES)
    lls_hub_see_leaving(remote, from);
  else if (valid && head.kind == LLS_REMOTE_BYE)
    remote->others[from].bye = true;
  else if (valid)
    lls_remote_see(remote, &head, &u);
  free(m->data);
}
