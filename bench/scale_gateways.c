/* SPDX-License-Identifier: Apache-2.0 */
/* Gateways, and which replica they choose; see bench/scale.c. */
#include <string.h>

#include "bench/scale_cluster.h"

#define HEADROOM_PART 0.1

uint32_t home_of(const struct world *w, uint32_t prefix)
{
  uint64_t hash = (prefix + 1) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)((hash >> 32) % w->n_replicas);
}

static uint32_t least(struct world *w, const uint32_t *under_way)
{
  uint32_t n = w->n_replicas, start = (uint32_t)lls_random_below(&w->random, n),
           best = NONE;
  for (uint32_t k = 0; k < n && (best == NONE || under_way[best] > 0); k++) {
    uint32_t i = start + k < n ? start + k : start + k - n;
    if (is_open(w, i) && (best == NONE || under_way[i] < under_way[best]))
      best = i;
  }
  return best;
}

static uint32_t by_prefix(const struct world *w, uint32_t gateway, uint32_t prefix)
{
  const uint32_t *under_way = w->under_way + gateway * w->n_replicas;
  uint32_t i = home_of(w, prefix);
  double most = 1.5 * (w->total[gateway] + 1) / w->n_open;
  while (!is_open(w, i) || under_way[i] + 1 > (most > 1 ? most + 0.999 : 1))
    i = i + 1 < w->n_replicas ? i + 1 : 0;
  return i;
}

static double expected_s(const struct world *w, uint32_t gateway, uint32_t i)
{
  return w->prompt_s * (w->replicas[i].scraped + w->sent[gateway * w->n_replicas + i]);
}

static uint32_t by_headroom(const struct world *w, uint32_t gateway, uint32_t prefix)
{
  uint32_t home = home_of(w, prefix), best = NONE;
  for (uint32_t k = 0; k < w->n_replicas; k++) {
    uint32_t i = (home + k) % w->n_replicas;
    if (!is_open(w, i))
      continue;
    if (best == NONE || expected_s(w, gateway, i) < expected_s(w, gateway, best))
      best = i;
    if (expected_s(w, gateway, i) <= SLO_TTFT * HEADROOM_PART)
      return i;
  }
  return best;
}

void arrive(struct world *w, uint32_t request, double now)
{
  struct request *q = &w->requests[request];
  uint32_t g = q->gateway;
  if (w->n_open == 0)
    return;
  uint32_t to = w->policy == LEAST    ? least(w, w->under_way + g * w->n_replicas)
                : w->policy == PREFIX ? by_prefix(w, g, q->prefix)
                                      : by_headroom(w, g, q->prefix);
  struct replica *r = &w->replicas[to];
  q->replica = (uint16_t)to;
  q->next = NONE;
  if (r->head == NONE)
    r->head = request;
  else
    w->requests[r->tail].next = request;
  r->tail = request;
  r->waiting++;
  w->under_way[g * w->n_replicas + to]++;
  w->sent[g * w->n_replicas + to]++;
  w->total[g]++;
  if (r->ready < 0)
    begin_step(w, to, now);
}

void scrape(struct world *w)
{
  for (uint32_t i = 0; i < w->n_replicas; i++)
    w->replicas[i].scraped = w->replicas[i].waiting;
  memset(w->sent, 0, sizeof *w->sent * w->n_gateways * w->n_replicas);
}
