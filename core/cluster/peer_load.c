/* SPDX-License-Identifier: Apache-2.0 */
/* The boards of the instances; see peer_load.h. */
#include "core/cluster/peer_load.h"

#include <errno.h>
#include <stdlib.h>

#include "core/cost/cost.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"

/* steps averaged in step_ns: about as many as a batch stays the same */
#define MEAN_STEPS 16

int lls_peer_loads_init(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->n_peers < 2)
    return 0;
  struct lls_peer_loads *p = calloc(1, sizeof *p);
  if (p == NULL)
    return -ENOMEM;
  pthread_mutex_init(&p->lock, NULL);
  for (uint32_t i = 0; i < in->n_peers; i++)
    p->list[i] = &p->seen[i];
  in->loads = p;
  return 0;
}

void lls_peer_loads_fini(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->loads == NULL)
    return;
  pthread_mutex_destroy(&in->loads->lock);
  free(in->loads);
  in->loads = NULL;
}

static uint32_t offered_units(const struct lls_instance *in)
{
  const struct lls_request_list *incoming = &in->migration.incoming;
  uint32_t units = 0;
  for (uint32_t i = 0; i < incoming->n; i++)
    units += lls_live_of(incoming->items[i])->move.units;
  return units;
}

static void fill_load(struct lls_instance *in, struct lls_instance_load *load)
{
  const struct lls_cost *cost = lls_cost_model_service(in->cost);
  struct lls_capacity device;
  struct lls_step_statistics steps = {.size = sizeof steps};
  lls_cache_capacity(in, LLS_TIER_DEVICE, &device);
  cost->statistics(cost->context, MEAN_STEPS, &steps);
  *load = (struct lls_instance_load){
      .size = sizeof *load,
      .requests = lls_instance_alive(in),
      .device_units = device.total_units,
      .free_units = device.free_units,
      .offered_units = offered_units(in),
      .step_ns = steps.mean_ns,
  };
}

void lls_peer_loads_show(struct lls_instance *in)
{
  struct lls_peer_loads *p = in->loads;
  struct lls_load_entry now = {.at_ns = lls_instance_now(in)};
  LLS_ON_STEP(in);
  if (p == NULL)
    return;
  fill_load(in, &now.load);
  memcpy(now.received, p->received, sizeof now.received);
  pthread_mutex_lock(&p->lock);
  if (p->entry[1].at_ns < now.at_ns)
    p->entry[0] = p->entry[1];
  p->entry[1] = now;
  pthread_mutex_unlock(&p->lock);
}

static uint32_t on_the_way(uint64_t sent, uint64_t received)
{
  return sent > received ? (uint32_t)(sent - received) : 0;
}

/* Returns the load of `peer` as of now_ns, including what `in` has offered to it
 * since. */
static struct lls_instance_load load_of(const struct lls_instance *in,
                                        struct lls_instance *peer, int64_t now_ns)
{
  struct lls_offers *sent = &in->loads->sent[peer->info.index];
  uint32_t returns = atomic_load(&peer->health.returns);
  struct lls_peer_loads *p = peer->loads;
  pthread_mutex_lock(&p->lock);
  const struct lls_load_entry *entry = &p->entry[p->entry[1].at_ns <= now_ns];
  const struct lls_offers received = entry->received[in->info.index];
  struct lls_instance_load load = entry->load;
  pthread_mutex_unlock(&p->lock);
  if (in->loads->returns[peer->info.index] != returns)
    *sent = received;
  in->loads->returns[peer->info.index] = returns;
  load.requests += on_the_way(sent->requests, received.requests);
  load.offered_units += on_the_way(sent->units, received.units);
  load.failed = atomic_load(&peer->health.broken) || atomic_load(&peer->health.leaving);
  return load;
}

void lls_peer_loads_look(struct lls_instance *in)
{
  int64_t now_ns = lls_instance_now(in);
  LLS_ON_STEP(in);
  for (uint32_t i = 0; in->loads != NULL && i < in->n_peers; i++)
    in->loads->seen[i] = load_of(in, in->peers[i], now_ns);
}

static void count(struct lls_offers *offers, const struct lls_live *live)
{
  offers->requests++;
  offers->units += live->move.units;
}

void lls_peer_loads_sent(struct lls_instance *in, struct lls_live *live, uint32_t target)
{
  struct lls_cache_info info;
  LLS_ON_STEP(in);
  int rc = lls_cache_info(in, &live->view, &info);
  live->move.units = rc == 0 ? info.device_units : 0;
  count(&in->loads->sent[target], live);
}

void lls_peer_loads_received(struct lls_instance *in, const struct lls_live *live)
{
  LLS_ON_STEP(in);
  count(&in->loads->received[live->move.source], live);
}
