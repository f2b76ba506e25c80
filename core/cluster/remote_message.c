/* SPDX-License-Identifier: Apache-2.0 */
/* Formats and sends messages between processes; see remote.h. */
#include "core/cluster/remote_internal.h"

#include "core/instance/instance.h"
#include "core/obs/log.h"

int64_t lls_remote_now(struct lls_remote *remote)
{
  const struct lls_instance *in = &remote->mine->instance;
  return in->clock(in->clock_context);
}

struct lls_pack lls_remote_message(const struct lls_remote *remote, uint32_t kind,
                                   uint32_t target)
{
  struct lls_pack p = {0};
  struct lls_remote_head head;
  memset(&head, 0, sizeof head);
  head.kind = kind;
  head.target = target;
  head.from = remote->self;
  LLS_PACK(&p, head);
  return p;
}

struct lls_remote_head lls_remote_head(const struct lls_remote *remote, uint32_t kind,
                                       uint32_t target, uint32_t slot)
{
  return (struct lls_remote_head){
      .kind = kind, .target = target, .from = remote->self, .slot = slot};
}

/* Ends the process if a message could not be allocated: with it an end or a settlement
 * may be lost, which is worse than a process that ends, since every other process
 * notices that. */
static void check(const struct lls_remote *remote, const struct lls_pack *p)
{
  if (!p->failed)
    return;
  lls_log(remote->log, LLS_LOG_ERROR, "instances", "out of memory for a message");
  abort();
}

/* Returns true for messages that are neither about requests nor about the current
 * state. */
static bool is_control(uint32_t kind)
{
  return kind == LLS_REMOTE_GONE || kind == LLS_REMOTE_BACK || kind == LLS_REMOTE_CLEAR ||
         kind == LLS_REMOTE_STOP || kind == LLS_REMOTE_END || kind == LLS_REMOTE_CHANGE ||
         kind == LLS_REMOTE_LEAVES;
}

bool lls_remote_may_send(struct lls_remote *remote, uint32_t target, uint32_t latest)
{
  uint32_t to = lls_remote_is_hub(remote) ? target : 0;
  struct lls_remote_other *other = &remote->others[to];
  const struct lls_channel_count n = remote->channel->ops->count(remote->channel, to);
  if (lls_remote_is_out(remote, to) || other->silent || n.taken < other->latest[latest])
    return false;
  other->latest[latest] = n.sent + 1;
  return true;
}

void lls_remote_send(struct lls_remote *remote, struct lls_pack *p)
{
  struct lls_remote_head head;
  check(remote, p);
  memcpy(&head, p->data, sizeof head);
  uint32_t to = lls_remote_is_hub(remote) ? head.target : 0;
  if (lls_remote_is_out(remote, to) &&
      (remote->others[to].gone || !is_control(head.kind)))
    free(p->data);
  else
    remote->channel->ops->send(remote->channel, to, p->data, p->n);
  *p = (struct lls_pack){0};
}

void lls_remote_send_head(struct lls_remote *remote, const struct lls_remote_head *head,
                          const void *more, size_t bytes)
{
  struct lls_pack p = {0};
  LLS_PACK(&p, *head);
  lls_pack_put(&p, more, bytes);
  lls_remote_send(remote, &p);
}
