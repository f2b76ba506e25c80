/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what happened to requests to the metrics of the papers and of vLLM's `bench
 * serve`.
 *
 *   report = lls_report_create(...)
 *   each request:  lls_report_begin -> lls_report_tokens ... -> lls_report_end
 *   each step, where the engine can be seen: lls_report_step, lls_report_preemption, ...
 *   lls_report_print, lls_report_json; metrics.h has the numbers themselves
 *
 * Definitions (the same for the simulator and for HTTP):
 *
 *   TTFT                first token - arrival
 *   TBT, ITL            gap between two emissions of one request; pooled over all
 * requests in a histogram of 1/64-octave buckets (percentiles within 0.6 %) TPOT (last
 * token - first token) / (tokens - 1); none with one token completion, E2EL    last token
 * - arrival normalised latency  completion / tokens p99 TBT             of one request's
 * own gaps, linear interpolation; one token: 0 goodput             requests that met all
 * the SLOs they have, a second attainment          their share of all that were *issued*:
 * what failed, was refused or cut short is a miss
 *
 * "arrival" is outcome.started_ns. The simulator starts the clock when the load says that
 * the request comes; an HTTP client when it sends, as vLLM's does, and how late it was
 * for a request that nothing held back is reported by itself (lateness).
 */
#ifndef LLS_REPORT_H
#define LLS_REPORT_H

#include <jansson.h>
#include <llmserve/types.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/instance/life.h"
#include "tools/workload/workload.h"

enum lls_outcome_status {
  LLS_OUTCOME_RUNNING,
  LLS_OUTCOME_COMPLETED,
  LLS_OUTCOME_FAILED,    /* refused by the server or broken off: a miss */
  LLS_OUTCOME_CANCELLED, /* or read slowly, as the load wants it: in no attainment */
};

/* The outcome of one request. Times are ns after the load began, as arrivals are. */
struct lls_report_outcome {
  const struct lls_item *item;
  uint32_t status;           /* enum lls_outcome_status */
  uint32_t tokens;           /* that came out */
  uint32_t predicted_tokens; /* the predictor's first word; 0: none */
  uint32_t preemptions;
  uint32_t n_gaps;            /* emissions - 1 */
  uint32_t deadlines;         /* of tokens: the TTFT's, and of each gap the TBT's */
  uint32_t deadlines_met;     /* of them */
  int64_t started_ns;         /* the clock of its latencies starts */
  int64_t first_scheduled_ns; /* LLS_NEVER: not known */
  int64_t first_token_ns;     /* LLS_NEVER: none came */
  int64_t first_content_ns;   /* the first with text in it; LLS_NEVER: not known */
  int64_t last_token_ns;      /* LLS_NEVER: none came */
  int64_t ended_ns;
  int64_t gap_sum_ns, gap_max_ns, gap_p99_ns;
  int64_t *gaps; /* (n_gaps), or NULL where they are not kept */
  char *text;    /* (text_bytes) the answer, on the heap, or NULL; the report frees it */
  size_t text_bytes;
  bool untold;    /* tokens is not the sum of what lls_report_tokens heard */
  char error[80]; /* "" unless it failed: the kind of failure */
};

/* A live request: the caller's memory between lls_report_begin and lls_report_end. */
struct lls_track {
  struct lls_report_outcome outcome;
  uint32_t capacity; /* of outcome.gaps */
};

struct lls_report_options {
  const char *goodput; /* lines of KEY:MS, keys ttft tpot e2el itl_p99 itl_max; NULL or
                          "": the items' own SLOs */
  const char *percentiles;  /* "99" and the like, beside 50, 90 and 99; NULL: none */
  const char *shown;        /* of "ttft,tpot,itl,e2el": the table's; NULL: all */
  uint32_t max_concurrency; /* of the load, for its steady part; 0: none */
  bool per_token;           /* gaps by token too, where an emission may have several */
  int64_t warm_up_ns;       /* what starts before is left out of the metrics */
  uint64_t memory_units;    /* of the cache; 0: not known */
  bool keep_gaps;           /* for the detailed JSON */
};

struct lls_report;

/* The workload outlives the report. */
int lls_report_create(const struct lls_workload *, const struct lls_report_options *,
                      struct lls_report **out, struct lls_error *err);
void lls_report_destroy(struct lls_report *);

/* ---- requests ---------------------------------------------------------------------- */

/* The request is issued. */
void lls_report_begin(struct lls_report *, struct lls_track *,
                      const struct lls_item *item, int64_t started_ns);
/* `count` tokens came out at once. -ENOMEM: the gap is not counted. */
int lls_report_tokens(struct lls_report *, struct lls_track *, int64_t now_ns,
                      uint32_t count);
/*
 * It is over. What the caller knows beside (first_scheduled_ns, first_content_ns,
 * predicted_tokens, preemptions, error, text) it has written into track->outcome before.
 */
void lls_report_end(struct lls_report *, struct lls_track *, enum lls_outcome_status,
                    int64_t now_ns);

/* The phases that it had, before its end, where they are known; else its times do. */
void lls_report_life(struct lls_report *, const struct lls_track *,
                     const struct lls_life *);

/* ---- the engine, where it can be seen ---------------------------------------------- */

struct lls_report_step {
  int64_t begin_ns, duration_ns;
  int64_t plan_ns;   /* what deciding took, in real time; LLS_NEVER: not known */
  uint32_t requests; /* in the batch, */
  uint32_t decodes;  /* of which decode */
  uint32_t prefill_tokens;
  uint32_t waiting;      /* requests in the system that are not in the batch */
  uint64_t used_units;   /* of the cache, */
  uint64_t filled_units; /* and what their tokens would need without rounding up */
};

void lls_report_step(struct lls_report *, const struct lls_report_step *);
void lls_report_preemption(struct lls_report *, enum lls_preempt_mode);
void lls_report_bytes(struct lls_report *, enum lls_copy_kind, uint64_t bytes);

/* A look at the engine from without, for the timeline. */
struct lls_report_look {
  double running, waiting; /* requests */
  double cache;            /* share of it that is used; NaN: not told */
};

void lls_report_look(struct lls_report *, int64_t now_ns, const struct lls_report_look *);

/* ---- results ----------------------------------------------------------------------- */

/* The outcomes in the order they ended; valid until destroy. */
const struct lls_report_outcome *lls_report_outcomes(const struct lls_report *,
                                                     size_t *n);

/* A run's description beside its numbers; texts may be NULL, then they are left out. */
struct lls_report_header {
  const char *tool; /* "llmserve-sim" */
  const char *date; /* vLLM's keys from here on; a simulated run has no date */
  const char *backend;
  const char *endpoint_type;
  const char *label;
  const char *model_id;
  const char *tokenizer_id;
  const char *metadata;     /* lines of KEY=VALUE, put beside the others */
  double request_rate;      /* infinity: "inf"; NaN: the trace's own */
  double burstiness;        /* NaN: not known */
  uint32_t max_concurrency; /* 0: none */
};

/* The table of a finished run: vLLM's lines, then ours. */
int lls_report_print(const struct lls_report *, const struct lls_report_header *,
                     FILE *out);
/* The JSON of a finished run: one object, for more members to be added to before
 * lls_report_write; NULL where there is no memory. detailed adds a list for each
 * request's numbers, as vLLM's --save-detailed does. */
json_t *lls_report_json(const struct lls_report *, const struct lls_report_header *,
                        bool detailed);
/* How results are written, for json_dumps. */
#define LLS_RESULT_FORMAT (JSON_INDENT(1) | JSON_REAL_PRECISION(12))
/* Adds it to a file as one more line (vLLM's --append-result). */
int lls_report_append(const json_t *result, const char *path, struct lls_error *err);
/* Writes it beside path and moves it there, so that a file that exists is complete. */
int lls_report_write(const json_t *result, const char *path, struct lls_error *err);

#endif
