/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a finished run; report.h defines them. */
#ifndef LLS_REPORT_METRICS_H
#define LLS_REPORT_METRICS_H

#include "tools/report/report.h"

#define LLS_PERCENTILES_MAX 16
#define LLS_QUANTILES       101 /* 0 %, 1 %, ... 100 %: enough to draw a CDF */
#define LLS_CLASSES         3   /* enum lls_class */

/* The spread of one quantity. All 0 where there was no sample. */
struct lls_spread {
  uint64_t n;
  double mean, std, median, max;
  double percentiles[LLS_PERCENTILES_MAX]; /* at those of lls_metrics */
  double quantiles[LLS_QUANTILES];
};

/* Attainment of one SLO: how many requests have it, and how many met it. */
struct lls_met {
  uint32_t n, met;
};

struct lls_attainment {
  uint32_t issued, completed;
  struct lls_met all; /* every SLO that it has; in n are those that have any */
  struct lls_met ttft, tbt, tpot, completion;
  uint64_t deadlines, deadlines_met; /* of tokens (AccelGen's iteration-level SLOs) */
  uint64_t good_tokens;              /* of requests that met all */
};

/* The part that neither fills up nor drains (steady.c); to_s is 0 where there is none. */
struct lls_steady {
  double from_s, to_s;
  uint32_t requests, with_tpot; /* that started in it and completed */
  double request_throughput, output_throughput;
  double mean_ttft_ms, mean_tpot_ms;
};

/* Metrics of the requests of one class. */
struct lls_class_metrics {
  struct lls_spread ttft, tpot, normalised; /* as below */
  /* of what completes until the last request comes: closed-loop batches go on so long */
  double request_throughput, output_throughput;
};

struct lls_metrics {
  uint32_t n_percentiles;
  double percentiles[LLS_PERCENTILES_MAX]; /* 50, 90, 99, then those asked for */
  uint32_t issued, completed, failed, cancelled;
  double duration_s;                     /* first start to last end */
  uint64_t prompt_tokens, output_tokens; /* of what completed */
  uint64_t max_tokens_per_s;             /* in a second of the clock */
  uint32_t max_concurrent;
  struct lls_spread ttft, tpot, itl, e2el; /* ms; vLLM's */
  struct lls_spread normalised;            /* ms per token */
  struct lls_spread queueing;              /* ms from start to first scheduled */
  struct lls_spread lateness;              /* ms from arrival to start */
  struct lls_spread first_content;         /* ms */
  struct lls_spread itl_per_token;         /* ms; none where it is not known */
  struct lls_steady steady;
  struct lls_spread prediction_error; /* |predicted - true| in tokens */
  double queueing_share;              /* of the summed latencies; NaN: not known */
  struct lls_attainment by_class[LLS_CLASSES], all;
  struct lls_class_metrics classes[LLS_CLASSES];
  uint64_t preemptions; /* as the requests counted them */
  double
      jain_fairness; /* of the tenants' service while requests arrived; NaN: no tenants */
  double service_difference; /* largest less smallest, weighted tokens */
};

/* Attainment of one tenant's requests. */
struct lls_attainment lls_report_tenant(const struct lls_report *, uint32_t tenant);

/* -ENOMEM */
int lls_report_metrics(const struct lls_report *, struct lls_metrics *out);

#endif
