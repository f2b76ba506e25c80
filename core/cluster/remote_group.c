/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between rank 0 of an instance and its remaining ranks, besides those of steps:
 * each rank has its part of the instance's blocks. remote_rank.c is the other end. */
#include "core/cluster/remote_internal.h"

#include "core/cluster/fetch.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/ranks/ranks.h"

void lls_remote_tell_ranks(struct lls_remote *remote, uint32_t kind, uint32_t source,
                           uint32_t mail)
{
  for (uint32_t rank = 1; remote->within != NULL && rank < remote->within->n; rank++) {
    struct lls_remote_head head = lls_remote_head(remote, kind, rank, 0);
    struct lls_pack p = {0};
    head.source = source;
    head.mail = mail;
    LLS_PACK(&p, head);
    if (!p.failed) /* if the message is lost, the ranks notice the failure themselves */
      remote->within->ops->send(remote->within, rank, p.data, p.n);
  }
}

static void hear(struct lls_remote *remote, const struct lls_channel_message *m)
{
  struct lls_unpack u = {.data = m->data, .n = m->bytes};
  struct lls_remote_head head;
  uint64_t bytes = 0;
  memset(&head, 0, sizeof head);
  LLS_UNPACK(&u, head);
  if (u.failed || head.kind != LLS_REMOTE_PART)
    return;
  LLS_UNPACK(&u, bytes);
  if (u.failed)
    lls_fetches_fail(remote->fetches, head.request);
  else
    lls_fetches_add_part(remote->fetches, head.request, bytes);
}

bool lls_remote_hear_ranks(struct lls_remote *remote)
{
  struct lls_channel_message m;
  bool any = false;
  while (remote->within != NULL && remote->within->ops->receive(remote->within, &m)) {
    hear(remote, &m);
    free(m.data);
    any = true;
  }
  return any;
}

int lls_remote_check_ranks(const struct lls_remote *remote, struct lls_error *why)
{
  const struct lls_ranks *ranks = lls_engine_ranks(remote->mine->instance.engine);
  return ranks != NULL ? lls_ranks_failed(ranks, why) : 0;
}
