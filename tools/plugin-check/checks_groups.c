/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache manager over every set of kinds of groups, three ratios of block sizes, with
 * and without a host (groups.h). It is tried with the sets whose kinds, and whose number
 * of groups, its caps have; of these, and of the others, it may refuse any, with a
 * sentence.
 */
#include "t/policy.h"
#include "tools/plugin-check/checks.h"
#include "tools/plugin-check/groups.h"

void check_groups(const struct subject *s, struct findings *f)
{
  struct harness_policy p = {s->path, s->parameters};
  struct harness_loaded l = {0};
  struct lls_error err = {0};
  struct groups_seen seen = {0};
  if (s->kind != LLS_KIND_CACHE) {
    skipped(f, "not a cache manager");
    return;
  }
  if (policy_load(s->kind, &p, &l, &err) < 0) {
    found(f, "cannot be loaded: %s", err.text);
    return;
  }
  bool int8 = lls_cache_makes(&l.module->cache, LLS_FORM_INT8);
  for (uint32_t i = 0; i < groups_sets() && f->n == 0; i++) {
    struct groups_set set;
    groups_make_set(&set, i, int8);
    groups_try(l.module, l.params, &set, s->seed + i, f, &seen);
  }
  if (seen.sets == 0)
    found(f, "it keeps none of the sets of groups");
  noted(
      f,
      "%u of %u sets of groups were tried, and %u refused: %u prefixes taken, %u swaps, "
      "%u sets with int8 blocks, %u moves beside the steps",
      seen.sets, groups_sets(), seen.refused, seen.hits, seen.swaps, seen.others,
      seen.moved);
  policy_unload(&l);
}
