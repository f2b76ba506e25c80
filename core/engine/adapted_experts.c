/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes that adapters make to the experts of a mixture. The rows of a product are
 * sorted by expert; the rows of an expert whose sequences have one adapter are a group,
 * which needs the adapter's matrices of this expert. The device has chosen the experts:
 * where its route is not in the host's memory, it sorts the rows itself (adapt_experts).
 */
#include "core/engine/adapted_rows.h"
#include "core/engine/forward.h"
#include "core/lora/lora.h"

/* Groups that wait for the device. */
struct gathered {
  const struct lls_forward *s;
  const struct lls_route *route;
  struct lls_adapted_place places[LLS_MAX_LOW_RANK];
  uint32_t layer, n_places;
  uint32_t inputs, outputs;
  const void *x;
  void *y;
  uint32_t n, n_rows; /* groups, and their rows */
  size_t ranks, room; /* numbers of scratch that they need; that there are */
};

static void flush(struct gathered *g)
{
  const struct lls_engine_adapters *a = &g->s->e->adapters;
  if (g->n > 0)
    g->s->ops->adapt(g->s->device, a->expert_groups, g->n, g->x, g->inputs, a->scratch,
                     g->y, g->outputs);
  g->n = 0;
  g->n_rows = 0;
  g->ranks = 0;
}

/* Returns the adapter of a row of the route. */
static uint32_t adapter_of(const struct gathered *g, uint32_t place)
{
  const struct lls_engine *e = g->s->e;
  uint32_t row = g->route->row[place];
  return e->adapters
      .of_sequence[e->row_sequence[g->s->picked ? e->logit_rows[row] : row]];
}

/* Adds the group of an expert's rows [first, end) that have the adapter. */
static void gather(struct gathered *g, uint32_t expert, uint32_t adapter)
{
  const struct lls_engine_adapters *a = &g->s->e->adapters;
  uint32_t first = g->route->first[expert], end = g->route->first[expert + 1];
  size_t width = 0;
  if (g->n == LLS_EXPERT_GROUPS)
    flush(g);
  struct lls_adapted_rows *group = &a->expert_groups[g->n];
  group->n_parts = lls_engine_adapted_parts(g->s->e, adapter, g->layer, g->places,
                                            g->n_places, expert, group->parts);
  for (uint32_t i = 0; i < group->n_parts; i++)
    width += group->parts[i].rank;
  if (width == 0)
    return;
  if (g->ranks + (end - first) * width > g->room) {
    const struct lls_adapted_rows own = *group;
    flush(g);
    group = &a->expert_groups[0];
    *group = own;
  }
  uint32_t *rows = a->expert_rows + g->n_rows, n = 0;
  for (uint32_t i = first; i < end; i++)
    if (adapter_of(g, i) == adapter)
      rows[n++] = i;
  group->rows = rows;
  group->n_rows = n;
  group->scale = a->scales[adapter];
  g->n += n > 0;
  g->n_rows += n;
  g->ranks += n * width;
}

/* Lets the device find the rows of each expert. */
static void adapt_there(const struct gathered *g, uint32_t n_rows)
{
  const struct lls_forward *s = g->s;
  const struct lls_engine_adapters *a = &s->e->adapters;
  const struct lls_adapted_rows *groups =
      lls_engine_adapted_groups(s, g->layer, g->places, g->n_places);
  if (groups != NULL)
    s->ops->adapt_experts(s->device, groups, a->n, g->route, n_rows, g->x, g->inputs,
                          a->scratch, g->room, g->y, g->outputs);
}

void lls_engine_adapt_experts(const struct lls_forward *s, uint32_t layer,
                              enum lls_adapted_product product,
                              const struct lls_route *route, const void *x, void *y)
{
  const struct lls_engine_adapters *a = &s->e->adapters;
  if (a->n == 0)
    return;
  struct gathered g = {.s = s, .route = route, .layer = layer, .x = x, .y = y};
  g.n_places = lls_engine_adapted_places(s->e, product, g.places);
  g.inputs = (uint32_t)g.places[0].inputs.n;
  g.room = (size_t)s->e->options.max_tokens * LLS_MAX_LOW_RANK * LLS_LORA_MAX_RANK;
  for (uint32_t i = 0; i < g.n_places; i++)
    g.outputs += (uint32_t)g.places[i].outputs.n;
  if (s->ops->adapt_experts != NULL) {
    adapt_there(&g, s->n_rows);
    return;
  }
  for (uint32_t expert = 0; expert < route->experts; expert++)
    for (uint32_t i = 0; route->first[expert] < route->first[expert + 1] && i < a->n; i++)
      gather(&g, expert, i);
  flush(&g);
}
