/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files behind report.h. */
#ifndef LLS_REPORT_INTERNAL_H
#define LLS_REPORT_INTERNAL_H

#include "tools/report/histogram.h"
#include "tools/report/metrics.h"

#define LLS_TIMELINE_BINS 512

/* One bin of the timeline. */
struct lls_bin {
  uint64_t arrivals, tokens;
  /* value times duration: batch size, decodes, waiting requests, used units */
  double batch_ns, decode_ns, waiting_ns, units_ns;
  double busy_ns;
  uint32_t looks; /* number of polls from outside, and sums of their values */
  double look_running, look_waiting, look_cache;
  double prefill_tokens; /* a step that covers several bins is divided among them */
};

/* The whole run in a fixed number of bins. Their width doubles when the run grows
 * longer. */
struct lls_timeline {
  int64_t width_ns;
  struct lls_bin bins[LLS_TIMELINE_BINS];
};

struct lls_engine_totals {
  uint64_t steps, requests, decodes, prefill_tokens;
  uint32_t max_requests;
  /* busy_ns: sum of step times; the others: sums of a value times the step's time */
  double busy_ns, requests_ns, units_ns, filled_ns;
  uint64_t max_units;
  /* preemptions by enum lls_preempt_mode */
  uint64_t preemptions[LLS_PREEMPT_DEFER + 1];
  /* bytes copied by enum lls_copy_way */
  uint64_t bytes[LLS_COPY_DEVICE_TO_DEVICE + 1];
  /* time spent on planning; duration of the steps for which it is known */
  double plan_ns, planned_ns;
  struct lls_report_histogram plan;
};

/* Deadlines that replace the items' own; LLS_NEVER: none. */
struct lls_goodput {
  bool set;
  int64_t ttft_ns, tpot_ns, e2el_ns, itl_p99_ns, itl_max_ns;
};

/* Counts iterations that emit tokens with deadlines; tokens with equal times belong to
 * one iteration. */
struct lls_iterations {
  int64_t at_ns; /* time of the last iteration */
  bool late;     /* one of its tokens was late */
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
  unsigned shown; /* the table's metrics, by enum lls_shown */
  uint32_t n_percentiles;
  double percentiles[LLS_PERCENTILES_MAX];
  struct lls_report_outcome *outcomes; /* (n_outcomes) with space for every item */
  uint32_t n_outcomes;
  struct lls_report_histogram gaps, gaps_per_token;
  /* some request's number of tokens differs from the sum of its emissions */
  bool tokens_untold;
  struct gap_buffer { /* buffers of ended requests, to be reused */
    int64_t *data;
    uint32_t capacity;
  } * spare; /* (n_spare) */
  uint32_t n_spare, spare_capacity;
  uint64_t *tokens_by_second; /* (n_seconds) */
  size_t n_seconds;
  /* (n_tenants + 1) weighted tokens served while requests were arriving */
  double *service;
  struct lls_engine_totals engine;
  struct lls_iterations iterations;
  struct lls_timeline timeline;
  uint64_t looks; /* polls in the timeline */
  /* requests in the middle of the load; n 0: unknown */
  struct lls_life lives[LLS_REPORT_LIVES];
};

struct lls_steady lls_report_steady(const struct lls_report *);

/* SLOs of the requests, or --goodput's: slos.c. */
json_t *lls_report_slos(const struct lls_report *);

/* Returns the lives of a few requests, for a plot of them: lives.c. */
json_t *lls_report_lives(const struct lls_report *);

/* Returns the number of failures of each kind; NULL if out of memory. */
json_t *lls_report_failures(const struct lls_report *);

struct lls_bin *lls_timeline_at(struct lls_timeline *, int64_t now_ns);

#endif
