/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the events of requests into the metrics of the papers and of vLLM's `bench
 * serve`.
 *
 *   report = lls_report_create(...)
 *   each request:  lls_report_begin -> lls_report_tokens ... -> lls_report_end
 *   each step, if the engine is in this process:
 *     lls_report_step, lls_report_preemption, ...
 *   lls_report_print, lls_report_json; metrics.h has the results
 *
 * Definitions (the same for the simulator and for HTTP):
 *
 *   TTFT                first token - arrival
 *   TBT, ITL            gap between two emissions of one request; pooled over all
 *                       requests in a histogram of 1/64-octave buckets (percentiles
 *                       within 0.6 %)
 *   TPOT                (last token - first token) / (tokens - 1); none with one token
 *   completion, E2EL    last token - arrival
 *   normalised latency  completion / tokens
 *   p99 TBT             of one request's own gaps, linear interpolation; one token: 0
 *   goodput             requests a second that met all their SLOs
 *   attainment          their share of all *issued* requests: failed, refused or
 *                       cut-short ones are misses
 *
 * "arrival" is outcome.started_ns. The simulator starts a request's clock at its
 * arrival in the load. An HTTP client starts it when it sends, as vLLM's does; how late
 * it was for a request that no limit delayed is reported separately (lateness).
 */
#ifndef LLS_REPORT_H
#define LLS_REPORT_H

#include <jansson.h>
#include <llmserve/types.h>

#include "core/device/device.h"
#include <stdio.h>

#include "core/base/error.h"
#include "core/instance/life.h"
#include "tools/workload/workload.h"

enum lls_outcome_status {
  LLS_OUTCOME_RUNNING,
  LLS_OUTCOME_COMPLETED,
  LLS_OUTCOME_FAILED, /* refused by the server or broken off: a miss */
  /* cancelled, or read slowly, as the load demanded; not counted in attainment */
  LLS_OUTCOME_CANCELLED,
};

/* The outcome of one request. Times are ns since the load began, like arrivals. */
struct lls_report_outcome {
  const struct lls_item *item;
  uint32_t status;           /* enum lls_outcome_status */
  uint32_t tokens;           /* tokens of the answer */
  uint32_t predicted_tokens; /* the predictor's first prediction; 0: none */
  uint32_t preemptions;
  uint32_t n_gaps; /* number of emissions - 1 */
  /* deadlines of tokens: the TTFT's, and the TBT's of each gap */
  uint32_t deadlines;
  uint32_t deadlines_met;     /* the ones that were met */
  int64_t started_ns;         /* start of the clock of its latencies */
  int64_t first_scheduled_ns; /* LLS_NEVER: unknown */
  int64_t first_token_ns;     /* LLS_NEVER: no token */
  int64_t first_content_ns;   /* time of the first token with text; LLS_NEVER: unknown */
  int64_t last_token_ns;      /* LLS_NEVER: no token */
  int64_t ended_ns;
  int64_t gap_sum_ns, gap_max_ns, gap_p99_ns;
  int64_t *gaps; /* (n_gaps), or NULL if gaps are not kept */
  char *text;    /* (text_bytes) the answer, malloc'ed, or NULL; the report frees it */
  size_t text_bytes;
  bool untold;    /* tokens differs from the sum passed to lls_report_tokens */
  char error[80]; /* the kind of failure; "" if it did not fail */
};

/* An active request, in the caller's memory between lls_report_begin and
 * lls_report_end. */
struct lls_track {
  struct lls_report_outcome outcome;
  uint32_t capacity; /* space in outcome.gaps */
};

struct lls_report_options {
  const char *goodput; /* lines of KEY:MS, keys ttft tpot e2el itl_p99 itl_max; NULL or
                          "": the items' own SLOs */
  /* "99" and the like, in addition to 50, 90 and 99; NULL: none */
  const char *percentiles;
  const char *shown; /* the table's metrics, of "ttft,tpot,itl,e2el"; NULL: all */
  /* the load's limit of requests at a time, to find its steady part; 0: none */
  uint32_t max_concurrency;
  /* also record gaps by token, for emissions of several tokens */
  bool per_token;
  /* requests that start before this are left out of the metrics */
  int64_t warm_up_ns;
  uint64_t memory_units; /* units of the cache; 0: unknown */
  bool keep_gaps;        /* keep gaps for the detailed JSON */
};

struct lls_report;

/* The workload must outlive the report. */
int lls_report_create(const struct lls_workload *, const struct lls_report_options *,
                      struct lls_report **out, struct lls_error *err);
void lls_report_destroy(struct lls_report *);

/* ---- requests ---------------------------------------------------------------------- */

/* A request is issued. */
void lls_report_begin(struct lls_report *, struct lls_track *,
                      const struct lls_item *item, int64_t started_ns);
/* The request emits `count` tokens at once. -ENOMEM: the gap is not counted. */
int lls_report_tokens(struct lls_report *, struct lls_track *, int64_t now_ns,
                      uint32_t count);
/*
 * The request ends. The caller has written its other data (first_scheduled_ns,
 * first_content_ns, predicted_tokens, preemptions, error, text) into track->outcome
 * before.
 */
void lls_report_end(struct lls_report *, struct lls_track *, enum lls_outcome_status,
                    int64_t now_ns);

/* Sets the phases of a request, before its end, if they are known; otherwise they are
 * derived from its times. */
void lls_report_life(struct lls_report *, const struct lls_track *,
                     const struct lls_life *);

/* ---- the engine, where it can be seen ---------------------------------------------- */

struct lls_report_step {
  int64_t begin_ns, duration_ns;
  int64_t plan_ns;   /* real time that planning took; LLS_NEVER: unknown */
  uint32_t requests; /* requests in the batch */
  uint32_t decodes;  /* decodes in the batch */
  uint32_t prefill_tokens;
  uint32_t waiting;    /* active requests that are not in the batch */
  uint64_t used_units; /* used units of the cache */
  /* units that the tokens would need without rounding up to blocks */
  uint64_t filled_units;
};

void lls_report_step(struct lls_report *, const struct lls_report_step *);
void lls_report_preemption(struct lls_report *, enum lls_preempt_mode);
void lls_report_bytes(struct lls_report *, enum lls_copy_way, uint64_t bytes);

/* The engine's state as polled from outside, for the timeline. */
struct lls_report_look {
  double running, waiting; /* numbers of requests */
  double cache;            /* used share of the cache; NaN: unknown */
};

void lls_report_look(struct lls_report *, int64_t now_ns, const struct lls_report_look *);

/* ---- results ----------------------------------------------------------------------- */

/* The outcomes in the order of their ends; valid until destroy. */
const struct lls_report_outcome *lls_report_outcomes(const struct lls_report *,
                                                     size_t *n);

/* The description of a run in its result. Texts may be NULL and are then left out. */
struct lls_report_header {
  const char *tool; /* "llmserve-sim" */
  const char *date; /* vLLM's keys from here on; NULL in a simulated run */
  const char *backend;
  const char *endpoint_type;
  const char *label;
  const char *model_id;
  const char *tokenizer_id;
  const char *metadata;     /* lines of KEY=VALUE, added to the other members */
  double request_rate;      /* infinity: "inf"; NaN: the trace's own times */
  double burstiness;        /* NaN: unknown */
  uint32_t max_concurrency; /* 0: none */
};

/* Prints the table of a finished run: vLLM's lines, then ours. */
int lls_report_print(const struct lls_report *, const struct lls_report_header *,
                     FILE *out);
/* Returns the JSON of a finished run: an object, to which members may be added before
 * lls_report_write; NULL if out of memory. detailed adds lists of each request's
 * values, as vLLM's --save-detailed does. */
json_t *lls_report_json(const struct lls_report *, const struct lls_report_header *,
                        bool detailed);
/* The format of results, for json_dumps. */
#define LLS_RESULT_FORMAT (JSON_INDENT(1) | JSON_REAL_PRECISION(12))
/* Appends the result to a file as one more line (vLLM's --append-result). */
int lls_report_append(const json_t *result, const char *path, struct lls_error *err);
/* Writes the result to a temporary file beside path and moves it there, so that an
 * existing file is always complete. */
int lls_report_write(const json_t *result, const char *path, struct lls_error *err);

#endif
