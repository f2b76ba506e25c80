/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bed for tests of policies: real plugin files in the real step loop (core/loop) on the
 * simulated device, stepped by hand and under the watch of tools/plugin-check, which
 * records the contents of slots, compares audits before and after a rollback, and
 * checks answers. A finding fails the running cmocka test.
 *
 * The bed has no loop of its own. It differs from a server in what a test must know to
 * the nanosecond or choose: a step begins 1 ms after the end of the previous one and
 * takes 0.1 ms a token; cost estimates come from the options, not from measurements;
 * the test sets each answer's length.
 *
 * Everything is single-threaded and repeatable.
 */
#ifndef LLS_T_BED_H
#define LLS_T_BED_H

#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/loop/loop.h"
#include "core/step/step.h"
#include "t/dice.h"
#include "t/harness.h"
#include "tools/plugin-check/watch.h"

#define BED_VOCABULARY 50    /* tokens that most prompts consist of */
#define BED_TOKENS     32000 /* vocabulary of t/plugin/model */
#define BED_EOS        2

struct bed_options {
  /* predictor and drafter: `none` by default */
  struct harness_policy scheduler, cache, predictor, drafter;
  uint32_t block_tokens, device_units, host_units;
  uint32_t window; /* window of every layer, in tokens; 0: none */
  uint32_t int8;   /* enum lls_int8 */
  uint32_t max_tokens, max_sequences, max_context, max_requests;
  bool no_mixed_batch, no_chunked_prefill;
  int64_t prefill_ns;   /* the cost service's estimate for a token; 0: unknown */
  uint32_t audit_every; /* an audit every this many steps; 0: never */
  bool expect_refusals; /* refused plans do not fail the test */
  /* policies misbehave deliberately: only their own findings count */
  bool misbehaves;
  uint64_t seed;
};

/* Members that bed_submit sets in the next requests; tests may change them. */
struct bed_next {
  uint32_t request_class, tenant;
  const char *tenant_name;     /* NULL: none */
  struct lls_slo slo;          /* initially none */
  uint32_t predicted;          /* predicted length of the answer; 0: by the predictor */
  uint32_t max_new_tokens;     /* 0: the output's length */
  uint32_t pooling;            /* enum lls_pooling; with pooling there is no output */
  struct lls_grammar *grammar; /* grammar that the output must match, or NULL */
  const struct lls_session *session; /* the handle that policies see, or NULL */
};

struct bed;

/* A policy as the loop sees it: with the watch's vtable, and a host with the bed's
 * estimates. */
struct bed_policy {
  struct lls_host host; /* first: the watch finds the policy by it */
  struct lls_engine_caps caps;
  struct bed *bed;
  struct handed handed;
  struct watch watch;
  struct watched watched;
  struct lls_plugin_module module;
};

struct bed {
  struct bed_options o;
  struct harness harness;
  struct lls_sim_options sim;
  struct lls_instance *in; /* the loop's only instance */
  struct {
    LLS_EACH_KIND_OF(struct bed_policy);
  } policies;
  struct lls_cost cost; /* tests may change it */
  struct lls_cache_geometry geometry;

  /* Shorthands; all of them are under watch. */
  const struct lls_scheduler_vtable *s;
  const struct lls_cache_vtable *c;
  const struct lls_predictor_vtable *p;
  void *scheduler_self, *cache_self, *predictor_self;

  struct bed_next next;
  int64_t now_ns; /* tests may advance it */
  struct dice dice;
  struct lls_live *const *by_slot; /* (max_requests) NULL for a free slot */

  bool refuse_next;     /* the loop refuses the next plan, however good it is */
  bool ask_nobody;      /* the next plan is the core's built-in order */
  bool broken;          /* the test has broken the contract, so complaints are right */
  struct lls_plan plan; /* the last plan that was carried out */
  uint32_t n_running;   /* running requests that this plan saw */
  uint32_t step;        /* number of steps so far */

  char *text; /* output of the last audit, dump or stats */
  size_t text_length, text_capacity;
  char failure[LLS_ERROR_MAX]; /* reason why the bed could not be opened */
  struct findings findings;
  char where[WHERE_MAX];
  char found[4096]; /* findings of the watch, one a line */
  int log;          /* descriptor of a file in memory */

  /* counters for tests */
  uint64_t finished[LLS_FINISH_ERROR + 1]; /* LENGTH includes answers that stopped */
  uint64_t refused_plans, preempted_recompute, preempted_swap, shared_tokens;
  uint32_t copies[LLS_COPY_DEVICE_TO_DEVICE + 1];
};

/* A number between low and high, both included. */
static inline uint32_t bed_between(struct bed *bed, uint32_t low, uint32_t high)
{
  return dice(&bed->dice, low, high);
}

/* ---- bed.c */
/* Returns 0, or the result of a failed create, with the reason in bed->failure; then
 * nothing is open. */
int bed_open(struct bed *, const struct bed_options *);
void bed_close(struct bed *);
/* Creates another cache manager of the bed's kind with this pool; returns the result of
 * its create. */
int bed_create_cache(struct bed *, const struct lls_cache_geometry *, void **self);
/* The contents of the slots of the bed's cache. */
struct shadow *bed_shadow(struct bed *);
/* Makes this cache manager the bed's; the test must destroy the previous one. */
void bed_use_cache(struct bed *, void *self);

/* ---- bed_ask.c */
/* Audits the cache; bed->text gets the state. */
int bed_audit(struct bed *);
/* Sets bed->text to the scheduler's dump, in lines. */
void bed_dump(struct bed *);
/* Sets bed->text to the statistics and counters of scheduler and cache. */
void bed_stats(struct bed *);
/* a figure of stats; NaN: none has this name */
double bed_figure(struct bed *, const char *name);
/* Returns the watch's findings so far, one a line; bed->found. */
const char *bed_found(struct bed *);
/* Discards the findings. */
void bed_forgive(struct bed *);
/* Returns true if the findings are a reason to fail. */
bool bed_complains(struct bed *);

/* ---- bed_step.c */
/* Submits a request that will generate `output` tokens; NULL if all slots are in
 * use. */
struct lls_live *bed_submit(struct bed *, const int32_t *tokens, uint32_t n,
                            uint32_t output);
void bed_cancel(struct bed *, struct lls_live *);
/* Receives the inbox, without running a step. */
void bed_receive(struct bed *);
/* Runs one step; returns how many requests ran. */
uint32_t bed_step(struct bed *);
uint32_t bed_alive(const struct bed *);
/* Runs steps until no request is active; fails the test after most_steps. */
void bed_finish(struct bed *, uint32_t most_steps);
/* A request's number in order of arrival, from 0; and the request of a number (NULL: it
 * has ended). */
uint32_t bed_number(const struct bed *, uint64_t id);
struct lls_live *bed_numbered(const struct bed *, uint32_t number);
struct lls_live *bed_find(const struct bed *, uint64_t id);
/* Writes the plan as "0:60 1:50 -2 x3": tokens of runs, preemptions, rejections, by
 * number. */
const char *bed_plan_text(const struct bed *, char *buffer, size_t size);
/* The bed's observer of the loop. */
struct lls_loop_observer bed_observer(struct bed *);

#endif
