/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work a step may spend on grammar masks, in the units of
 * lls_grammar_fill_mask_some: limits.mask_work for all requests together. If the step
 * also computes requests with light masks or none, at most a fourth of the device's step
 * time is spent, so that these requests hardly notice. Work is done in pieces; what a
 * piece takes beyond the limit is subtracted from later steps.
 */
#include "core/step/constraint.h"

#include "core/base/least.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"

#define LLS_UNIT_NS 10
#define SHARE       4   /* one part in SHARE of a step's time */
#define LEAST       500 /* units of a share: fewer would hardly do more than begin */
/* most debt of a longer piece, in steps' limits; the rest is forgiven */
#define MOST_DEBT 32

bool lls_masks_are_light(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_constraint *c = &live->constraint;
  uint64_t free_units = lls_least_u64(LLS_MASK_FREE, (uint64_t)in->limits.mask_work);
  LLS_ON_STEP(in);
  return in->limits.mask_work == 0 || lls_most_u64(c->cost, c->spent) < free_units;
}

void lls_masks_charge(struct lls_instance *in, uint64_t *left, uint64_t took)
{
  uint64_t limit = (uint64_t)in->limits.mask_work;
  uint64_t most = MOST_DEBT * limit, beyond = took - lls_least_u64(took, *left);
  LLS_ON_STEP(in);
  *left -= lls_least_u64(*left, took);
  if (limit > 0)
    in->masks.debt = lls_least_u64(in->masks.debt + beyond, most);
}

void lls_masks_owe(struct lls_instance *in, uint64_t took)
{
  uint64_t nothing = 0;
  LLS_ON_STEP(in);
  lls_masks_charge(in, &nothing, took - lls_least_u64(took, LLS_MASK_FREE));
}

uint64_t lls_masks_begin(struct lls_instance *in, bool beside_others)
{
  uint64_t limit = (uint64_t)in->limits.mask_work;
  LLS_ON_STEP(in);
  if (limit == 0)
    return UINT64_MAX;
  int64_t device_ns = in->masks.device_ns > in->masks.mask_ns
                          ? in->masks.device_ns - in->masks.mask_ns
                          : 0;
  uint64_t share = (uint64_t)device_ns / (SHARE * LLS_UNIT_NS);
  if (beside_others)
    limit = lls_least_u64(limit, lls_most_u64(share, LEAST));
  uint64_t paid = lls_least_u64(in->masks.debt, limit);
  in->masks.debt -= paid;
  return limit - paid;
}
