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
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/model.h"
#include "tools/workload/random.h"

#define PREFIXES      20000
#define PREFIX_TOKENS 1024
#define OWN_TOKENS    128
#define ANSWER        32
#define CHUNK         2048
#define MAX_SEQUENCES 256
#define RESERVE       65536 /* tokens of cache for running requests */
#define SECONDS       14.0
#define WARM_UP       6.0
#define SLO_TTFT      1.0
#define SLO_TPOT      0.05
#define HEADROOM_PART 0.1
#define NONE          UINT32_MAX

enum policy { LEAST, PREFIX, HEADROOM };

struct request {
  double arrival, first, end;
  uint32_t prefix, next; /* next: in a list of its replica */
  uint16_t gateway, replica, computed, to_compute;
  bool hit;
};

struct replica {
  uint32_t head, tail;       /* list of requests whose prompts are to compute */
  uint32_t ends[ANSWER];     /* number of answers which end with a step, by step number */
  uint32_t waiting, decodes; /* numbers of requests */
  double context, ready; /* cached tokens of all decodes; end time of the step, or -1 */
  uint64_t steps;
  uint32_t *cached, n_cached; /* cached prefixes, the last used first */
  uint32_t scraped;           /* `waiting` at the last scrape */
  uint64_t served;
};

struct world {
  struct lls_cost_rates rates;
  struct lls_random random;
  enum policy policy;
  uint32_t n_replicas, n_gateways, room; /* room: prefixes in a cache */
  double prompt_s; /* seconds to compute a prompt without its prefix */
  struct replica *replicas;
  struct request *requests;
  uint32_t *under_way, *sent; /* (gateways, replicas): active requests, and those sent
                                 since the last scrape */
  uint32_t *total;            /* (gateways): active requests */
  uint32_t *heap, n_heap;     /* replicas in order of the end of their steps */
  double *zipf;               /* (PREFIXES): cumulated probabilities */
};

/* ---- steps in the order of their ends ---------------------------------------------- */

static bool sooner(const struct world *w, uint32_t a, uint32_t b)
{
  return w->replicas[w->heap[a]].ready < w->replicas[w->heap[b]].ready;
}

static void exchange(struct world *w, uint32_t a, uint32_t b)
{
  uint32_t kept = w->heap[a];
  w->heap[a] = w->heap[b];
  w->heap[b] = kept;
}

static void push(struct world *w, uint32_t replica)
{
  uint32_t at = w->n_heap++;
  w->heap[at] = replica;
  for (; at > 0 && sooner(w, at, (at - 1) / 2); at = (at - 1) / 2)
    exchange(w, at, (at - 1) / 2);
}

static uint32_t pop(struct world *w)
{
  uint32_t first = w->heap[0], at = 0;
  w->heap[0] = w->heap[--w->n_heap];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child + 1 < w->n_heap && sooner(w, child + 1, child))
      child++;
    if (child >= w->n_heap || !sooner(w, child, at))
      return first;
    exchange(w, at, child);
    at = child;
  }
}

/* ---- a replica --------------------------------------------------------------------- */

/* Returns true if the prefix is cached, and makes it the last used one. */
static bool look_up(struct replica *r, uint32_t prefix)
{
  uint32_t i = 0;
  while (i < r->n_cached && r->cached[i] != prefix)
    i++;
  if (i == r->n_cached)
    return false;
  memmove(r->cached + 1, r->cached, i * sizeof *r->cached);
  r->cached[0] = prefix;
  return true;
}

static void keep(const struct world *w, struct replica *r, uint32_t prefix)
{
  if (look_up(r, prefix))
    return;
  if (r->n_cached < w->room)
    r->n_cached++;
  memmove(r->cached + 1, r->cached, (r->n_cached - 1) * sizeof *r->cached);
  r->cached[0] = prefix;
}

static void begin_prompt(struct replica *r, struct request *q)
{
  if (q->to_compute != 0)
    return;
  q->hit = look_up(r, q->prefix);
  q->to_compute = q->hit ? OWN_TOKENS : PREFIX_TOKENS + OWN_TOKENS;
}

/* Begins a step if the replica has work: sets its end time and the prompt tokens which
 * it computes. */
static void begin_step(struct world *w, uint32_t index, double now)
{
  struct replica *r = &w->replicas[index];
  struct lls_cost_load load = {.sequences = r->decodes,
                               .rows = r->decodes,
                               .drawn = r->decodes,
                               .cached = r->context + r->decodes,
                               .longest = PREFIX_TOKENS + OWN_TOKENS + ANSWER};
  uint32_t budget = CHUNK > r->decodes ? CHUNK - r->decodes : 0,
           room = MAX_SEQUENCES - r->decodes;
  r->ready = -1;
  if (r->decodes == 0 && r->head == NONE)
    return;
  for (uint32_t i = r->head; i != NONE && budget > 0 && room > 0; room--) {
    struct request *q = &w->requests[i];
    begin_prompt(r, q);
    uint32_t before = q->hit ? PREFIX_TOKENS : 0, tokens = q->to_compute - q->computed;
    if (tokens > budget)
      tokens = budget;
    lls_cost_add(&w->rates, &load, tokens, before + q->computed);
    q->computed = (uint16_t)(q->computed + tokens);
    load.drawn += q->computed == q->to_compute;
    budget -= tokens;
    i = q->next;
  }
  r->ready = now + lls_cost_step_ns(&w->rates, &load) / 1e9;
  push(w, index);
}

static void end_answers(struct world *w, struct replica *r, double now)
{
  uint32_t *ends = &r->ends[r->steps % ANSWER];
  for (uint32_t i = *ends; i != NONE; i = w->requests[i].next) {
    struct request *q = &w->requests[i];
    q->end = now;
    r->decodes--;
    r->context -= PREFIX_TOKENS + OWN_TOKENS + ANSWER;
    r->served++;
    w->under_way[q->gateway * w->n_replicas + q->replica]--;
    w->total[q->gateway]--;
  }
  *ends = NONE;
}

static void end_step(struct world *w, uint32_t index)
{
  struct replica *r = &w->replicas[index];
  double now = r->ready;
  r->steps++;
  r->context += r->decodes;
  end_answers(w, r, now);
  while (r->head != NONE) {
    struct request *q = &w->requests[r->head];
    uint32_t i = r->head, *ends = &r->ends[(r->steps + ANSWER - 1) % ANSWER];
    if (q->to_compute == 0 || q->computed < q->to_compute)
      break;
    r->head = q->next;
    r->waiting--;
    q->first = now;
    keep(w, r, q->prefix);
    q->next = *ends;
    *ends = i;
    r->decodes++;
    r->context += PREFIX_TOKENS + OWN_TOKENS + 1;
  }
  begin_step(w, index, now);
}

/* ---- gateways ---------------------------------------------------------------------- */

static uint32_t home_of(const struct world *w, uint32_t prefix)
{
  uint64_t hash = (prefix + 1) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)((hash >> 32) % w->n_replicas);
}

static uint32_t least(struct world *w, const uint32_t *under_way)
{
  uint32_t n = w->n_replicas, start = (uint32_t)lls_random_below(&w->random, n),
           best = start;
  for (uint32_t k = 1; k < n && under_way[best] > 0; k++) {
    uint32_t i = start + k < n ? start + k : start + k - n;
    if (under_way[i] < under_way[best])
      best = i;
  }
  return best;
}

static uint32_t by_prefix(const struct world *w, uint32_t gateway, uint32_t prefix)
{
  const uint32_t *under_way = w->under_way + gateway * w->n_replicas;
  uint32_t i = home_of(w, prefix);
  double most = 1.5 * (w->total[gateway] + 1) / w->n_replicas;
  while (under_way[i] + 1 > (most > 1 ? most + 0.999 : 1))
    i = i + 1 < w->n_replicas ? i + 1 : 0;
  return i;
}

static double expected_s(const struct world *w, uint32_t gateway, uint32_t i)
{
  return w->prompt_s * (w->replicas[i].scraped + w->sent[gateway * w->n_replicas + i]);
}

static uint32_t by_headroom(const struct world *w, uint32_t gateway, uint32_t prefix)
{
  uint32_t home = home_of(w, prefix), best = home;
  for (uint32_t k = 0; k < w->n_replicas; k++) {
    uint32_t i = (home + k) % w->n_replicas;
    if (expected_s(w, gateway, i) < expected_s(w, gateway, best))
      best = i;
    if (expected_s(w, gateway, i) <= SLO_TTFT * HEADROOM_PART)
      return i;
  }
  return best;
}

static void arrive(struct world *w, uint32_t i, double now)
{
  struct request *q = &w->requests[i];
  uint32_t g = q->gateway;
  uint32_t to = w->policy == LEAST    ? least(w, w->under_way + g * w->n_replicas)
                : w->policy == PREFIX ? by_prefix(w, g, q->prefix)
                                      : by_headroom(w, g, q->prefix);
  struct replica *r = &w->replicas[to];
  q->replica = (uint16_t)to;
  q->next = NONE;
  if (r->head == NONE)
    r->head = i;
  else
    w->requests[r->tail].next = i;
  r->tail = i;
  r->waiting++;
  w->under_way[g * w->n_replicas + to]++;
  w->sent[g * w->n_replicas + to]++;
  w->total[g]++;
  if (r->ready < 0)
    begin_step(w, to, now);
}

static void scrape(struct world *w)
{
  for (uint32_t i = 0; i < w->n_replicas; i++)
    w->replicas[i].scraped = w->replicas[i].waiting;
  memset(w->sent, 0, sizeof *w->sent * w->n_gateways * w->n_replicas);
}

/* ---- a run ------------------------------------------------------------------------- */

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
  uint32_t *cached = calloc((size_t)w->n_replicas * (w->room + 1), sizeof *cached);
  if (w->replicas == NULL || w->requests == NULL || w->under_way == NULL ||
      w->sent == NULL || w->total == NULL || w->heap == NULL || w->zipf == NULL ||
      cached == NULL)
    return -1;
  for (uint32_t i = 0; i < w->n_replicas; i++) {
    struct replica *r = &w->replicas[i];
    r->head = NONE;
    r->ready = -1;
    r->cached = cached + (size_t)i * (w->room + 1);
    for (uint32_t k = 0; k < ANSWER; k++)
      r->ends[k] = NONE;
  }
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
    if (next_scrape <= arrival && next_scrape <= step) {
      scrape(w);
      next_scrape += scrape_s;
    } else if (step <= arrival) {
      end_step(w, pop(w));
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
  printf("%6u %8.0f %-9s %8u %7.3f %7.3f %7.3f %6.2f %10.4f\n", w->n_replicas, rate,
         names[w->policy], w->n_gateways, (double)hits / counted, ttft[counted / 2],
         ttft[(size_t)(counted * 0.99)], (double)most * w->n_replicas / (double)(all + 1),
         (double)good / counted);
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
    printf(
        "replic requests policy    gateways    hits ttft50s ttft99s  peak   attained\n");
    fprintf(stderr, "Usage: scale REPLICAS RATE_EACH least|prefix|headroom [GATEWAYS "
                    "[SCRAPE_S [SEED]]]\n");
    return 2;
  }
  w.n_replicas = (uint32_t)atoi(argv[1]);
  double rate = atof(argv[2]) * w.n_replicas, now = 0,
         scrape_s = argc > 5 ? atof(argv[5]) : 0.05;
  w.policy = argv[3][0] == 'l' ? LEAST : argv[3][0] == 'p' ? PREFIX : HEADROOM;
  w.n_gateways = argc > 4 ? (uint32_t)atoi(argv[4]) : 1;
  w.random = lls_random_at(argc > 6 ? (uint64_t)atoll(argv[6]) : 1, LLS_STREAM_TOKENS, 0);
  uint32_t n = (uint32_t)(rate * SECONDS);
  if (w.n_replicas == 0 || w.n_replicas > 65535 || w.n_gateways == 0 || n == 0 ||
      scrape_s <= 0 || set_rates(&w) != 0 || make(&w, n) != 0)
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
