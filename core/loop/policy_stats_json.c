/* SPDX-License-Identifier: Apache-2.0 */
/* See policy_stats_json.h. JSON has no NaN or infinity: such figures are left out. */
#include "core/loop/policy_stats_json.h"

#include "core/policy/policy_stats.h"

static json_t *list_json(const struct lls_policy_stat *list, uint32_t n)
{
  json_t *out = json_object();
  for (uint32_t i = 0; i < n; i++)
    json_object_set_new(out, list[i].name, json_real(list[i].value));
  return out;
}

static json_t *policy_json(const struct lls_policy_stats *p)
{
  return json_pack("{s:o, s:o}", "figures", list_json(p->figures, p->n), "events",
                   list_json(p->counters, p->n_counters));
}

json_t *lls_policy_stats_json(struct lls_loop *loop, uint32_t instance)
{
  struct lls_loop_policy_stats all;
  lls_loop_policy_stats(loop, instance, &all);
  return json_pack("{s:o, s:o, s:o, s:o}", "scheduler", policy_json(&all.scheduler),
                   "cache", policy_json(&all.cache), "predictor",
                   policy_json(&all.predictor), "drafter", policy_json(&all.drafter));
}
