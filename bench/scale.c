/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/scale simulates up to 1,000 replicas behind gateways, with up to 100,000 requests
 * a second: how much the gateways' choice of a replica costs, and at which size it fails.
 * doc/scaling.md has the results.
 *
 * A replica is an H100 with Llama-3-8B. The simulator's cost model gives the time of its
 * steps (core/cost/model.h). Its batches are a simple form of sarathi's: decodes first,
 * then prompts in order of arrival while CHUNK has room. A prompt whose prefix is in the
 * replica's cache computes only its other tokens. The cache is LRU and has the memory
 * which RESERVE tokens leave. Arrivals are Poisson; prefixes follow Zipf's law with
 * exponent 1.
 *
 *   least     the replica with the fewest active requests of this gateway (leastconn)
 *   prefix    the prefix's replica, or the next one with at most 1.5 times the mean load
 *             (etc/proxy/haproxy-replicas.cfg; Mirrokni et al., SODA 2018)
 *   headroom  from the prefix's replica on, the first whose estimated time to first token
 *             (requests waiting at its last scrape and requests sent since) is at most a
 *             tenth of the SLO; if there is none, as least
 *
 * A gateway learns of other gateways' requests only by a scrape.
 *
 * With churn each replica is lost on average every MTBF_S seconds, and is back with an
 * empty cache DOWN_S seconds after that was noticed, as [cluster] does: at once if its
 * process has ended, after two seconds if it is silent; requests go on elsewhere, from
 * their prompts and the tokens that they have. A replica that leaves in order finishes
 * what it has instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/scale_cluster.h"

#define RESERVE  65536 /* tokens of cache for running requests */
#define SECONDS  14.0
#define WARM_UP  6.0
#define SLO_TPOT 0.05

static uint32_t draw_prefix(struct world *w)
{
  double u = lls_random_uniform(&w->random) * w->zipf[PREFIXES - 1];
  uint32_t low = 0, high = PREFIXES - 1;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (w->zipf[middle] < u)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int set_rates(struct world *w)
{
  struct lls_profile profile;
  struct lls_model_config config;
  struct lls_cost_shape shape;
  struct lls_error err = {0};
  if (lls_profile_read(LLS_SRCDIR "/etc/profiles/h100-80g.ini", &profile, &err) < 0 ||
      lls_model_config_read(LLS_SRCDIR "/etc/profiles/models/llama-3-8b", &config, &err) <
          0) {
    fprintf(stderr, "%s\n", err.text);
    return -1;
  }
  lls_cost_shape_init(&shape, &config, 2, 2, 1);
  lls_cost_rates_init(&w->rates, &profile, &shape);
  double bytes = (double)profile.device.memory * profile.efficiency.memory -
                 lls_cost_weight_bytes(&shape);
  w->room = (uint32_t)((bytes / shape.token_bytes - RESERVE) / PREFIX_TOKENS);
  struct lls_cost_load load = {0};
  lls_cost_add(&w->rates, &load, CHUNK, 0);
  w->prompt_s =
      lls_cost_step_ns(&w->rates, &load) / 1e9 * (PREFIX_TOKENS + OWN_TOKENS) / CHUNK;
  lls_profile_free(&profile);
  return 0;
}

static int make(struct world *w, uint32_t n)
{
  size_t pairs = (size_t)w->n_gateways * w->n_replicas;
  w->replicas = calloc(w->n_replicas, sizeof *w->replicas);
  w->requests = calloc(n, sizeof *w->requests);
  w->under_way = calloc(pairs, sizeof *w->under_way);
  w->sent = calloc(pairs, sizeof *w->sent);
  w->total = calloc(w->n_gateways, sizeof *w->total);
  w->heap = calloc(w->n_replicas + 1, sizeof *w->heap);
  w->zipf = calloc(PREFIXES, sizeof *w->zipf);
  w->most_gaps = n;
  w->gaps = calloc(n, sizeof *w->gaps);
  uint32_t *cached = calloc((size_t)w->n_replicas * (w->room + 1), sizeof *cached);
  if (w->replicas == NULL || w->requests == NULL || w->under_way == NULL ||
      w->sent == NULL || w->total == NULL || w->heap == NULL || w->zipf == NULL ||
      w->gaps == NULL || cached == NULL)
    return -1;
  for (uint32_t i = 0; i < w->n_replicas; i++) {
    struct replica *r = &w->replicas[i];
    r->head = NONE;
    r->ready = -1;
    r->changes = draw_life(w);
    r->cached = cached + (size_t)i * (w->room + 1);
    for (uint32_t k = 0; k < ANSWER; k++)
      r->ends[k] = NONE;
  }
  w->n_open = w->n_replicas;
  set_state(w, 0, UP, w->replicas[0].changes);
  for (uint32_t i = 0; i < PREFIXES; i++)
    w->zipf[i] = (i > 0 ? w->zipf[i - 1] : 0) + 1.0 / (i + 1);
  return 0;
}

/* Fills the caches as they are after some time, so that there is no backlog of a cold
 * start. */
static void warm(struct world *w)
{
  for (uint64_t k = 0; k < 4 * (uint64_t)w->n_replicas * w->room; k++) {
    uint32_t prefix = draw_prefix(w);
    uint32_t to = w->policy == LEAST
                      ? (uint32_t)lls_random_below(&w->random, w->n_replicas)
                      : home_of(w, prefix);
    keep(w, &w->replicas[to], prefix);
  }
}

static void run(struct world *w, uint32_t n, double scrape_s)
{
  double next_scrape = 0;
  for (uint32_t i = 0; i < n;) {
    double arrival = w->requests[i].arrival;
    double step = w->n_heap > 0 ? w->replicas[w->heap[0]].ready : 1e9;
    if (w->next_change <= arrival && w->next_change <= step &&
        w->next_change <= next_scrape) {
      change(w);
    } else if (next_scrape <= arrival && next_scrape <= step) {
      scrape(w);
      next_scrape += scrape_s;
    } else if (step <= arrival) {
      end_next_step(w);
    } else {
      arrive(w, i, arrival);
      i++;
    }
  }
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Prints the results of requests which arrived after the warm-up. A request without an
 * answer at the end counts as late. */
static void print(const struct world *w, uint32_t n, double rate)
{
  static const char *const names[] = {"least", "prefix", "headroom"};
  double *ttft = calloc(n, sizeof *ttft);
  uint32_t counted = 0, hits = 0, good = 0;
  uint64_t most = 0, all = 0;
  if (ttft == NULL)
    return;
  for (uint32_t i = 0; i < n; i++) {
    const struct request *q = &w->requests[i];
    if (q->arrival < WARM_UP || q->arrival > SECONDS - 2)
      continue;
    double wait = q->first > 0 ? q->first - q->arrival : SECONDS;
    ttft[counted++] = wait;
    hits += q->hit;
    good +=
        wait <= SLO_TTFT && q->end > 0 && (q->end - q->first) / (ANSWER - 1) <= SLO_TPOT;
  }
  for (uint32_t i = 0; i < w->n_replicas; i++) {
    most = w->replicas[i].served > most ? w->replicas[i].served : most;
    all += w->replicas[i].served;
  }
  qsort(ttft, counted, sizeof *ttft, by_value);
  uint32_t n_gaps = w->n_gaps < w->most_gaps ? w->n_gaps : w->most_gaps;
  qsort(w->gaps, n_gaps, sizeof *w->gaps, by_value);
  printf("%6u %8.0f %-9s %8u %7.3f %7.3f %7.3f %6.2f %10.4f", w->n_replicas, rate,
         names[w->policy], w->n_gateways, (double)hits / counted, ttft[counted / 2],
         ttft[(size_t)(counted * 0.99)], (double)most * w->n_replicas / (double)(all + 1),
         (double)good / counted);
  if (w->mtbf_s > 0)
    printf(" %6u %8u %8.3f %8.3f", w->n_lost, w->n_resent,
           n_gaps > 0 ? w->gaps[n_gaps / 2] : 0, n_gaps > 0 ? w->gaps[n_gaps - 1] : 0);
  printf("\n");
  free(ttft);
}

int main(int argc, char **argv)
{
  struct world w = {0};
  if (argc < 4) {
    if (set_rates(&w) == 0)
      printf(
          "a cache has room for %u prefixes; a prompt without its prefix takes %.1f ms\n",
          w.room, w.prompt_s * 1e3);
    printf("replic requests policy    gateways    hits ttft50s ttft99s  peak   attained"
           " [  lost   resent  gap50s  gapmaxs, with churn]\n");
    fprintf(stderr, "Usage: scale REPLICAS RATE_EACH least|prefix|headroom [GATEWAYS "
                    "[SCRAPE_S [SEED [MTBF_S [NOTICE_S [DOWN_S]]]]]]\n"
                    "NOTICE_S: until a loss is noticed; -1: they leave in order\n");
    return 2;
  }
  w.n_replicas = (uint32_t)atoi(argv[1]);
  double rate = atof(argv[2]) * w.n_replicas, now = 0,
         scrape_s = argc > 5 ? atof(argv[5]) : 0.05;
  w.policy = argv[3][0] == 'l' ? LEAST : argv[3][0] == 'p' ? PREFIX : HEADROOM;
  w.n_gateways = argc > 4 ? (uint32_t)atoi(argv[4]) : 1;
  w.random = lls_random_at(argc > 6 ? (uint64_t)atoll(argv[6]) : 1, LLS_STREAM_TOKENS, 0);
  w.churn = lls_random_at(argc > 6 ? (uint64_t)atoll(argv[6]) : 1, LLS_STREAM_TOKENS, 1);
  w.mtbf_s = argc > 7 ? atof(argv[7]) : 0;
  w.notice_s = argc > 8 ? atof(argv[8]) : 0;
  w.down_s = argc > 9 ? atof(argv[9]) : 3;
  uint32_t n = (uint32_t)(rate * SECONDS);
  if (w.n_replicas == 0 || w.n_replicas > 65535 || w.n_gateways == 0 || n == 0 ||
      scrape_s <= 0 || w.down_s < 1 || set_rates(&w) != 0 || make(&w, n) != 0)
    return 1;
  for (uint32_t i = 0; i < n; i++) {
    now -= log(1 - lls_random_uniform(&w.random)) / rate;
    w.requests[i].arrival = now;
    w.requests[i].prefix = draw_prefix(&w);
    w.requests[i].gateway = (uint16_t)lls_random_below(&w.random, w.n_gateways);
  }
  warm(&w);
  run(&w, n, scrape_s);
  print(&w, n, rate);
  return 0;
}
