/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the server twice a second while a load runs, for its timeline: how many
 * requests it has and how full its cache is, by vLLM's names in GET /metrics. A server
 * that has none, or lets others see them, is looked at once.
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
  int64_t began_ns; /* uv_hrtime of the load's beginning */
  bool asking;      /* an answer is to come */
};

void lls_look_begin(struct lls_look *, struct lls_bench *, struct lls_report *,
                    int64_t began_ns);
/* The uv loop can end then. */
void lls_look_end(struct lls_look *);

#endif
