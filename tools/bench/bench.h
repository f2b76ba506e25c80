/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of llmserve-bench: one run against one server. */
#ifndef LLS_BENCH_BENCH_H
#define LLS_BENCH_BENCH_H

#include <jansson.h>

#include "tools/bench/client.h"
#include "tools/bench/options.h"
#include "tools/report/report.h"
#include "tools/workload/issue.h"

struct lls_bench {
  const struct lls_bench_options *options;
  const struct lls_workload_options *workload_options;
  uv_loop_t uv;
  struct lls_client *client;
  char host[256];     /* as the Host header says it */
  char path[512];     /* of the endpoint */
  char prefix[256];   /* before the paths of everything else that is asked for */
  char headers[4096]; /* of --header, each line ended */
  char model[256];    /* in requests */
  bool chat;
  bool looks;              /* at the server, for the timeline of a plot: look.h */
  json_t *sampling;        /* members that are the same in every request */
  int32_t id_low, id_high; /* random prompts are of ids from low to high - 1 */
};

/* Target, headers and the members of all requests, from the options; connects to nobody.
 */
int lls_bench_open(struct lls_bench *, const struct lls_bench_options *,
                   const struct lls_workload_options *, struct lls_error *err);
void lls_bench_close(struct lls_bench *);

/* Waits until the server answers, up to the ready check's time, and finds its model. */
int lls_bench_reach(struct lls_bench *, struct lls_error *err);

/* Facts about the server that answers: /version, /v1/models and, where it is
 * llmserve and lets us, its policies, when it started and how often it has reloaded. An
 * object; NULL with a sentence if it is not there. After lls_bench_reach. */
json_t *lls_bench_server(struct lls_bench *, struct lls_error *err);

/* The whole POST of one item. -ERANGE: it has ids that --vocab-size has not. */
int lls_bench_request(const struct lls_bench *, const struct lls_workload *,
                      const struct lls_item *, struct lls_text *out,
                      struct lls_error *err);

/* The result of a load. */
struct lls_load_result {
  double client_cpu_s; /* of this process while it ran */
  double elapsed_s;
  uint64_t connections;
  bool stopped; /* by --stop-after */
};

/* Sends the workload and follows every answer to its end. */
int lls_bench_load(struct lls_bench *, const struct lls_workload *,
                   uint32_t max_concurrency, struct lls_report *, bool progress,
                   struct lls_load_result *, struct lls_error *err);

#endif
