/* SPDX-License-Identifier: Apache-2.0 */
/* See place.h. */
#include <llmserve/policy/place.h>

#include <string.h>

void lls_pol_place_begin(struct lls_pol_place *p)
{
  memset(p->units, 0, sizeof p->units);
}

/* Returns the fraction of an instance's cache that `units` more would fill, counting
 * memory in use, offered to it, or placed in this plan. */
static double fill(const struct lls_pol_place *p, const struct lls_instance_load *load,
                   uint32_t index, uint32_t units)
{
  uint64_t placed = index < LLS_POL_PLACE_INSTANCES ? p->units[index] : 0;
  uint64_t used = (uint64_t)load->device_units - load->free_units + load->offered_units;
  return (double)(used + placed + units) / load->device_units;
}

/* True if a has fewer requests than b, or as many and shorter steps: breaks ties. */
static bool is_lighter(const struct lls_instance_load *a,
                       const struct lls_instance_load *b)
{
  return a->requests != b->requests ? a->requests < b->requests : a->step_ns < b->step_ns;
}

/* Returns the index of the instance of `role` that would be filled least, or with
 * in_turn of the next one. The search begins at p->next and wraps around. */
static uint32_t find(const struct lls_pol_place *p, const struct lls_topology *t,
                     const struct lls_step_view *view, uint32_t role, uint32_t units)
{
  uint32_t best = LLS_POL_PLACE_NOWHERE;
  double least = 0;
  for (uint32_t i = 0; i < t->n_instances && view->loads != NULL; i++) {
    uint32_t index = (p->next + i) % t->n_instances;
    const struct lls_instance_load *load = view->loads[index];
    if (t->instances[index].role != role || load->failed)
      continue;
    double with = fill(p, load, index, units);
    if (best != LLS_POL_PLACE_NOWHERE &&
        (p->in_turn || with > least ||
         (with == least && !is_lighter(load, view->loads[best]))))
      continue;
    best = index;
    least = with;
  }
  return best;
}

uint32_t lls_pol_place(struct lls_pol_place *p, const struct lls_topology *t,
                       const struct lls_step_view *view, uint32_t role,
                       const struct lls_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  view->cache->info(view->cache->context, r, &info);
  uint32_t best = find(p, t, view, role, info.device_units);
  if (best == LLS_POL_PLACE_NOWHERE)
    return best;
  p->next = best + 1;
  if (best < LLS_POL_PLACE_INSTANCES)
    p->units[best] += info.device_units;
  return best;
}
