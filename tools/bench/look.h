/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polls the server twice a second during a load, for its timeline: the number of its
 * requests and the use of its cache, by vLLM's names in GET /metrics. If the server has
 * no such metrics, or denies access, it is polled only once.
 */
#ifndef LLS_BENCH_LOOK_H
#define LLS_BENCH_LOOK_H

#include "tools/bench/bench.h"
#include "tools/bench/client.h"

struct lls_look {
  struct lls_bench *bench;
  struct lls_report *report;
  struct lls_fetch fetch;
  uv_timer_t timer;
  int64_t began_ns; /* uv_hrtime at the load's beginning */
  bool asking;      /* a poll is under way */
};

void lls_look_begin(struct lls_look *, struct lls_bench *, struct lls_report *,
                    int64_t began_ns);
/* Ends polling, so that the uv loop can end. */
void lls_look_end(struct lls_look *);

#endif
