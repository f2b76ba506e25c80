/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AccelGen's scheduler, shared by its files: the data a plan is made from, and the steps
 * of making it.
 *
 * Names of the paper: a *decode* is its TG task, a *prompt* its PP task; *slack* is T_r,
 * the time a request may still wait; `tokens` are its compute demand D_c, `memory` its KV
 * demand D_m in tokens. Times are ns. A plan allocates nothing: every array has
 * engine->max_requests entries.
 *
 * Formulas choose requests; each choice is then reserved in the step's transaction, and a
 * request that can't be reserved is left out of the plan.
 */
#ifndef ACCELGEN_H
#define ACCELGEN_H

#include <llmserve/policy/ends.h>
#include <llmserve/policy/fit.h>
#include <llmserve/policy/heap.h>
#include <llmserve/policy/margin.h>
#include <llmserve/policy/room.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

enum accelgen_budget { ACCELGEN_FORMULA, ACCELGEN_MODEL };
enum accelgen_era { ACCELGEN_ERA_PREFILL, ACCELGEN_ERA_REQUEST, ACCELGEN_ERA_OFF };
enum accelgen_late { ACCELGEN_DEMOTE, ACCELGEN_FIRST };
enum accelgen_victims { ACCELGEN_RESOLVED, ACCELGEN_LITERAL };

struct accelgen_params {
  int64_t s_pf, t_pf; /* LLS_NEVER: from the cost model */
  int64_t s_min, budget;
  double margin; /* quantile; 0: none */
  int64_t gamma;
  double urgent_eps, late_reserve;
  int64_t long_tokens, era, late, victims, kvc_headroom;
  bool norm, extend, chunk_short, fence, one_step;
  int64_t t_max_window;
  double p_preempt;                   /* NaN: as measured */
  int64_t p_max;                      /* LLS_NEVER: as measured */
  int64_t tbt_slo, ttft_slo, jct_slo; /* ttft_slo LLS_NEVER: by length; jct_slo 0: none */
  double ttft_scale;
  bool chunk, order, batch; /* the three methods; off: ablations */
  int64_t max_seqs, preempt, look;
};

/* ---- pace.c: the speed of the device, and averages over the steps so far */
struct accelgen_pace {
  uint32_t s_pf;        /* S_pf: the pivot, tokens that (nearly) saturate the device */
  int64_t t_pf;         /* T_pf: time of such a step, 0 = not known */
  double chunk;         /* L_c: moving average of executed chunks */
  uint32_t whole_chunk; /* L_c in whole tokens, at least 1 */
  uint32_t room;        /* prompt tokens in the last budget */
  uint64_t n_steps;
  int64_t *durations;   /* (window) ring of step times */
  uint32_t *candidates; /* (window) ring: indices of possible maxima */
  uint32_t window, first, n_candidates;
  uint64_t decodes, preempted; /* P = preempted / decodes */
  int64_t longest_pause;       /* P_max, 0 = none yet */
};

int accelgen_pace_init(struct accelgen_pace *, const struct accelgen_params *);
void accelgen_pace_free(struct accelgen_pace *);
/* Takes S_pf and T_pf from the cost model, unless parameters set them. Returns false if
 * the model has no estimates yet. */
bool accelgen_pace_measure(struct accelgen_pace *, const struct accelgen_params *,
                           const struct lls_cost *, uint32_t max_tokens);
void accelgen_pace_step(struct accelgen_pace *, int64_t duration_ns);
/* Adds an executed chunk of `tokens` to L_c. */
void accelgen_pace_chunk(struct accelgen_pace *, double weight, uint32_t tokens);
/* T_max: the longest of the last steps; T_pf as long as there are fewer than 6. */
int64_t accelgen_longest_step(const struct accelgen_pace *);
/* N_ck: steps that a prompt's `tokens` will take; 1 if the last budget has room for all.
 * (Where prompts are short, L_c is the mean of whole prompts, not of chunks.) With
 * one_step = false the room is 0, and N_ck the paper's. */
static inline uint32_t accelgen_n_chunks(const struct accelgen_pace *p, uint32_t tokens)
{
  if (tokens <= p->room || tokens <= p->whole_chunk)
    return 1;
  return (tokens + p->whole_chunk - 1) / p->whole_chunk;
}
/* P_max P: what preemption adds to a token's time on average. */
double accelgen_pause(const struct accelgen_pace *, const struct accelgen_params *);

/* ---- budget.c */
/* S_b = S_pf SLO_min / T_pf (equation 6), within its range. */
uint32_t accelgen_budget(const struct accelgen_pace *, const struct accelgen_params *,
                         int64_t slo_min_ns);

/* ---- jct.c: deadlines of whole requests, spread over their iterations */
struct accelgen_jct {
  int64_t base;    /* (SLO_jct - T_e) / (N_ck + S_g), now */
  int64_t bank;    /* sum over past waits: base - actual wait */
  int64_t allowed; /* wait of the coming iteration */
  int64_t since;   /* when that wait began */
};
/* T_e = N_ck T_max + S_g (T_max + P_max P) */
int64_t accelgen_jct_work(uint32_t n_chunks, uint32_t n_tokens, int64_t longest_step,
                          double pause_ns);
/* Begins the wait for the next iteration. left_ns: until the deadline; work_ns: T_e;
 * iterations: still to run. */
void accelgen_jct_wait(struct accelgen_jct *, int64_t now_ns, int64_t left_ns,
                       int64_t work_ns, uint32_t iterations);
/* Ends the wait: the iteration began after waited_ns. */
void accelgen_jct_waited(struct accelgen_jct *, int64_t waited_ns);

/* ---- select.c: SELECT, Algorithm 2 */
struct accelgen_option { /* a request that may be picked */
  int64_t slack;
  uint64_t id;
  uint32_t tokens;    /* D_c: 1, or the rest of the prompt */
  uint32_t before;    /* KV tokens to restore from the host first */
  uint32_t slots;     /* free slots of its last block */
  uint32_t candidate; /* index in `candidates` */
  bool cut;           /* may be cut to the tokens there is room for */
  bool started;       /* some tokens of the prompt are computed */
  bool exclusive;     /* may not begin cut while another cut prompt is unfinished */
};

struct accelgen_pool {
  struct accelgen_option
      *options; /* (n) in any order; those that can't fit are dropped */
  uint32_t n;
  uint32_t tokens, memory;      /* A_c, A_m: still available */
  uint32_t block_tokens;        /* b */
  double token_scale, kv_scale; /* factors of distances; 1 if not normalised */
  uint32_t under_way;           /* prompts begun and not done: ERA */
  bool one_at_a_time;           /* no cut prompt begins while one is unfinished: ERA */
};

struct accelgen_pick {
  struct accelgen_option option;
  uint32_t tokens, memory; /* D_c, D_m */
};

/* D_m: KV tokens to allocate for `tokens`, in whole blocks; the first `slots` are free.
 */
static inline uint32_t accelgen_memory(uint32_t tokens, uint32_t slots, uint32_t block)
{
  return tokens <= slots ? 0 : (tokens - slots + block - 1) / block * block;
}

/* Takes the option nearest to A_c and A_m out of the pool; returns false if none fits. */
bool accelgen_select(struct accelgen_pool *, struct accelgen_pick *);
/* Deducts a pick that entered the batch from A_c and A_m. */
void accelgen_selected(struct accelgen_pool *, const struct accelgen_pick *);

/* ---- literal.c: Algorithm 1 as printed */
struct accelgen_member {
  int64_t slack;
  uint64_t id;
  uint32_t tokens;    /* D_c */
  uint32_t memory;    /* D_m, units */
  uint32_t held;      /* units it gives back if it is preempted */
  uint32_t candidate; /* index in `candidates` */
  bool out;           /* was taken out of the batch */
  bool preempted;     /* was taken out of the batch and off the device */
};

/* Takes members with the largest slack out until tokens and free_units suffice for the
 * rest; heap is scratch. */
void accelgen_literal(struct accelgen_member *, uint32_t n, uint32_t tokens,
                      uint32_t free_units, struct lls_pol_heap *heap);

/* ---- the plan */
struct accelgen_candidate {
  const struct lls_request *request;
  uint64_t id;     /* request id, for dump: the request may have ended */
  int64_t slack;   /* T_r */
  int64_t key;     /* rank of the candidate: (late, T_r), or arrival */
  uint32_t tokens; /* tokens to compute until its next output token */
  bool decode;     /* only its newest token is to be computed */
  bool started;    /* a prompt that is partly on the device */
  bool fresh;      /* no token of it is cached */
  bool is_long;
  bool late, urgent;
  bool done; /* handled: planned, taken off the device, or rejected */
};

struct accelgen_job { /* the state of the request in a slot */
  struct accelgen_jct jct;
  uint32_t prefix; /* prompt tokens in the prefix index; UINT32_MAX: not looked up */
  bool is_jct, paused;
};

struct accelgen {
  struct lls_pol_scheduler base;
  struct accelgen_params params;
  struct accelgen_pace pace;
  struct lls_pol_margin margin;
  struct accelgen_job *jobs; /* (max_requests) */
  struct lls_pol_heap heap;
  struct lls_pol_dropped dropped;
  struct lls_pol_urgent waiting;         /* requests without a token, by T_r */
  struct accelgen_candidate *candidates; /* decodes first, then the queue Q */
  struct accelgen_option *options;
  struct accelgen_member *members;
  const struct lls_request **order;      /* requests on the device, victims last */
  struct accelgen_candidate **on_device; /* their candidates */
  uint32_t *contexts;                    /* (n_decodes) context lengths */
  uint32_t n_order;

  /* state of the current plan */
  uint32_t n_decodes, n_all; /* candidates; the queue is n_decodes..n_all */
  uint32_t head;  /* queue index with the smallest key; n_all: queue is empty */
  uint32_t first; /* queue index with the smallest key of those neither urgent nor late */
  uint32_t
      first_late; /* queue index with the smallest key of late ones; UINT32_MAX: none */
  int64_t longest_step;     /* T_max */
  int64_t least_step;       /* shortest step of the device; 0: unknown, or no fence */
  int64_t slo_min;          /* least TBT limit of a decode; LLS_NEVER: no decodes */
  uint32_t under_way;       /* prompts begun and not done: ERA */
  uint32_t urgent;          /* number of urgent requests in the queue */
  uint32_t budget;          /* S_b */
  struct lls_pol_room room; /* within_ns LLS_NEVER: no time limit */
  struct lls_pol_fit fit;   /* tokens in units */

  uint64_t plans, budget_sum;
};

/* slack.c: computes T_r of all requests of a view, marks urgent ones and sorts them. */
void accelgen_look(struct accelgen *, const struct lls_step_view *);
/* Return a limit of the request, or the configured one if it has none. */
int64_t accelgen_tbt_slo(const struct accelgen *, const struct lls_request *);
int64_t accelgen_ttft_slo(const struct accelgen *, const struct lls_request *);
void accelgen_arrived(struct accelgen *, const struct lls_request *);
void accelgen_ran(struct accelgen *, const struct lls_step_report *);

/* budget.c: S_b of this step. */
uint32_t accelgen_step_budget(struct accelgen *, const struct lls_step_view *);
/* How many of the next `tokens` of a prompt this step has time for. */
uint32_t accelgen_in_time(struct accelgen *, const struct lls_pol_step *,
                          const struct accelgen_candidate *, uint32_t tokens);

/* batch.c: putting requests into the plan. */
/* Plans the decodes; if memory is short, preempts those with the largest slack. */
void accelgen_grow(struct accelgen *, struct lls_pol_step *);
/* Plans urgent requests of the queue, with free memory only. */
void accelgen_admit_urgent(struct accelgen *, struct lls_pol_step *);
/* Algorithm 1, called in place of accelgen_grow and accelgen_admit_urgent. */
void accelgen_admit_literally(struct accelgen *, struct lls_pol_step *);
/* For an empty plan: plans the head of the queue, if need be by preempting all others. */
void accelgen_progress(struct accelgen *, struct lls_pol_step *);
/* Reserves and plans `tokens`, or with `cut` as many of them as the step has time for.
 * Returns how many; 0 if there is no room, or the request was rejected. */
uint32_t accelgen_run(struct accelgen *, struct lls_pol_step *,
                      struct accelgen_candidate *, uint32_t tokens, bool cut);
/* Rejects a prompt that would leave no block free in an empty cache. */
bool accelgen_hopeless(struct accelgen *, struct lls_pol_step *,
                       struct accelgen_candidate *);
/* Returns the tokens of a prompt to run without the method `chunk`: all of it or 0. A
 * prompt longer than any budget runs in a step of its own. */
uint32_t accelgen_uncut(const struct accelgen *, const struct lls_pol_step *,
                        const struct accelgen_candidate *);

/* fill.c: plans further requests with the tokens and memory still free. */
void accelgen_fill(struct accelgen *, struct lls_pol_step *);
/* The demand of a candidate in the form SELECT takes. */
struct accelgen_option accelgen_option(const struct accelgen *,
                                       const struct lls_pol_step *,
                                       const struct accelgen_candidate *);

#endif
