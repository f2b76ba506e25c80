/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BROS's scheduler, shared by its files: what a plan knows of each request, the batch in
 * the making, and the estimate of its time.
 *
 * Times in formulas are seconds, as in the paper; deadlines are compared in them. A plan
 * allocates nothing: every array has engine->max_requests entries. Requests without a
 * class count as real-time.
 *
 * Each real-time request is looked at once, in order of its deadline; one that comes
 * after the one looked at is still in the heap. So "not selected in this batch" is "in
 * the heap", and best-effort requests are not selected before all real-time ones are.
 */
#ifndef BROS_H
#define BROS_H

#include <llmserve/policy/ends.h>
#include <llmserve/policy/heap.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

enum bros_missed { BROS_LAST, BROS_FIRST };
enum bros_drop { BROS_GROWTH, BROS_ANY };
enum bros_terms { BROS_PRODUCT, BROS_SUM };

/* alpha0, alpha1 and beta of a phase: seconds a token, a token and context, a step. */
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

/* The estimate of an iteration's time (cost.c); all zero while nothing is known. */
struct bros_cost {
  struct bros_line prefill, decode;
  double c0, c1; /* seconds a slot that comes back, and once */
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
  double missing, beside; /* Mcpu: comes back before the step, beside it */
};

/* One request as a plan sees it. */
struct bros_candidate {
  const struct lls_request *request;
  double slack;     /* real-time: s until its deadline, k - 1 tokens before counted off */
  uint32_t tokens;  /* Ln if it runs */
  uint32_t context; /* cached before */
  uint32_t missing; /* slots of them that are not on the device */
  uint32_t mark;    /* of the transaction before it was reserved ... */
  uint32_t n_items, n_dropped; /* ... and what the plan dropped by then */
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
  uint64_t steps, next_fit; /* steps so far; at how many the cost is fitted anew */
  uint32_t *contexts; /* (max_sequences) of shapes that the service is asked about */
  struct lls_chunk_shape *chunks; /* (max_sequences) */
  double t_avg;                   /* s, negative: nothing known yet */
  uint32_t b_curr;
  uint64_t plans;
  int64_t starved_ran_ns; /* when one that had starved ran, 0: never */

  /* of the plan in the making */
  const struct lls_step_view *view;
  struct bros_candidate *candidates; /* (max_requests) */
  struct lls_pol_dropped off;        /* streams that an earlier plan has dropped */
  struct lls_pol_urgent urgent;      /* real-time requests that wait, by deadline */
  struct lls_pol_heap realtime, best_effort; /* candidates not looked at yet */
  struct bros_list rt_ready, be_ready;       /* selected, in that order */
  struct bros_list arriving; /* best-effort: come back beside the step, to run later */
  struct bros_list dropped;
  uint32_t n_realtime, n_attainable, n_left_out, seats;
  uint64_t be_tokens;  /* of best-effort requests, on the device */
  uint64_t be_missing; /* blocks that best-effort requests need to come back */
  uint32_t oldest;     /* entry of the one that has missed and not run for longest;
                          UINT32_MAX: none */
  uint32_t n_deferred; /* behind rt_ready.n: replaced, but still reserved */
  uint32_t be_running,
      be_preempted; /* of the view's, from here on none is left to drop */
  bool guaranteed;  /* the first best-effort request need not meet t_res */
  bool cost_exit;
  uint32_t n_replaced, n_forced; /* real-time requests; run in spite of the estimate */
  uint32_t misfits[2]; /* missed decodes, prompts for which time was too short */
  double t_res;        /* s */
  struct bros_load load;
  double predicted; /* s, of the last plan; negative: none */

  double error_sum, errors; /* |estimate / truth - 1| of steps */
};

/* ---- cost.c: the estimate */
double bros_time(const struct bros_cost *, const struct bros_load *);
void bros_load_add(struct bros_load *, const struct bros_candidate *);
void bros_load_remove(struct bros_load *, const struct bros_candidate *);
/* Time of the request alone. */
double bros_time_alone(const struct bros_cost *, const struct bros_candidate *);

/* ---- fit.c: its coefficients */
void bros_fit(struct bros *, const struct lls_cost *);
void bros_fit_swap(struct bros *, const struct lls_cache_service *);

/* ---- deadlines.c: urgent requests, and how long the batch may take */
void bros_look(struct bros *, const struct lls_step_view *);

/* ---- overload.c: the tightest deadlines are given up if all can't be kept */
/* T_res then; with `overload` off, and where there is time for all, as it is. */
double bros_relaxed(const struct bros *);

/* ---- memory.c: reserving, dropping, and undoing both */
/* enum lls_reserve_result; if need be, and with `drop`, at the cost of those not
 * selected. Unless OK nothing has changed. */
int bros_reserve(struct bros *, struct lls_pol_step *, struct bros_candidate *,
                 bool drop);
/* The host could take what best-effort requests have on the device, and this prompt too.
 */
bool bros_host_has_room(const struct bros *, const struct lls_pol_step *,
                        const struct bros_candidate *);
/* Gives the reservations of replaced requests back, and of those that arrive. */
void bros_settle(struct bros *, struct lls_pol_step *);

/* ---- pace.c: from plan to plan */
void bros_adapt(struct bros *);
void bros_step_took(struct bros *, double seconds);
bool bros_is_guaranteed(struct bros *);

/* ---- packing.c: the batch */
void bros_pack(struct bros *, struct lls_pol_step *);
void bros_emit(struct bros *, struct lls_pol_step *);

/* The deadline of its first token counts from its arrival. */
int64_t bros_first_slo(const struct bros *, const struct lls_request *);
static inline bool bros_is_realtime(const struct lls_request *r)
{
  return r->request_class != LLS_CLASS_BEST_EFFORT;
}

/* Does it have memory on the device? */
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
