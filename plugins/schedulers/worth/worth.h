/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler worth, shared by its files. It ranks all requests by one number: the
 * worth of running a prompt now, divided by its cost to other requests.
 *
 * The cost is in nanoseconds of the device: the step time that the prompt takes, plus its
 * fraction of the memory times the time it will hold it, times a memory price between 0
 * and 1 that follows from how often requests waited for memory (learn.c). A candidate's
 * *size* combines this cost with the time of its own answer, weighting the smaller one
 * more (look.c). Its *due* time is the deadline of its next token. A candidate is *kept*
 * if it and all other kept ones can meet their due times (keep.c); otherwise its deadline
 * has no worth and it waits with requests that have none. A plan allocates nothing:
 * arrays have engine->max_requests entries.
 */
#ifndef WORTH_H
#define WORTH_H

#include <llmserve/policy/ends.h>
#include <llmserve/policy/fit.h>
#include <llmserve/policy/heap.h>
#include <llmserve/policy/margin.h>
#include <llmserve/policy/paced.h>
#include <llmserve/policy/room.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

struct worth_params {
  int64_t gap, max_stall, stay;
  int64_t chunk;
  double fairness, reserve, margin, age;
  int64_t preempt;
  const char *weights;
};

/* ---- learn.c: averages of the traffic and of memory use ---- */

enum { WORTH_TENANTS = 256 }; /* further tenants share counts */

struct worth_learned {
  double output;                /* mean length of an answer */
  double error;                 /* mean |actual - first expected| length */
  double memory_price;          /* 0: enough memory .. 1: all waits are for memory */
  double headroom;              /* tokens kept free for each stream to grow into */
  double deadlines;             /* fraction of requests with deadlines */
  double step_ns;               /* mean time of a step */
  double freed;                 /* tokens freed by ended requests, decaying average */
  double freed_ns;              /* time over which they were freed */
  double ended;                 /* requests ended in that time: seats freed */
  double prompt_ns;             /* step time per prompt token, at the usual fill */
  double weight[WORTH_TENANTS]; /* weights of tenants */
  double used[WORTH_TENANTS];   /* a tenant's tokens / weight, mostly of the
                                   last minute */
  double share;                 /* mean of `used`: the fair share of a tenant */
};

void worth_learn_begin(struct worth_learned *);
/* weight: the weight of the request's tenant */
void worth_learn_arrival(struct worth_learned *, const struct lls_request *,
                         double weight);
void worth_learn_step(struct worth_learned *, const struct lls_step_report *);
void worth_learn_end(struct worth_learned *, const struct lls_request *);
/* Counts a plan: whether requests waited for memory, how many streams were preempted. */
void worth_learn_plan(struct worth_learned *, bool short_of_memory, uint32_t preempted);
/* Answer tokens still to come: from the prediction, or from earlier answers' lengths. */
double worth_left(const struct worth_learned *, const struct lls_request *);
/* Returns the expected length of the answer before its first token. */
double worth_expected(const struct worth_learned *, const struct lls_request *);
/* How much a tenant used beyond its share; 0 if it did not. */
double worth_excess(const struct worth_learned *, uint32_t tenant);

/* ---- keep.c: which deadlines are kept, and which candidate is next ---- */

struct worth_candidate {
  const struct lls_request *request;
  int64_t due;      /* LLS_NEVER: no deadline, or missed */
  int64_t time;     /* step time that its prompt takes */
  int64_t stays;    /* time for which it will hold memory and a seat */
  int64_t caution;  /* subtracted from due: its answer may be longer */
  int64_t slack;    /* kept: time that others may take before it */
  double memory;    /* tokens of memory it will hold */
  double seats;     /* seats in the batch that it takes: 1, or 0 if it has one */
  double dear;      /* size, raised for a request that others precede */
  double density;   /* worth / size: the largest is next */
  uint32_t pending; /* tokens */
  bool kept, started, stream, best, done; /* best: best effort */
};

struct worth_order {
  struct worth_candidate *all; /* (n) */
  uint32_t n;
  uint32_t *kept; /* (n_kept) in order of due times */
  uint32_t n_kept;
  /* free memory in tokens, and the rate at which it becomes free */
  double free, freed_per_ns;
  /* free seats in the batch, and the rate at which seats become free */
  double seats, seats_per_ns;
  int64_t steps_ns; /* time of this step and the next, in which a passed candidate runs */
  bool more;        /* more than WORTH_KEPT deadlines: rank by due time */
  bool crowded;     /* kept candidates wait for memory */
  bool seated;      /* kept candidates wait for seats */
  bool closed;      /* no seat is free: best effort begins only if kept */
  /* candidates that are not kept, by density; also used to sort due times */
  struct lls_pol_heap others;
  struct lls_pol_heap sizes;
};

enum { WORTH_KEPT = 256 }; /* most due times that a plan considers */

/* Sets `kept` and `slack` of all candidates, so that as many as possible are in time. */
void worth_keep(struct worth_order *, int64_t now_ns);
/* Returns the next candidate that makes no kept one late, and marks it done; NULL if
 * there is none. */
struct worth_candidate *worth_next(struct worth_order *);

/* ---- stay.c: leases of idle sessions' blocks, until the sessions return ---- */

enum { WORTH_ASKED = 1024 };

struct worth_asked { /* a lease that a plan has asked for */
  uint64_t session;
  int64_t ended_ns; /* when the session's last answer ended */
  int64_t again_ns; /* before this time no plan asks for the session's lease again */
};

struct worth_stay {
  /* Share of the tokens that had left the device which the host had, when a session's
   * next request came. */
  double on_host;
  double horizon_ns; /* how long a session stays whose tool takes no time */
  uint32_t next;     /* the session that the next plan considers first */
  uint32_t n_asked;  /* leases that this plan has asked for so far */
  struct worth_asked asked[WORTH_ASKED]; /* by session */
};

/* ---- the plan ---- */

struct worth_job {  /* the request of a slot */
  uint32_t prefix;  /* prompt tokens in the prefix index; UINT32_MAX: not looked up */
  bool lost;        /* the first token came too late */
  uint64_t planned; /* 1 + the number of the plan that the request runs in */
  /* When its memory is expected to be free, as estimated when a plan first found too
   * little; requests that leave before that time may pass it. 0: no plan did. */
  int64_t vacant_at;
};

struct worth {
  struct lls_pol_scheduler base;
  struct worth_params params;
  struct worth_learned learned;
  struct lls_pol_margin margin;
  uint32_t tried;         /* steps whose estimate was compared with their time */
  double worst;           /* largest actual / estimated time of a step */
  struct worth_job *jobs; /* by slot */
  struct worth_order order;
  struct worth_stay stay;
  struct lls_pol_dropped dropped;
  struct lls_pol_urgent urgent;
  const struct lls_request **running; /* requests on the device, victims last */
  struct lls_pol_heap victims;
  uint32_t *contexts;
  uint64_t plans;
  struct lls_pol_paced paced; /* which guesses steps verify */

  /* state of the current plan */
  uint32_t n_decodes;       /* running decodes */
  uint32_t n_owed;          /* running streams with a TBT limit or an end time */
  uint32_t n_growing;       /* requests in the plan with a TBT limit or an end time */
  int64_t usual_gap;        /* ns, of this plan: where requests name none */
  struct lls_pol_room room; /* within_ns LLS_NEVER: no model yet */
  uint32_t unknown;         /* without a model: prompt tokens still allowed */
  struct lls_pol_fit fit;   /* tokens in units */
  uint32_t n_ends;          /* prompts of the plan that end in it */
  bool short_of_memory;
  int64_t vacant_at; /* of the plan's first request that found too little memory */
};

/* look.c: lists the candidates, all but decodes on the device, and computes their worth.
 */
void worth_look(struct worth *, const struct lls_step_view *, uint32_t total_tokens);
/* Adds a request to `urgent` if it has a deadline or weighs more than best effort: then
 * every plan considers it, however many requests wait. */
void worth_arrived(struct worth *, const struct lls_request *);
/* Returns the TBT limit of a stream: the request's, or the configured gap. */
int64_t worth_gap(const struct worth *, const struct lls_request *);
bool worth_best_effort(const struct lls_request *);
/* True if the request has a TBT limit or an end time, which a pause may make it miss. */
bool worth_owed(const struct lls_request *);

/* room.c: the time limit of the step, and how many of `most` tokens after `context` still
 * fit. */
void worth_set_budget(struct worth *, const struct lls_step_view *);
uint32_t worth_room(struct worth *, uint32_t context, uint32_t most);
void worth_has_chunk(struct worth *, uint32_t context, uint32_t tokens);

/* stay.c: leases of sessions, whose request has looked up its prefix for the first time;
 * and in a plan. */
void worth_stay_found(struct worth *, const struct lls_request *,
                      const struct lls_prefix *);
void worth_keep_sessions(struct worth *, const struct lls_step_view *,
                         uint32_t total_units, uint32_t total_tokens, struct lls_plan *);

/* batch.c: fills the plan. */
void worth_fill(struct worth *, struct lls_pol_step *);

#endif
