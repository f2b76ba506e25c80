/* SPDX-License-Identifier: Apache-2.0 */
/* The other ranks of an instance, which have their parts of its blocks: what rank 0 tells
 * them beside the steps, and hears; the other side is remote_rank.c. */
#include "core/cluster/remote_internal.h"

#include "core/cluster/fetch.h"
#include "core/engine/engine.h"
#include "core/ranks/ranks.h"

void lls_remote_tell_ranks(struct lls_remote *far, uint32_t kind, uint32_t source,
                           uint32_t mail)
{
  for (uint32_t rank = 1; far->within != NULL && rank < far->within->n; rank++) {
    struct lls_remote_head head = lls_remote_head(far, kind, rank, 0);
    struct lls_pack p = {0};
    head.source = source;
    head.mail = mail;
    LLS_PACK(&p, head);
    if (!p.failed) /* what they do not hear they find themselves */
      far->within->ops->send(far->within, rank, p.data, p.n);
  }
}

static void hear(struct lls_remote *far, const struct lls_channel_message *m)
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
    lls_fetches_fail(far->fetches, head.request);
  else
    lls_fetches_add_part(far->fetches, head.request, bytes);
}

bool lls_remote_hear_ranks(struct lls_remote *far)
{
  struct lls_channel_message m;
  bool any = false;
  while (far->within != NULL && far->within->ops->receive(far->within, &m)) {
    hear(far, &m);
    free(m.data);
    any = true;
  }
  return any;
}

int lls_remote_check_ranks(const struct lls_remote *far, struct lls_error *why)
{
  const struct lls_ranks *ranks = lls_engine_ranks(far->mine->instance.engine);
  return ranks != NULL ? lls_ranks_failed(ranks, why) : 0;
}
