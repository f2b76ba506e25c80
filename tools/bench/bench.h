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
  char host[256];     /* value of the Host header */
  char path[512];     /* path of the endpoint */
  char prefix[256];   /* path before all other endpoints */
  char headers[4096]; /* headers from --header, each line ended */
  char model[256];    /* model name sent in requests */
  bool chat;
  bool looks;              /* poll the server for a plot's timeline: look.h */
  json_t *sampling;        /* members that all requests have in common */
  int32_t id_low, id_high; /* random prompts have ids from low to high - 1 */
};

/* Sets up target, headers and the members of all requests from the options; does not
 * connect. */
int lls_bench_open(struct lls_bench *, const struct lls_bench_options *,
                   const struct lls_workload_options *, struct lls_error *err);
void lls_bench_close(struct lls_bench *);

/* Waits until the server answers, at most for the ready check's time, and asks for its
 * model. */
int lls_bench_reach(struct lls_bench *, struct lls_error *err);

/* Returns facts about the running server: /version, /v1/models and, if it is an
 * llmserve that grants access, its policies, its start time and the number of its
 * reloads. An object; NULL with an error if the server does not answer. To be called
 * after lls_bench_reach. */
json_t *lls_bench_server(struct lls_bench *, struct lls_error *err);

/* Writes the complete POST request of one item. -ERANGE: the item has ids beyond
 * --vocab-size. */
int lls_bench_request(const struct lls_bench *, const struct lls_workload *,
                      const struct lls_item *, struct lls_text *out,
                      struct lls_error *err);

/* The result of a load. */
struct lls_load_result {
  double client_cpu_s; /* CPU time of this process during the load */
  double elapsed_s;
  uint64_t connections;
  bool stopped; /* ended by --stop-after */
};

/* Sends the workload and follows every answer to its end. */
int lls_bench_load(struct lls_bench *, const struct lls_workload *,
                   uint32_t max_concurrency, struct lls_report *, bool progress,
                   struct lls_load_result *, struct lls_error *err);

#endif
