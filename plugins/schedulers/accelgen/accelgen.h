/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AccelGen's scheduler, shared by its files: what a plan looks at and decides.
 *
 * Names of the paper: a *decode* is its TG task, a *prompt* its PP task; *slack* is T_r,
 * the time a request may still wait; `tokens` are its compute demand D_c, `memory` its KV
 * demand D_m in tokens. Times are ns. A plan allocates nothing: every array has
 * engine->max_requests entries.
 *
 * Arithmetic decides what is wanted; what is got is decided by reserving it in the step's
 * transaction, and what can't be reserved is left out.
 */
#ifndef ACCELGEN_H
#define ACCELGEN_H

#include <llmserve/policy/ends.h>
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
  int64_t s_pf, t_pf; /* LLS_NEVER: as the cost model says */
  int64_t s_min, budget;
  double margin; /* quantile; 0: none */
  int64_t gamma;
  double urgent_eps, late_reserve;
  int64_t long_tokens, era, late, victims, kvc_headroom;
  bool norm, extend, chunk_short, fence, one_step;
  int64_t t_max_window;
  double p_preempt;                   /* NaN: as observed */
  int64_t p_max;                      /* LLS_NEVER: as observed */
  int64_t tbt_slo, ttft_slo, jct_slo; /* ttft_slo LLS_NEVER: by length; jct_slo 0: none */
  double ttft_scale;
  bool chunk, order, batch; /* the three methods; off: ablations */
  int64_t max_seqs, preempt, look;
};

/* ---- pace.c: what is known of the device, and of the steps so far */
struct accelgen_pace {
  uint32_t s_pf;        /* S_pf: the pivot, tokens that (nearly) saturate the device */
  int64_t t_pf;         /* T_pf: time of such a step, 0 = not known */
  double chunk;         /* L_c: moving average of executed chunks */
  uint32_t whole_chunk; /* of it, 1 at least */
  uint32_t room;        /* the last budget had it for prompts, beside the decodes */
  uint64_t n_steps;
  int64_t *durations;   /* (window) ring of the last steps' */
  uint32_t *candidates; /* (window) ring: places of those that may become the largest */
  uint32_t window, first, n_candidates;
  uint64_t decodes, preempted; /* of P */
  int64_t longest_pause;       /* P_max, 0 = none yet */
};

int accelgen_pace_init(struct accelgen_pace *, const struct accelgen_params *);
void accelgen_pace_free(struct accelgen_pace *);
/* S_pf and T_pf of the cost model, where the parameters leave them to it; false: it knows
 * nothing yet. */
bool accelgen_pace_measure(struct accelgen_pace *, const struct accelgen_params *,
                           const struct lls_cost *, uint32_t max_tokens);
void accelgen_pace_step(struct accelgen_pace *, int64_t duration_ns);
/* A chunk of so many tokens was executed. */
void accelgen_pace_chunk(struct accelgen_pace *, double weight, uint32_t tokens);
/* T_max: the longest of the last steps; T_pf as long as there are fewer than 6. */
int64_t accelgen_longest_step(const struct accelgen_pace *);
/* N_ck: steps that so many tokens will take. One that holds all of them does not cut
 * them: where prompts are short, L_c is the mean of whole ones, and says nothing of
 * chunks. With one_step = false the room is 0, and N_ck the paper's. */
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
  int64_t base;    /* (SLO_jct - T_e) / (N_ck + S_g), as it is now */
  int64_t bank;    /* allowed less actual waits so far: the base of each, summed */
  int64_t allowed; /* wait of the coming iteration */
  int64_t since;   /* when that wait began */
};
/* T_e = N_ck T_max + S_g (T_max + P_max P) */
int64_t accelgen_jct_work(uint32_t n_chunks, uint32_t n_tokens, int64_t longest_step,
                          double pause_ns);
/* The next iteration waits from now on; what is left: time until the deadline, T_e, and
 * iterations. */
void accelgen_jct_wait(struct accelgen_jct *, int64_t now_ns, int64_t left_ns,
                       int64_t work_ns, uint32_t iterations);
/* It has begun after so long. */
void accelgen_jct_waited(struct accelgen_jct *, int64_t waited_ns);

/* ---- select.c: SELECT, Algorithm 2 */
struct accelgen_option { /* a request that may be picked */
  int64_t slack;
  uint64_t id;
  uint32_t tokens;    /* D_c: 1, or the rest of the prompt */
  uint32_t before;    /* KV tokens it needs before any: it comes back from the host */
  uint32_t slots;     /* of its last block, that are free */
  uint32_t candidate; /* whose it is */
  bool cut;           /* takes what there is room for */
  bool started;       /* part of it is done */
  bool exclusive;     /* cut, and may not begin while another one is under way */
};

struct accelgen_pool {
  struct accelgen_option
      *options; /* (n) in any order; those that can't fit are dropped */
  uint32_t n;
  uint32_t tokens, memory;      /* A_c, A_m: what is left */
  uint32_t block_tokens;        /* b */
  double token_scale, kv_scale; /* of distances: 1, 1 unless normalised */
  uint32_t under_way;           /* prompts begun and not done: ERA */
  bool one_at_a_time;           /* none is begun in part while one is under way: ERA */
};

struct accelgen_pick {
  struct accelgen_option option;
  uint32_t tokens, memory; /* D_c, D_m */
};

/* D_m of x tokens in blocks of b, of which the first go to free slots. */
static inline uint32_t accelgen_memory(uint32_t tokens, uint32_t slots, uint32_t block)
{
  return tokens <= slots ? 0 : (tokens - slots + block - 1) / block * block;
}

/* The nearest to what is left, taken out of the pool; false if none fits. */
bool accelgen_select(struct accelgen_pool *, struct accelgen_pick *);
/* It is in the batch: what is left is less. */
void accelgen_selected(struct accelgen_pool *, const struct accelgen_pick *);

/* ---- literal.c: Algorithm 1 as printed */
struct accelgen_member {
  int64_t slack;
  uint64_t id;
  uint32_t tokens;    /* D_c */
  uint32_t memory;    /* D_m, units */
  uint32_t held;      /* units it gives back if it is preempted */
  uint32_t candidate; /* whose it is */
  bool out;           /* not in the batch */
  bool preempted;     /* and off the device */
};

/* While tokens or memory are short, out with the largest slack; heap is scratch. */
void accelgen_literal(struct accelgen_member *, uint32_t n, uint32_t tokens,
                      uint32_t free_units, struct lls_pol_heap *heap);

/* ---- the plan */
struct accelgen_candidate {
  const struct lls_request *request;
  uint64_t id;     /* for dump: the request may have ended by then */
  int64_t slack;   /* T_r */
  int64_t key;     /* its place: (late, T_r), or arrival */
  uint32_t tokens; /* left of it until its next token: 1, or of the prompt */
  bool decode;     /* its newest token alone is missing */
  bool started;    /* a prompt of which some is on the device */
  bool fresh;      /* nothing is cached of it */
  bool is_long;
  bool late, urgent;
  bool done; /* in the plan, off the device, or rejected */
};

struct accelgen_job { /* of a slot */
  struct accelgen_jct jct;
  uint32_t prefix; /* tokens others had of its prompt when that was asked, UINT32_MAX: not
                      yet */
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
  struct lls_pol_urgent waiting;         /* that wait for their first token, by T_r */
  struct accelgen_candidate *candidates; /* decodes first, then the queue Q */
  struct accelgen_option *options;
  struct accelgen_member *members;
  const struct lls_request **order;      /* on the device, the last to give way first */
  struct accelgen_candidate **on_device; /* their candidates */
  uint32_t *contexts;                    /* of the decodes */
  uint32_t n_order;

  /* of the plan in the making */
  uint32_t n_decodes, n_all; /* candidates; the queue is n_decodes..n_all */
  uint32_t head;             /* of the queue: the smallest key; n_all if it is empty */
  uint32_t first;            /* likewise, of those that are neither urgent nor late; or */
  uint32_t first_late;       /* of the late; UINT32_MAX if there are none */
  int64_t longest_step;      /* T_max */
  int64_t least_step;        /* of the device; 0: nobody knows, or it fences nobody off */
  int64_t slo_min;           /* of the decodes, LLS_NEVER if there are none */
  uint32_t under_way;        /* prompts begun and not done: ERA */
  uint32_t urgent;           /* of the queue */
  uint32_t budget;           /* S_b */
  struct lls_pol_room room;  /* within_ns LLS_NEVER: chunks have no price */
  uint32_t block_units;      /* of a block of KV */

  uint64_t plans, budget_sum;
};

/* slack.c: T_r of all requests of a view, which are urgent, and their order. */
void accelgen_look(struct accelgen *, const struct lls_step_view *);
/* A request's deadlines, the section's where it names none. */
int64_t accelgen_tbt_slo(const struct accelgen *, const struct lls_request *);
int64_t accelgen_ttft_slo(const struct accelgen *, const struct lls_request *);
void accelgen_arrived(struct accelgen *, const struct lls_request *);
void accelgen_ran(struct accelgen *, const struct lls_step_report *);

/* budget.c: S_b of this step. */
uint32_t accelgen_step_budget(struct accelgen *, const struct lls_step_view *);
/* How many of a prompt's tokens this step has time for, behind what is cached of it. */
uint32_t accelgen_in_time(struct accelgen *, const struct lls_pol_step *,
                          const struct accelgen_candidate *, uint32_t tokens);

/* batch.c: what goes into the plan. */
/* The decodes, at the cost of those with the largest slack. */
void accelgen_grow(struct accelgen *, struct lls_pol_step *);
/* The urgent, with what is free. */
void accelgen_admit_urgent(struct accelgen *, struct lls_pol_step *);
/* In place of these two, Algorithm 1. */
void accelgen_admit_literally(struct accelgen *, struct lls_pol_step *);
/* The plan is empty: the head of the queue, at the cost of all others. */
void accelgen_progress(struct accelgen *, struct lls_pol_step *);
/* Reserves and plans so many tokens, or, if they may be cut, as many of them as there is
 * time for; how many. 0: there is no room, or there never will be. */
uint32_t accelgen_run(struct accelgen *, struct lls_pol_step *,
                      struct accelgen_candidate *, uint32_t tokens, bool cut);
/* Rejects a prompt that would leave no block free in an empty cache. */
bool accelgen_hopeless(struct accelgen *, struct lls_pol_step *,
                       struct accelgen_candidate *);
/* Without the method `chunk`: the whole prompt or nothing, but for one that is longer
 * than any budget, which has the step to itself. */
uint32_t accelgen_uncut(const struct accelgen *, const struct lls_pol_step *,
                        const struct accelgen_candidate *);

/* fill.c: the others, with what is left. */
void accelgen_fill(struct accelgen *, struct lls_pol_step *);
/* Its demand as SELECT sees it. */
struct accelgen_option accelgen_option(const struct accelgen *,
                                       const struct lls_pol_step *,
                                       const struct accelgen_candidate *);
/* KV tokens that so many units have room for, in whole blocks. */
uint32_t accelgen_room(const struct accelgen *, const struct lls_pol_step *,
                       uint32_t units);

#endif
