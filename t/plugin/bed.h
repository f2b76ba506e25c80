/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bed for tests of policies: real plugin files in the real step loop (core/loop) on the
 * simulated device, stepped by hand and under the watch of tools/plugin-check, which
 * keeps what slots hold, compares audits before and after a rollback, and judges answers.
 * What it finds fails the running cmocka test.
 *
 * The bed has no loop of its own. It differs from a server in what a test has to know to
 * the nanosecond or to choose: a step begins 1 ms after the one before has ended and
 * takes 0.1 ms a token; estimates of costs are those of the options, not what was
 * measured; a request says as many tokens as the test wants.
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

#define BED_VOCABULARY 50    /* of what most prompts are made of */
#define BED_TOKENS     32000 /* that t/plugin/model has */
#define BED_EOS        2

struct bed_options {
  struct harness_policy scheduler, cache, predictor; /* predictor: none by default */
  uint32_t block_tokens, device_units, host_units;
  uint32_t window; /* tokens, of every layer; 0 = none */
  uint32_t int8;   /* enum lls_int8 */
  uint32_t max_tokens, max_sequences, max_context, max_requests;
  bool no_mixed_batch, no_chunked_prefill;
  int64_t prefill_ns;   /* a token, as the cost service says; 0: it does not know */
  uint32_t audit_every; /* steps, at each turn of them; 0: never */
  bool expect_refusals; /* a refused plan is no failure */
  bool misbehaves;      /* policies that do on purpose: only what they find counts */
  uint64_t seed;
};

/* Members that bed_submit gives to the next requests; the tests set it as they like. */
struct bed_next {
  uint32_t request_class, tenant;
  const char *tenant_name;     /* NULL: none */
  struct lls_slo slo;          /* none at first */
  uint32_t predicted;          /* length of the answer; 0: as the predictor says */
  uint32_t max_new_tokens;     /* 0: the output itself */
  uint32_t pooling;            /* enum lls_pooling; with one there is no output */
  struct lls_grammar *grammar; /* that the output keeps to, or NULL */
};

struct bed;

/* A policy as the loop gets it: the watch's vtable, a host with the bed's estimates. */
struct bed_policy {
  struct lls_host host; /* first: the watch leads to it */
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
  struct lls_instance *in; /* the loop's only one */
  struct {
    LLS_EACH_KIND_OF(struct bed_policy);
  } policies;
  struct lls_cost cost; /* tests may change it */
  struct lls_cache_geometry geometry;

  /* Shorthands; all are under watch. */
  const struct lls_scheduler_vtable *s;
  const struct lls_cache_vtable *c;
  const struct lls_predictor_vtable *p;
  void *scheduler_self, *cache_self, *predictor_self;

  struct bed_next next;
  int64_t now_ns; /* tests may move it on */
  struct dice dice;
  struct lls_live *const *by_slot; /* (max_requests) NULL where nobody lives */

  bool refuse_next;     /* the next plan, however good it is */
  bool ask_nobody;      /* for the next plan: it is the core's built-in order */
  bool broken;          /* the test has broken the contract: complaints are right */
  struct lls_plan plan; /* the last one that was carried out */
  uint32_t n_running;   /* that it saw */
  uint32_t step;        /* how many there were */

  char *text; /* of the last audit, dump or stats */
  size_t text_length, text_capacity;
  char failure[LLS_ERROR_MAX]; /* why it could not be opened */
  struct findings findings;
  char where[WHERE_MAX];
  char found[4096]; /* what the watch has found, a line each */
  int log;          /* a file in memory */

  /* counters for tests */
  uint64_t finished[LLS_FINISH_ERROR + 1]; /* LENGTH: with those that stopped */
  uint64_t refused_plans, preempted_recompute, preempted_swap, shared_tokens;
  uint32_t copies[LLS_COPY_DEVICE_TO_DEVICE + 1];
};

/* Between low and high, both included. */
static inline uint32_t bed_between(struct bed *bed, uint32_t low, uint32_t high)
{
  return dice(&bed->dice, low, high);
}

/* ---- bed.c */
/* 0 or what a create returned, bed->failure says why; then nothing is open. */
int bed_open(struct bed *, const struct bed_options *);
void bed_close(struct bed *);
/* Creates another cache manager of the bed's, with this pool; what its create returned.
 */
int bed_create_cache(struct bed *, const struct lls_cache_geometry *, void **self);
/* The contents of its cache's slots. */
struct shadow *bed_shadow(struct bed *);
/* This one is the bed's from now on, and the one before it the test's to destroy. */
void bed_use_cache(struct bed *, void *self);

/* ---- bed_ask.c */
/* Audits the cache; bed->text has the state. */
int bed_audit(struct bed *);
/* bed->text has what the scheduler dumps, a line each. */
void bed_dump(struct bed *);
/* bed->text has what scheduler and cache say of themselves, and all they have counted. */
void bed_stats(struct bed *);
double bed_figure(struct bed *, const char *name); /* of stats; NaN: none is called so */
/* The watch's findings so far, one a line; bed->found. */
const char *bed_found(struct bed *);
/* Forgets it. */
void bed_forgive(struct bed *);
/* True if it is a reason to fail. */
bool bed_complains(struct bed *);

/* ---- bed_step.c */
/* A request that will say `output` tokens; NULL if all slots are taken. */
struct lls_live *bed_submit(struct bed *, const int32_t *tokens, uint32_t n,
                            uint32_t output);
void bed_cancel(struct bed *, struct lls_live *);
/* Takes in the inbox, without a step. */
void bed_receive(struct bed *);
/* One step; how many requests ran. */
uint32_t bed_step(struct bed *);
uint32_t bed_alive(const struct bed *);
/* Steps until nothing is alive; fails the test after most_steps. */
void bed_finish(struct bed *, uint32_t most_steps);
/* Which request it is, in order of arrival from 0, and back (NULL: it has ended). */
uint32_t bed_number(const struct bed *, uint64_t id);
struct lls_live *bed_numbered(const struct bed *, uint32_t number);
struct lls_live *bed_find(const struct bed *, uint64_t id);
/* "0:60 1:50 -2": runs with their tokens, preemptions, "x3" rejections, by number. */
const char *bed_plan_text(const struct bed *, char *buffer, size_t size);
/* Its observer of the loop. */
struct lls_loop_observer bed_observer(struct bed *);

#endif
