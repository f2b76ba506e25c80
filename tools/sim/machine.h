/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine of a run: configuration, model, profiles, device, engine and loop, put
 * together from the options. Simulated by default; with --device cpu or cuda the real
 * engine in real time, driven by the same loop, so that the two can be compared.
 */
#ifndef LLS_SIM_TOOL_MACHINE_H
#define LLS_SIM_TOOL_MACHINE_H

#include "core/config/config.h"
#include "core/config/instance_list.h"
#include "core/cost/model.h"
#include "core/engine/engine.h"
#include "core/loop/loop.h"
#include "core/record/decision_log.h"
#include "core/obs/log.h"
#include "tools/sim/guesses.h"
#include "tools/sim/options.h"

struct lls_machine {
  struct lls_config config;
  bool configured;
  struct lls_model_config model;
  int64_t ranks; /* --ranks, or [engine] tensor_parallel_size */
  struct lls_profile profile, estimate_profile;
  /* rates: the true costs; estimate: the costs that policies see */
  struct lls_cost_rates rates, estimate;
  struct lls_guesses guesses; /* with --draft-acceptance */
  struct lls_log log;
  int32_t eos;                    /* the token that ends an answer */
  struct lls_instances instances; /* each with its own device, engine and clock */
  struct lls_device *devices[LLS_MAX_INSTANCES];
  struct lls_engine *engines[LLS_MAX_INSTANCES];
  uint32_t turn; /* the instance whose turn it is */
  struct lls_loop *loop;
  bool real;        /* real engine, with --device cpu or cuda */
  bool cpu_time;    /* the clock is processor time */
  bool passes_idle; /* idle time is skipped: the clock jumps to the next arrival */
  int64_t began_ns; /* real engine: the clock's time 0 */
};

/* settings: SECTION.KEY=VALUE separated by spaces, overridden by the options and the
 * file; NULL: none. max_requests: the most active requests, unless set elsewhere.
 * Configuration errors after the first are printed to stderr. On failure nothing is to
 * be closed. */
int lls_machine_open(struct lls_machine *, const struct lls_sim_tool_options *,
                     const char *settings, uint32_t max_requests,
                     const struct lls_loop_observer *, struct lls_error *err);
/* Reads the configuration without creating anything that runs. */
int lls_machine_configure(struct lls_machine *, const struct lls_sim_tool_options *,
                          const char *settings, uint32_t max_requests,
                          struct lls_error *err);
void lls_machine_close(struct lls_machine *);

/* Writes the first line of this machine's decision log. */
void lls_machine_begin_log(const struct lls_machine *, struct lls_decision_log *);

/* Nanoseconds from 0, by the clock of the instance whose turn it is. */
int64_t lls_machine_now(struct lls_machine *);
/* Returns the time of the instance that is furthest behind; no event can happen before
 * it. */
int64_t lls_machine_least(struct lls_machine *);
/* Lets time pass until until_ns: in the simulation at once, in real time by sleeping,
 * unless idle time is skipped. Instances already beyond it stay there. */
void lls_machine_wait(struct lls_machine *, int64_t until_ns);

#endif
