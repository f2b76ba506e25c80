/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated replicas behind gateways; see bench/scale.c. */
#ifndef LLS_BENCH_SCALE_CLUSTER_H
#define LLS_BENCH_SCALE_CLUSTER_H

#include <math.h>

#include "core/cost/model.h"
#include "tools/workload/random.h"

#define PREFIXES      20000
#define PREFIX_TOKENS 1024
#define OWN_TOKENS    128
#define ANSWER        32
#define CHUNK         2048
#define SLO_TTFT      1.0
#define NONE          UINT32_MAX
#define NEVER         1e9

enum policy { LEAST, PREFIX, HEADROOM };

struct request {
  double arrival, first, end;
  double cut;            /* time of the last token before its replica was lost, or 0 */
  uint32_t prefix, next; /* next: in a list of its replica */
  uint16_t gateway, replica, computed, to_compute;
  uint16_t generated; /* tokens that it had when its replica was lost */
  bool hit;
};

/* A lost replica is silent until that is noticed, one that leaves has its work to finish;
 * both are absent then. */
enum state { UP, SILENT, LEAVING, ABSENT };

struct replica {
  uint32_t head, tail;       /* list of requests whose prompts are to compute */
  uint32_t ends[ANSWER];     /* number of answers which end with a step, by step number */
  uint32_t waiting, decodes; /* numbers of requests */
  double context, ready; /* cached tokens of all decodes; end time of the step, or -1 */
  uint64_t steps;
  enum state state;
  double stepped, changes;    /* end of its last step; next change of its state */
  uint32_t *cached, n_cached; /* cached prefixes, the last used first */
  uint32_t scraped;           /* `waiting` at the last scrape */
  uint64_t served;
};

struct world {
  struct lls_cost_rates rates;
  struct lls_random random, churn;
  enum policy policy;
  uint32_t n_replicas, n_gateways, room; /* room: prefixes in a cache */
  double prompt_s; /* seconds to compute a prompt without its prefix */
  struct replica *replicas;
  struct request *requests;
  uint32_t *under_way, *sent; /* (gateways, replicas): active requests, and those sent
                                 since the last scrape */
  uint32_t *total;            /* (gateways): active requests */
  uint32_t *heap, n_heap;     /* replicas in order of the end of their steps */
  double mtbf_s, down_s, notice_s; /* mtbf_s 0: no churn; notice_s < 0: they leave */
  double next_change;              /* the first of all replicas */
  uint32_t n_open;                 /* replicas that the gateways send requests */
  uint32_t n_lost, n_resent, n_gaps, most_gaps;
  double *gaps; /* (n_gaps) times between two tokens, over the loss of a replica */
  double *zipf; /* (PREFIXES): cumulated probabilities */
};

/* ---- replicas: scale_replicas.c --------------------------------------------------- */

/* Puts a prefix in a replica's cache, as the last used one. */
void keep(const struct world *w, struct replica *r, uint32_t prefix);
/* Begins a step if the replica has work. */
void begin_step(struct world *w, uint32_t index, double now);
/* Ends the step that is the next to end, and begins its replica's next one. */
void end_next_step(struct world *w);
/* Takes a request from its replica. */
void take_back(struct world *w, const struct request *q);
/* Returns true if the gateways send requests there: they do not know of a silence. */
bool is_open(const struct world *w, uint32_t index);
/* until: the time of its next change. */
void set_state(struct world *w, uint32_t index, enum state state, double until);

/* ---- gateways: scale_gateways.c --------------------------------------------------- */

/* The replica of a prefix. */
uint32_t home_of(const struct world *w, uint32_t prefix);
/* Sends a request to a replica; with none it stays without an answer. */
void arrive(struct world *w, uint32_t request, double now);
void scrape(struct world *w);

/* ---- churn: scale_churn.c --------------------------------------------------------- */

/* Seconds until a replica is lost. */
double draw_life(struct world *w);
/* Carries out the change of a replica's state that is the next. */
void change(struct world *w);

#endif
