/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One comparison for all requests, shared by the plugin's files: what a prompt is worth
 * now, over what it costs others.
 *
 * A candidate's cost is in nanoseconds of the scarce device: the step time its prompt
 * takes, and its share of the memory times the time it will hold it, at a price between 0
 * and 1 that follows from how often memory was what was missing (learn.c). Its *size* is
 * that together with the time of its own answer, the less of them above all (look.c). A
 * *due* time is a deadline of its next token; a candidate is *kept* if all those kept can
 * be in time (keep.c), else its deadline is worth nothing any more and it waits with
 * those that never had one. A plan allocates nothing: arrays have engine->max_requests
 * entries.
 */
#ifndef WORTH_H
#define WORTH_H

#include <llmserve/policy/ends.h>
#include <llmserve/policy/heap.h>
#include <llmserve/policy/margin.h>
#include <llmserve/policy/room.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

struct worth_params {
  int64_t gap, max_stall;
  double fairness, reserve, margin;
  int64_t preempt;
  const char *weights;
};

/* ---- learn.c: what traffic and memory were like so far ---- */

enum { WORTH_TENANTS = 256 }; /* more than that share their counts */

struct worth_learned {
  double output;       /* mean length of an answer */
  double error;        /* mean of how far lengths were from what was expected at first */
  double memory_price; /* 0: there is enough .. 1: it is what requests wait for */
  double headroom;     /* tokens that are left free for each stream to grow into */
  double deadlines;    /* part of the requests that name deadlines */
  double step_ns;      /* mean time of a step */
  double freed;        /* tokens of memory by those that ended, the last ones above all */
  double freed_ns;     /* and in what time */
  double ended;        /* how many those were: seats in the batch that came free */
  double prompt_ns;    /* time of a token of a prompt in a step as they are filled */
  double weight[WORTH_TENANTS]; /* of a tenant's share */
  double used[WORTH_TENANTS];   /* tokens of a tenant over its weight, the last minute's
                                   above all */
  double share;                 /* of all that, what is a tenant's */
};

void worth_learn_begin(struct worth_learned *);
/* weight: of its tenant's share */
void worth_learn_arrival(struct worth_learned *, const struct lls_request *,
                         double weight);
void worth_learn_step(struct worth_learned *, const struct lls_step_report *);
void worth_learn_end(struct worth_learned *, const struct lls_request *);
/* A plan is made: requests waited for memory, streams lost theirs. */
void worth_learn_plan(struct worth_learned *, bool short_of_memory, uint32_t preempted);
/* Tokens of the answer to come: predicted, or by what answers were like so far. */
double worth_left(const struct worth_learned *, const struct lls_request *);
/* The length that is expected of an answer when it begins. */
double worth_expected(const struct worth_learned *, const struct lls_request *);
/* How much more than its share a tenant had, 0: not more. */
double worth_excess(const struct worth_learned *, uint32_t tenant);

/* ---- keep.c: which deadlines are kept, and what comes next ---- */

struct worth_candidate {
  const struct lls_request *request;
  int64_t due;      /* LLS_NEVER: none, or it is lost */
  int64_t time;     /* of steps, that its prompt takes */
  int64_t caution;  /* how much earlier it may have to come: its answer may be longer */
  int64_t slack;    /* kept: how much may come before it */
  double memory;    /* tokens that it will hold */
  double seats;     /* that it will take: 1, or 0 if it has one */
  double dear;      /* size, dearer for whom others are preferred to */
  double density;   /* worth over size: the largest is next */
  uint32_t pending; /* tokens */
  bool kept, started, stream, best, done; /* best: of best effort */
};

struct worth_order {
  struct worth_candidate *all; /* (n) */
  uint32_t n;
  uint32_t *kept; /* (n_kept) in order of due times */
  uint32_t n_kept;
  double free, freed_per_ns;  /* tokens of memory: now, and as others end */
  double seats, seats_per_ns; /* in the batch: likewise */
  int64_t steps_ns;           /* of this step and the next: who is passed now runs then */
  bool more;                  /* deadlines that the plan does not look at: by due time */
  bool crowded;               /* those kept wait for memory */
  bool seated;                /* those kept wait for seats */
  bool closed;                /* all seats are taken: best effort begins if it is kept */
  struct lls_pol_heap others; /* by density; also used to sort due times */
  struct lls_pol_heap sizes;
};

enum { WORTH_KEPT = 256 }; /* most due times that a plan looks at */

/* Sets kept and slack of all: as many as can be in time. */
void worth_keep(struct worth_order *, int64_t now_ns);
/* The next one, which makes no kept one late; NULL: there is none. It is done then. */
struct worth_candidate *worth_next(struct worth_order *);

/* ---- the plan ---- */

struct worth_job {  /* of a slot */
  uint32_t prefix;  /* tokens that others have of its prompt; UINT32_MAX: not asked */
  bool lost;        /* its first token came too late */
  uint64_t planned; /* 1 + the plan that it runs in */
};

struct worth {
  struct lls_pol_scheduler base;
  struct worth_params params;
  struct worth_learned learned;
  struct lls_pol_margin margin;
  uint32_t tried;         /* steps that have shown how far the estimates are off */
  double worst;           /* the most that one of them took over its estimate */
  struct worth_job *jobs; /* by slot */
  struct worth_order order;
  struct lls_pol_dropped dropped;
  struct lls_pol_urgent urgent;
  const struct lls_request **running; /* on the device, the last gives way first */
  struct lls_pol_heap victims;
  uint32_t *contexts;
  uint64_t plans;

  /* of the plan in the making */
  uint32_t n_decodes;       /* that run */
  uint32_t n_owed;          /* streams that named a gap or an end */
  uint32_t n_growing;       /* the same of all that are in the plan */
  struct lls_pol_room room; /* within_ns LLS_NEVER: no model yet */
  uint32_t unknown;         /* then, tokens that prompts may still have */
  uint32_t block_units;     /* of a block of KV */
  bool short_of_memory;
};

/* look.c: all that is not a decode on the device, and what it is worth. */
void worth_look(struct worth *, const struct lls_step_view *, uint32_t total_tokens);
/* It is in sight from now on, however many wait, if it has a deadline or weighs more than
 * one of best effort. */
void worth_arrived(struct worth *, const struct lls_request *);
/* The gap that a stream has asked for, or gets. */
int64_t worth_gap(const struct worth *, const struct lls_request *);
bool worth_best_effort(const struct lls_request *);
/* It named a gap between its tokens or an end: a pause may cost it that. */
bool worth_owed(const struct lls_request *);

/* room.c: the time of the step, and how many of `most` tokens behind a context it still
 * has room for. */
void worth_set_budget(struct worth *, const struct lls_step_view *);
uint32_t worth_room(struct worth *, uint32_t context, uint32_t most);
void worth_has_chunk(struct worth *, uint32_t context, uint32_t tokens);

/* batch.c: what runs. */
void worth_fill(struct worth *, struct lls_pol_step *);

#endif
