/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache service that a scheduler calls inside plan: functions of the cache manager,
 * called after a check that the request is alive and, for changes, the transaction open.
 */
#include "core/policy/cache_service.h"

#include <errno.h>
#include <string.h>

#include "core/cost/cost.h"
#include "core/engine/engine.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/instance/transaction.h"

static struct lls_live *checked(const struct lls_instance *in,
                                const struct lls_request *r)
{
  return r != NULL ? lls_request_table_find(in->table, r->id) : NULL;
}

/* Copies a result to the scheduler's struct, which may be of another version: no more
 * than the `size` it states. */
static void write_out(void *out, const void *found, size_t bytes)
{
  uint32_t size;
  memcpy(&size, out, sizeof size);
  size_t n = size < bytes ? size : bytes;
  if (n > sizeof size)
    memcpy((char *)out + sizeof size, (const char *)found + sizeof size, n - sizeof size);
}

static int capacity(void *context, uint32_t tier, struct lls_capacity *out)
{
  struct lls_capacity found = {0};
  int rc = lls_cache_capacity(context, tier, &found);
  write_out(out, &found, sizeof found);
  return rc;
}

static int need(void *context, const struct lls_request *r, uint32_t tokens,
                uint32_t form, struct lls_need *out)
{
  struct lls_policies *p = &((struct lls_instance *)context)->policies;
  return checked(context, r) != NULL ? LLS_CALL(p, cache, need, r, tokens, form, out)
                                     : -ENOENT;
}

static uint32_t mark(void *context)
{
  struct lls_policies *p = &((struct lls_instance *)context)->policies;
  return LLS_CALL(p, cache, mark);
}

static int rollback(void *context, uint32_t to)
{
  struct lls_instance *in = context;
  return in->transaction.open ? lls_transaction_rollback(in, to) : -EPERM;
}

static int reserve(void *context, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct lls_instance *in = context;
  struct lls_live *live = checked(in, r);
  if (!in->transaction.open)
    return -EPERM;
  if (live == NULL)
    return -ENOENT;
  if (form != LLS_FORM_NONE &&
      (form > LLS_FORM_HIDDEN || (in->caps.forms & (1u << form)) == 0))
    return -ENOTSUP;
  return live->view.state == LLS_MOVING
             ? LLS_RESERVE_LATER
             : lls_transaction_reserve(in, live, tokens, form, flags);
}

static int preempt(void *context, const struct lls_request *r, uint32_t mode)
{
  struct lls_instance *in = context;
  struct lls_live *live = checked(in, r);
  if (!in->transaction.open)
    return -EPERM;
  if (mode == LLS_PREEMPT_NONE || mode > LLS_PREEMPT_DEFER)
    return -EINVAL;
  return live != NULL ? lls_transaction_preempt(in, live, mode) : -ENOENT;
}

static int info(void *context, const struct lls_request *r, struct lls_cache_info *out)
{
  struct lls_cache_info found = {0};
  if (checked(context, r) == NULL)
    return -ENOENT;
  int rc = lls_cache_info(context, r, &found);
  write_out(out, &found, sizeof found);
  return rc;
}

static uint32_t prefix(void *context, const struct lls_request *r)
{
  struct lls_live *live = checked(context, r);
  return live != NULL ? lls_transaction_prefix(context, live, false).tokens : 0;
}

static int prefix_info(void *context, const struct lls_request *r, struct lls_prefix *out)
{
  struct lls_instance *in = context;
  struct lls_live *live = checked(in, r);
  if (live == NULL)
    return -ENOENT;
  const struct lls_prefix found = lls_transaction_prefix(in, live, false);
  write_out(out, &found, sizeof found);
  return LLS_HAS(&in->policies, cache, prefix) ? 0 : -ENOTSUP;
}

static int forms(void *context, struct lls_form_info *out, size_t max)
{
  struct lls_policies *p = &((struct lls_instance *)context)->policies;
  if (LLS_HAS(p, cache, forms))
    return LLS_CALL(p, cache, forms, out, max);
  if (max > 0)
    out[0] = (struct lls_form_info){.form = LLS_FORM_KV, .ratio = 1, .restore_ns = 0};
  return 1;
}

static int64_t transfer_ns(void *context, uint32_t units, uint32_t link)
{
  struct lls_instance *in = context;
  const struct lls_cost *cost = lls_cost_model_service(in->cost);
  uint64_t bytes = units * (uint64_t)lls_unit_bytes(lls_engine_pool_shape(in->engine));
  return cost->transfer_ns(cost->context, bytes, link);
}

void lls_cache_service_init(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  in->service = (struct lls_cache_service){
      .size = sizeof in->service,
      .block_tokens = lls_engine_pool_shape(in->engine)->block_tokens,
      .context = in,
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
      .prefix_info = prefix_info,
  };
}
