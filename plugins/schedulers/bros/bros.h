/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BROS's scheduler, shared by its files: a plan's data of each request, the batch that it
 * builds, and the estimate of the batch's time.
 *
 * Times in formulas are seconds, as in the paper; deadlines are compared in them. A plan
 * allocates nothing: every array has engine->max_requests entries. Requests without a
 * class count as real-time.
 *
 * A plan pops each real-time request once from a heap, in order of deadlines. So a
 * request in the heap is one not selected in this batch yet, and best-effort requests
 * follow after all real-time ones.
 */
#ifndef BROS_H
#define BROS_H

#include <llmserve/policy/ends.h>
#include <llmserve/policy/fit.h>
#include <llmserve/policy/heap.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

enum bros_missed { BROS_LAST, BROS_FIRST };
enum bros_drop { BROS_GROWTH, BROS_ANY };
enum bros_terms { BROS_PRODUCT, BROS_SUM };

/* alpha0, alpha1 and beta of a phase: seconds per token, per token and context token, and
 * per step. */
struct bros_line {
  double a0, a1, beta;
};

struct bros_params {
  int64_t ttft_slo, tpot_slo; /* ns */
  int64_t token_group, b_base, b_max;
  int64_t missed, starve; /* ns, 0: never */
  double be_min_share;
  bool replace, overload;
  double watermark;
  int64_t preempt, drop;
  int64_t prefill_attn, decode_attn; /* enum bros_terms */
  int64_t look;
};

/* Coefficients of an iteration's estimated time (cost.c); all 0 before the first fit. */
struct bros_cost {
  struct bros_line prefill, decode;
  double c0, c1; /* restoring: seconds per slot, and per step */
  bool prefill_sum,
      decode_sum; /* the attention term is sum(Ln La), not sum(Ln) sum(La) */
  bool known;
};

/* One phase's share of a batch. */
struct bros_phase {
  double n, tokens, context; /* requests, Ln, La */
  double products;           /* sum of each request's Ln La */
};

struct bros_load {
  struct bros_phase prefill, decode;
  double missing, beside; /* Mcpu: slots restored before, during the step */
};

/* A plan's data of one request. */
struct bros_candidate {
  const struct lls_request *request;
  double slack;     /* real-time: s until its deadline, less k - 1 tokens */
  uint32_t tokens;  /* Ln if it runs */
  uint32_t context; /* tokens cached before the step */
  uint32_t missing; /* cached slots not on the device */
  /* state before its reservation: the transaction's mark, counts of the plan and of
   * `dropped` */
  uint32_t mark;
  uint32_t n_items, n_dropped;
  bool prompt, attainable, starved, fresh;
  bool gone; /* dropped or rejected in this plan */
};

struct bros_list {
  struct bros_candidate **items; /* (max_requests) */
  uint32_t n;
};

struct bros {
  struct lls_pol_scheduler base;
  struct bros_params params;
  struct bros_cost cost;
  struct lls_pol_fit fit;   /* tokens in units */
  uint64_t steps, next_fit; /* steps so far; the cost is fitted again at */
  uint32_t *contexts;       /* (max_sequences) for shapes passed to the cost service */
  struct lls_chunk_shape *chunks; /* (max_sequences) */
  double t_avg;                   /* s; negative: not measured yet */
  uint32_t b_curr;
  uint64_t plans;
  int64_t starved_ran_ns; /* last time a starved request ran, 0: never */

  /* state of the current plan */
  const struct lls_step_view *view;
  struct bros_candidate *candidates; /* (max_requests) */
  struct lls_pol_dropped off;        /* streams dropped by earlier plans */
  struct lls_pol_urgent urgent;      /* real-time requests that wait, by deadline */
  struct lls_pol_heap realtime, best_effort; /* candidates not considered yet */
  struct bros_list rt_ready, be_ready;       /* selected, in that order */
  struct bros_list arriving; /* best-effort: restored during the step, run later */
  struct bros_list dropped;
  uint32_t n_realtime, n_attainable, n_left_out, seats;
  uint64_t be_tokens;  /* device tokens of best-effort requests */
  uint64_t be_missing; /* blocks to restore for best-effort requests */
  uint32_t oldest;     /* candidate that missed its deadline and waits longest;
                          UINT32_MAX: none */
  uint32_t n_deferred; /* entries of rt_ready after its n items: replaced requests whose
                          memory is still reserved */
  /* indices in the lists `running` and `preempted` of the view, from which on no
   * best-effort request is left to drop */
  uint32_t be_running, be_preempted;
  bool guaranteed; /* the first best-effort request need not meet t_res */
  bool cost_exit;
  uint32_t n_replaced, n_forced; /* real-time: replaced; run despite the estimate */
  uint32_t misfits[2]; /* missed decodes, prompts that the time did not suffice for */
  double t_res;        /* s */
  struct bros_load load;
  double predicted; /* s, of the last plan; negative: none */

  double error_sum, errors; /* sum of |estimate / truth - 1|, steps */
};

/* ---- cost.c: the estimate */
double bros_time(const struct bros_cost *, const struct bros_load *);
void bros_load_add(struct bros_load *, const struct bros_candidate *);
void bros_load_remove(struct bros_load *, const struct bros_candidate *);
/* Estimated time of a step with this request alone. */
double bros_time_alone(const struct bros_cost *, const struct bros_candidate *);

/* ---- fit.c: its coefficients */
void bros_fit(struct bros *, const struct lls_cost *);
void bros_fit_swap(struct bros *, const struct lls_cache_service *);

/* ---- deadlines.c: finds urgent requests and computes the batch's time limit */
void bros_look(struct bros *, const struct lls_step_view *);

/* ---- overload.c: gives up the tightest deadlines if not all can be met */
/* T_res without the deadlines given up; b->t_res with `overload` off or if all are met.
 */
double bros_relaxed(const struct bros *);

/* ---- memory.c: reserving, dropping, and undoing both */
/* Reserves memory for a candidate; with `drop`, drops requests not selected if need be.
 * Returns an enum lls_reserve_result; unless LLS_RESERVE_OK, no change remains. */
int bros_reserve(struct bros *, struct lls_pol_step *, struct bros_candidate *,
                 bool drop);
/* True if the host has room for the device tokens of best-effort requests and for this
 * prompt. */
bool bros_host_has_room(const struct bros *, const struct lls_pol_step *,
                        const struct bros_candidate *);
/* Rolls back the reservations of replaced requests and of those in `arriving`. */
void bros_settle(struct bros *, struct lls_pol_step *);

/* ---- pace.c: state that lasts from plan to plan */
void bros_adapt(struct bros *);
void bros_step_took(struct bros *, double seconds);
bool bros_is_guaranteed(struct bros *);

/* ---- packing.c: the batch */
void bros_pack(struct bros *, struct lls_pol_step *);
void bros_emit(struct bros *, struct lls_pol_step *);

/* Returns the time limit of a request's first token, counted from its arrival. */
int64_t bros_first_slo(const struct bros *, const struct lls_request *);
static inline bool bros_is_realtime(const struct lls_request *r)
{
  return r->request_class != LLS_CLASS_BEST_EFFORT;
}

/* True if the request has memory on the device. */
static inline bool bros_is_there(const struct bros_candidate *c)
{
  return c->request->cached_tokens > c->request->missing_tokens;
}

static inline void bros_push(struct bros_list *l, struct bros_candidate *c)
{
  l->items[l->n++] = c;
}

static inline void bros_accept(struct bros *b, struct bros_list *ready,
                               struct bros_candidate *c)
{
  bros_push(ready, c);
  bros_load_add(&b->load, c);
}

#endif
