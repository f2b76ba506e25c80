/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files behind report.h. */
#ifndef LLS_REPORT_INTERNAL_H
#define LLS_REPORT_INTERNAL_H

#include "tools/report/histogram.h"
#include "tools/report/metrics.h"

#define LLS_TIMELINE_BINS 512

/* The events of one piece of time. */
struct lls_bin {
  uint64_t arrivals, tokens;
  double batch_ns, decode_ns, waiting_ns, units_ns; /* each times how long it was so */
  double busy_ns;
  uint32_t looks; /* from without, and their sums: */
  double look_running, look_waiting, look_cache;
  double prefill_tokens; /* of steps that lie in several bins, a part */
};

/* The whole run in a fixed number of bins, whose width doubles when time runs out. */
struct lls_timeline {
  int64_t width_ns;
  struct lls_bin bins[LLS_TIMELINE_BINS];
};

struct lls_engine_totals {
  uint64_t steps, requests, decodes, prefill_tokens;
  uint32_t max_requests;
  double busy_ns, requests_ns, units_ns, filled_ns; /* by time */
  uint64_t max_units;
  uint64_t preemptions[LLS_PREEMPT_DEFER + 1];   /* by enum lls_preempt_mode */
  uint64_t bytes[LLS_COPY_DEVICE_TO_DEVICE + 1]; /* by enum lls_copy_kind */
  double plan_ns, planned_ns; /* deciding, and the steps it was known of */
  struct lls_report_histogram plan;
};

/* Deadlines that take the place of the items' own; LLS_NEVER: none. */
struct lls_goodput {
  bool set;
  int64_t ttft_ns, tpot_ns, e2el_ns, itl_p99_ns, itl_max_ns;
};

/* Iterations that put out tokens with deadlines; tokens of one time are of one iteration.
 */
struct lls_iterations {
  int64_t at_ns; /* of the last one */
  bool late;     /* a token of it was */
  uint64_t n, in_time;
};

#define LLS_REPORT_LIVES 120

enum lls_shown {
  LLS_SHOWN_TTFT = 1u << 0,
  LLS_SHOWN_TPOT = 1u << 1,
  LLS_SHOWN_ITL = 1u << 2,
  LLS_SHOWN_E2EL = 1u << 3,
};

struct lls_report {
  const struct lls_workload *workload;
  struct lls_report_options options;
  struct lls_goodput goodput;
  unsigned shown; /* the table's, by enum lls_shown */
  uint32_t n_percentiles;
  double percentiles[LLS_PERCENTILES_MAX];
  struct lls_report_outcome *outcomes; /* (n_outcomes) room for every item */
  uint32_t n_outcomes;
  struct lls_report_histogram gaps, gaps_per_token;
  bool tokens_untold; /* a request had other tokens than its emissions said */
  struct gap_buffer { /* of requests that ended, to be used again */
    int64_t *data;
    uint32_t capacity;
  } * spare; /* (n_spare) */
  uint32_t n_spare, spare_capacity;
  uint64_t *tokens_by_second; /* (n_seconds) */
  size_t n_seconds;
  double *service; /* (n_tenants + 1) weighted tokens while requests arrived */
  struct lls_engine_totals engine;
  struct lls_iterations iterations;
  struct lls_timeline timeline;
  uint64_t looks;                          /* in the timeline */
  struct lls_life lives[LLS_REPORT_LIVES]; /* of the load's middle; n 0: not told of */
};

struct lls_steady lls_report_steady(const struct lls_report *);

/* SLOs of the requests, or --goodput's: slos.c. */
json_t *lls_report_slos(const struct lls_report *);

/* The lives of a few requests, for a picture of them: lives.c. */
json_t *lls_report_lives(const struct lls_report *);

/* How often each kind of failure came; NULL without memory. */
json_t *lls_report_failures(const struct lls_report *);

struct lls_bin *lls_timeline_at(struct lls_timeline *, int64_t now_ns);

#endif
