/* SPDX-License-Identifier: Apache-2.0 */
/* The SLOs that applied to a run's requests, as [least, most] in ms. */
#include <string.h>

#include "tools/report/internal.h"

struct range {
  const char *key;
  int64_t least, most; /* LLS_NEVER: no request has one */
};

static void widen(struct range *r, int64_t ns)
{
  if (ns == LLS_NEVER)
    return;
  if (r->least == LLS_NEVER || ns < r->least)
    r->least = ns;
  if (r->most == LLS_NEVER || ns > r->most)
    r->most = ns;
}

enum { TTFT, TBT, TPOT, E2EL, ITL_P99, ITL_MAX, N_RANGES };

json_t *lls_report_slos(const struct lls_report *report)
{
  const struct lls_workload *w = report->workload;
  const struct lls_goodput *g = &report->goodput;
  struct range ranges[N_RANGES] = {{"ttft_ms", 0, 0},    {"tbt_ms", 0, 0},
                                   {"tpot_ms", 0, 0},    {"e2el_ms", 0, 0},
                                   {"itl_p99_ms", 0, 0}, {"itl_max_ms", 0, 0}};
  for (int i = 0; i < N_RANGES; i++)
    ranges[i].least = ranges[i].most = LLS_NEVER;
  for (uint32_t i = 0; i < w->n_items && !g->set; i++) {
    widen(&ranges[TTFT], w->items[i].slo.ttft_ns);
    widen(&ranges[TBT], w->items[i].slo.tbt_ns);
    widen(&ranges[TPOT], w->items[i].slo.tpot_ns);
    widen(&ranges[E2EL], w->items[i].slo.completion_ns);
  }
  if (g->set) {
    widen(&ranges[TTFT], g->ttft_ns);
    widen(&ranges[TPOT], g->tpot_ns);
    widen(&ranges[E2EL], g->e2el_ns);
    widen(&ranges[ITL_P99], g->itl_p99_ns);
    widen(&ranges[ITL_MAX], g->itl_max_ns);
  }
  json_t *object = json_object();
  for (int i = 0; i < N_RANGES; i++)
    if (ranges[i].least != LLS_NEVER)
      json_object_set_new(object, ranges[i].key,
                          json_pack("[f, f]", (double)ranges[i].least / 1e6,
                                    (double)ranges[i].most / 1e6));
  return object;
}
