/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache transaction of a step. Schedulers (through the cache service), the fallback
 * order, placement and migration all change the cache with these functions. Each notes
 * the request and the manager's mark before the change, so that a rollback undoes both
 * sides alike.
 *
 * Invariants: outside of an open transaction there are no notes, and every request is
 * LLS_PLACED_NOT; inside, a request is noted at most once, and `placed` says what was
 * done.
 */
#include "core/instance/transaction.h"

#include <assert.h>
#include <errno.h>

#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"

void lls_transaction_open(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open && in->transaction.n_done == 0);
  LLS_CALL(&in->policies, cache, begin);
  in->transaction.open = true;
}

void lls_transaction_note(struct lls_instance *in, struct lls_live *live,
                          uint32_t mark_before)
{
  struct lls_transaction *t = &in->transaction;
  LLS_ON_STEP(in);
  LLS_CHECK(t->open && live->placed != LLS_PLACED_NOT);
  assert(t->n_done < t->capacity);
  t->done[t->n_done++] = (struct lls_placement){.live = live, .mark_before = mark_before};
}

int lls_transaction_rollback(struct lls_instance *in, uint32_t mark)
{
  struct lls_transaction *t = &in->transaction;
  LLS_ON_STEP(in);
  LLS_CHECK(t->open);
  while (t->n_done > 0 && t->done[t->n_done - 1].mark_before >= mark)
    t->done[--t->n_done].live->placed = LLS_PLACED_NOT;
  return LLS_CALL(&in->policies, cache, rollback, mark);
}

/* A manager that shares a whole request, or says that more of its tokens are elsewhere
 * than it shares, holds blocks that it does not know. Its prefixes are not used any more,
 * and requests compute theirs. */
static void note_bad_prefix(struct lls_instance *in, const struct lls_live *live,
                            const struct lls_prefix *found)
{
  struct lls_policy_host *host = in->policies.cache.host;
  host->breaches++;
  host->bad_prefix = true;
  lls_log(
      in->log, LLS_LOG_PLUGIN_MISBEHAVING, host->name,
      "prefix of request %llu %s has %u tokens, %u of them on the host and %u on disk, "
      "where the request has %u: no prefixes are taken from this plugin until it is "
      "replaced",
      (unsigned long long)live->view.id, live->label, found->tokens, found->on_host,
      found->on_disk, lls_request_length(&live->view));
}

struct lls_prefix lls_transaction_prefix(struct lls_instance *in, struct lls_live *live,
                                         bool take)
{
  struct lls_policies *p = &in->policies;
  const struct lls_prefix none = {.size = sizeof none};
  LLS_ON_STEP(in);
  if (live->view.cached_tokens > 0 || !LLS_HAS(p, cache, prefix) ||
      lls_live_needs_every_row(live) || p->cache.host->bad_prefix ||
      !in->caps.chunked_prefill)
    return none;
  uint32_t mark = take ? LLS_CALL(p, cache, mark) : 0;
  struct lls_prefix found = none;
  live->finds_prefixes = LLS_CALL(p, cache, prefix, &live->view, take, &found) == 0;
  if (!live->finds_prefixes)
    return none;
  /* the last token is always computed */
  if (found.tokens < lls_request_length(&live->view) && found.on_host <= found.tokens &&
      found.on_disk <= found.tokens - found.on_host)
    return found;
  if (take)
    LLS_CALL(p, cache, rollback, mark);
  note_bad_prefix(in, live, &found);
  return none;
}

int lls_transaction_reserve(struct lls_instance *in, struct lls_live *live,
                            uint32_t tokens, uint32_t form, uint32_t flags)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  if (in->migration.n_offered > 0)
    flags &= ~(uint32_t)LLS_MAY_DISPLACE; /* another instance may be reading blocks */
  uint32_t pending = lls_request_pending(&live->view);
  if (live->placed != LLS_PLACED_NOT || tokens == 0 ||
      tokens > pending + live->view.drafted_tokens)
    return -EINVAL;
  uint32_t drafts = tokens > pending ? tokens - pending : 0;
  uint32_t mark = LLS_CALL(p, cache, mark);
  live->prefix = lls_transaction_prefix(in, live, true);
  uint32_t context = live->view.cached_tokens + live->prefix.tokens;
  uint32_t left = lls_request_length(&live->view) - context;
  uint32_t run_tokens = tokens < left ? tokens : left;
  int rc = LLS_CALL(p, cache, reserve, &live->view, run_tokens + drafts, form, flags);
  if (rc > LLS_RESERVE_NEVER)
    rc = lls_cache_breach(in, "reserve for request %llu returns %d",
                          (unsigned long long)live->view.id, rc);
  if (rc != LLS_RESERVE_OK) {
    LLS_CALL(p, cache, rollback, mark);
    return rc;
  }
  live->placed = LLS_PLACED_RESERVED;
  live->context = context;
  live->run_tokens = run_tokens;
  live->run_drafts = drafts;
  live->asked_tokens = tokens;
  lls_transaction_note(in, live, mark);
  in->transaction.displaced |= (flags & LLS_MAY_DISPLACE) != 0;
  return rc;
}

int lls_transaction_preempt(struct lls_instance *in, struct lls_live *live, uint32_t mode)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  if (live->placed != LLS_PLACED_NOT || live->view.state == LLS_MOVING)
    return -EINVAL;
  uint32_t mark = LLS_CALL(p, cache, mark);
  int rc = mode == LLS_PREEMPT_DEFER ? 0 : LLS_CALL(p, cache, preempt, &live->view, mode);
  if (rc < 0) {
    LLS_CALL(p, cache, rollback, mark);
    return rc;
  }
  live->placed = LLS_PLACED_PREEMPTED;
  live->preempt_mode = mode;
  lls_transaction_note(in, live, mark);
  return 0;
}

void lls_transaction_close(struct lls_instance *in)
{
  struct lls_transaction *t = &in->transaction;
  LLS_ON_STEP(in);
  LLS_CHECK(t->open);
  for (uint32_t i = 0; i < t->n_done; i++)
    t->done[i].live->placed = LLS_PLACED_NOT;
  t->n_done = 0;
  t->open = false;
}
