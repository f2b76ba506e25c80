/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a finished run; report.h defines them. */
#ifndef LLS_REPORT_METRICS_H
#define LLS_REPORT_METRICS_H

#include "tools/report/report.h"

#define LLS_PERCENTILES_MAX 16
#define LLS_QUANTILES       101 /* at 0 %, 1 %, ... 100 %: enough to draw a CDF */
#define LLS_CLASSES         3   /* values of enum lls_class */

/* The spread of one quantity. All 0 if there was no sample. */
struct lls_spread {
  uint64_t n;
  double mean, std, median, max;
  double percentiles[LLS_PERCENTILES_MAX]; /* values at the percents in lls_metrics */
  double quantiles[LLS_QUANTILES];
};

/* Attainment of one SLO: the number of requests with it, and of those that met it. */
struct lls_met {
  uint32_t n, met;
};

struct lls_attainment {
  uint32_t issued, completed;
  struct lls_met all; /* all SLOs of a request together; n counts requests with any SLO */
  struct lls_met ttft, tbt, tpot, completion;
  /* deadlines of tokens (AccelGen's iteration-level SLOs) */
  uint64_t deadlines, deadlines_met;
  uint64_t good_tokens; /* tokens of requests that met all their SLOs */
};

/* The part of a run in which the load neither rises nor falls (steady.c); to_s is 0 if
 * there is none. */
struct lls_steady {
  double from_s, to_s;
  uint32_t requests, with_tpot; /* requests that started in it and completed */
  double request_throughput, output_throughput;
  double mean_ttft_ms, mean_tpot_ms;
};

/* Metrics of the requests of one class. */
struct lls_class_metrics {
  struct lls_spread ttft, tpot, normalised; /* like the members of lls_metrics */
  /* throughput of completions up to the last request's arrival; closed-loop batches
   * continue until then */
  double request_throughput, output_throughput;
};

struct lls_metrics {
  uint32_t n_percentiles;
  double percentiles[LLS_PERCENTILES_MAX]; /* 50, 90, 99, then the requested ones */
  uint32_t issued, completed, failed, cancelled;
  double duration_s;                     /* time from the first start to the last end */
  uint64_t prompt_tokens, output_tokens; /* tokens of completed requests */
  /* most tokens in one second, counted by whole seconds of the run */
  uint64_t max_tokens_per_s;
  uint32_t max_concurrent;
  struct lls_spread ttft, tpot, itl, e2el; /* ms; vLLM's metrics */
  struct lls_spread normalised;            /* ms per token */
  struct lls_spread queueing;              /* ms from start to first scheduled */
  struct lls_spread lateness;              /* ms from arrival to start */
  struct lls_spread first_content;         /* ms */
  struct lls_spread itl_per_token;         /* ms; empty if unknown */
  struct lls_steady steady;
  struct lls_spread prediction_error; /* |predicted - true| in tokens */
  /* share of queueing in the sum of latencies; NaN: unknown */
  double queueing_share;
  struct lls_attainment by_class[LLS_CLASSES], all;
  struct lls_class_metrics classes[LLS_CLASSES];
  uint64_t preemptions; /* preemptions as requests counted them */
  double
      /* over the tenants' service while requests were arriving; NaN: no tenants */
      jain_fairness;
  double service_difference; /* largest minus smallest service, in weighted tokens */
};

/* Returns the attainment of one tenant's requests. */
struct lls_attainment lls_report_tenant(const struct lls_report *, uint32_t tenant);

/* Returns 0 or -ENOMEM. */
int lls_report_metrics(const struct lls_report *, struct lls_metrics *out);

#endif
