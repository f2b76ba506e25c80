/* SPDX-License-Identifier: Apache-2.0 */
/* A message between processes: its head, and its way; see far.h. */
#include "core/cluster/far_internal.h"

int64_t lls_far_now(struct lls_far *far)
{
  const struct lls_instance *in = &far->mine->instance;
  return in->clock(in->clock_context);
}

struct lls_pack lls_far_message(const struct lls_far *far, uint32_t kind, uint32_t target)
{
  struct lls_pack p = {0};
  struct lls_far_head head;
  memset(&head, 0, sizeof head);
  head.kind = kind;
  head.target = target;
  head.from = far->self;
  LLS_PACK(&p, head);
  return p;
}

struct lls_far_head lls_far_head(const struct lls_far *far, uint32_t kind,
                                 uint32_t target, uint32_t slot)
{
  return (struct lls_far_head){
      .kind = kind, .target = target, .from = far->self, .slot = slot};
}

/* Without memory a message is lost, and with it an end or a settlement: that is worse
 * than the process going, which everybody notices. */
static void check(const struct lls_far *far, const struct lls_pack *p)
{
  if (!p->failed)
    return;
  lls_log(far->log, LLS_LOG_ERROR, "instances", "out of memory for a message");
  abort();
}

/* Messages that are not of requests, nor of what is there now. */
static bool is_control(uint32_t kind)
{
  return kind == LLS_FAR_GONE || kind == LLS_FAR_BACK || kind == LLS_FAR_CLEAR ||
         kind == LLS_FAR_STOP || kind == LLS_FAR_END || kind == LLS_FAR_CHANGE;
}

bool lls_far_may_send(struct lls_far *far, uint32_t target, uint32_t latest)
{
  uint32_t to = lls_far_is_hub(far) ? target : 0;
  struct lls_far_other *other = &far->others[to];
  const struct lls_channel_count n = far->channel->ops->count(far->channel, to);
  if (lls_far_is_out(far, to) || other->silent || n.taken < other->latest[latest])
    return false;
  other->latest[latest] = n.sent + 1;
  return true;
}

void lls_far_send(struct lls_far *far, struct lls_pack *p)
{
  struct lls_far_head head;
  check(far, p);
  memcpy(&head, p->data, sizeof head);
  uint32_t to = lls_far_is_hub(far) ? head.target : 0;
  if (lls_far_is_out(far, to) && (far->others[to].gone || !is_control(head.kind)))
    free(p->data);
  else
    far->channel->ops->send(far->channel, to, p->data, p->n);
  *p = (struct lls_pack){0};
}

void lls_far_send_head(struct lls_far *far, const struct lls_far_head *head,
                       const void *more, size_t bytes)
{
  struct lls_pack p = {0};
  LLS_PACK(&p, *head);
  lls_pack_put(&p, more, bytes);
  lls_far_send(far, &p);
}
