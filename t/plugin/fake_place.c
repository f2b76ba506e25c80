/* SPDX-License-Identifier: Apache-2.0 */
/* The cache transaction, for the scheduler through its service and for the step; and the
 * check of a plan. */
#include "t/tap.h"

#include "t/plugin/fake.h"

struct fake_request *fake_find(const struct fake *f, uint64_t id)
{
  for (uint32_t i = 0; i < f->o.max_requests; i++)
    if (f->by_slot[i] != NULL && f->by_slot[i]->view.id == id)
      return f->by_slot[i];
  return NULL;
}

/* ---- placing -------------------------------------------------------------------- */

int fake_rollback(struct fake *f, uint32_t mark)
{
  for (uint32_t i = 0; i < f->o.max_requests; i++)
    if (f->by_slot[i] != NULL && f->by_slot[i]->mark_before >= mark)
      f->by_slot[i]->placed = PLACED_NOT;
  return f->c->rollback(f->cache_self, mark);
}

int fake_reserve(struct fake *f, struct fake_request *r, uint32_t tokens, uint32_t form,
                 uint32_t flags)
{
  if (r->placed != PLACED_NOT || tokens == 0 || tokens > lls_request_pending(&r->view))
    return -EINVAL;
  uint32_t mark = f->c->mark(f->cache_self), taken = 0;
  if (r->view.cached_tokens == 0 && f->c->prefix != NULL) {
    uint32_t offered = f->c->prefix(f->cache_self, &r->view, false);
    taken = f->c->prefix(f->cache_self, &r->view, true);
    assert_int_equal(offered, taken);
    assert_true(taken < lls_request_length(&r->view));
  }
  uint32_t left = lls_request_pending(&r->view) - taken;
  uint32_t run_tokens = tokens < left ? tokens : left;
  int rc = f->c->reserve(f->cache_self, &r->view, run_tokens, form, flags);
  if (rc != LLS_RESERVE_OK) {
    f->c->rollback(f->cache_self, mark);
    return rc;
  }
  r->placed = PLACED_RESERVED;
  r->mark_before = mark;
  r->context = r->view.cached_tokens + taken;
  r->run_tokens = run_tokens;
  r->asked_tokens = tokens;
  return rc;
}

int fake_preempt(struct fake *f, struct fake_request *r, uint32_t mode)
{
  if (r->placed != PLACED_NOT)
    return -EINVAL;
  uint32_t mark = f->c->mark(f->cache_self);
  int rc = mode == LLS_PREEMPT_DEFER ? 0 : f->c->preempt(f->cache_self, &r->view, mode);
  if (rc < 0) {
    f->c->rollback(f->cache_self, mark);
    return rc;
  }
  r->placed = PLACED_PREEMPTED;
  r->mark_before = mark;
  r->mode = mode;
  return 0;
}

/* ---- the service ---------------------------------------------------------------- */

static struct fake_request *checked(const struct fake *f, const struct lls_request *r)
{
  assert_true(f->in_transaction);
  return r != NULL && f->by_slot[r->slot] == (const struct fake_request *)r
             ? f->by_slot[r->slot]
             : NULL;
}

static int capacity(void *context, uint32_t tier, struct lls_capacity *out)
{
  struct fake *f = context;
  return f->c->capacity(f->cache_self, tier, out);
}

static int need(void *context, const struct lls_request *r, uint32_t tokens,
                uint32_t form, struct lls_need *out)
{
  struct fake *f = context;
  return checked(f, r) != NULL ? f->c->need(f->cache_self, r, tokens, form, out)
                               : -ENOENT;
}

static uint32_t mark(void *context)
{
  struct fake *f = context;
  return f->c->mark(f->cache_self);
}

static int rollback(void *context, uint32_t to)
{
  return fake_rollback(context, to);
}

static int reserve(void *context, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct fake_request *q = checked(context, r);
  return q != NULL ? fake_reserve(context, q, tokens, form, flags) : -ENOENT;
}

static int preempt(void *context, const struct lls_request *r, uint32_t mode)
{
  struct fake_request *q = checked(context, r);
  return q != NULL ? fake_preempt(context, q, mode) : -ENOENT;
}

static int info(void *context, const struct lls_request *r, struct lls_cache_info *out)
{
  struct fake *f = context;
  return checked(f, r) != NULL ? f->c->info(f->cache_self, r, out) : -ENOENT;
}

static uint32_t prefix(void *context, const struct lls_request *r)
{
  struct fake *f = context;
  if (f->c->prefix == NULL || checked(f, r) == NULL || r->cached_tokens > 0)
    return 0;
  return f->c->prefix(f->cache_self, r, false);
}

static int forms(void *context, struct lls_form_info *out, size_t max)
{
  struct fake *f = context;
  return f->c->forms != NULL ? f->c->forms(f->cache_self, out, max) : -ENOTSUP;
}

static int64_t transfer_ns(void *context, uint32_t units, uint32_t link)
{
  (void)context;
  (void)units;
  (void)link;
  return LLS_NEVER;
}

void fake_service_init(struct fake *f)
{
  f->service = (struct lls_cache_service){
      .size = sizeof f->service,
      .block_tokens = f->o.block_tokens,
      .context = f,
      .capacity = capacity,
      .need = need,
      .mark = mark,
      .rollback = rollback,
      .reserve = reserve,
      .preempt = preempt,
      .info = info,
      .prefix = prefix,
      .forms = forms,
      .transfer_ns = transfer_ns,
  };
}

/* ---- is a plan good? ------------------------------------------------------------ */

static const char *check_run(const struct fake_request *r,
                             const struct lls_plan_item *item)
{
  if (item->tokens == 0 || item->tokens > lls_request_pending(&r->view))
    return "runs more tokens than pending, or none";
  if (item->form > LLS_FORM_HIDDEN)
    return "form not supported";
  if (r->placed == PLACED_PREEMPTED)
    return "runs what it preempted";
  if (r->placed == PLACED_RESERVED && item->tokens > r->asked_tokens)
    return "runs more than it reserved";
  return NULL;
}

static const char *check_item(const struct fake *f, const struct fake_request *r,
                              const struct lls_plan_item *item)
{
  switch (item->kind) {
  case LLS_PLAN_RUN:
    return check_run(r, item);
  case LLS_PLAN_PREEMPT:
    if (item->mode < LLS_PREEMPT_RECOMPUTE || item->mode > LLS_PREEMPT_DEFER ||
        !(f->caps.preempt_modes & 1u << item->mode))
      return "preempt mode not supported";
    if (r->placed == PLACED_RESERVED ||
        (r->placed == PLACED_PREEMPTED && r->mode != item->mode))
      return "preempts otherwise than it did";
    return NULL;
  case LLS_PLAN_REJECT:
    if (item->reason != LLS_FINISH_REJECTED && item->reason != LLS_FINISH_CAPACITY)
      return "bad reason to reject";
    return r->placed != PLACED_NOT ? "rejects what it placed" : NULL;
  default:
    return "item not supported";
  }
}

static const char *check_placed(const struct fake *f)
{
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    const struct fake_request *r = f->by_slot[i];
    if (r != NULL && r->placed != PLACED_NOT && !r->named)
      return "placed a request that it doesn't name";
  }
  return NULL;
}

const char *fake_check_plan(struct fake *f, struct fake_request **culprit)
{
  uint64_t tokens = 0, sequences = 0, prefills = 0, decodes = 0;
  *culprit = NULL;
  if (f->plan.overflow > 0 || f->plan.n_items > f->plan.max_items)
    return "too many items";
  for (uint32_t i = 0; i < f->plan.n_items; i++) {
    const struct lls_plan_item *item = &f->plan.items[i];
    struct fake_request *r = *culprit = fake_find(f, item->request);
    if (r == NULL)
      return "unknown request";
    if (r->named)
      return "names a request twice";
    r->named = true;
    const char *why = check_item(f, r, item);
    if (why != NULL)
      return why;
    if (item->kind != LLS_PLAN_RUN)
      continue;
    tokens += item->tokens;
    sequences++;
    bool decode = r->view.generated_tokens > 0 && lls_request_pending(&r->view) == 1;
    *(decode ? &decodes : &prefills) += 1;
  }
  *culprit = NULL;
  if (tokens > f->caps.max_step_tokens || sequences > f->caps.max_sequences)
    return "over the engine's limits";
  if (f->o.no_mixed_batch && prefills > 0 && decodes > 0)
    return "mixed batch on an engine that can't";
  return check_placed(f);
}
