/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that every file of the router uses: they look into the list of models,
 * bring the next tick of the timer forward, and note that a request or a process has
 * ended. */
#include "core/routing/routing_internal.h"

#include <string.h>
#include <utlist.h>

struct lls_hosted *lls_hosted_find(struct lls_routing *routing, const char *name)
{
  struct lls_hosted *model;
  LL_FOREACH (routing->models, model) {
    if (!model->removed && strcmp(model->name, name) == 0)
      return model;
  }
  return NULL;
}

void lls_routing_tick_soon(struct lls_routing *routing)
{
  LLS_ROUTING_ON_MAIN(routing);
  if (!routing->closing && uv_timer_get_due_in(&routing->timer) > LLS_ROUTING_SOON_MS)
    uv_timer_start(&routing->timer, routing->on_tick, LLS_ROUTING_SOON_MS, 0);
}

/* Calls back once the router is closed: the timer is, and every process has ended. */
static void tell_closed(struct lls_routing *routing)
{
  void (*closed)(void *) = routing->closed;
  if (!routing->timer_closed || routing->n_processes > 0 || closed == NULL)
    return;
  routing->closed = NULL;
  closed(routing->closed_context);
}

void lls_routing_check(struct lls_routing *routing)
{
  LLS_ROUTING_ON_MAIN(routing);
  if (routing->closing)
    tell_closed(routing);
  else if (routing->options.on_idle != NULL)
    routing->options.on_idle(routing->options.context);
}
