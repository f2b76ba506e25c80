/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine of a run: configuration, model, profiles, device, engine and loop, put
 * together from the options. Simulated by default; with --device cpu or cuda the real
 * engine in real time, driven by the same loop, so that the two can be laid beside each
 * other.
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
#include "tools/sim/options.h"

struct lls_machine {
  struct lls_config config;
  bool configured;
  struct lls_model_config model;
  int64_t ranks; /* --ranks, or [engine] tensor_parallel_size */
  struct lls_profile profile, estimate_profile;
  struct lls_cost_rates rates, estimate; /* the truth, and what policies believe */
  struct lls_log log;
  int32_t eos;                    /* what ends an answer */
  struct lls_instances instances; /* with a device, an engine and a clock each */
  struct lls_device *devices[LLS_MAX_INSTANCES];
  struct lls_engine *engines[LLS_MAX_INSTANCES];
  uint32_t turn; /* instance whose time it is */
  struct lls_loop *loop;
  bool real;        /* --device cpu or cuda */
  bool cpu_time;    /* whose time is the processor's */
  bool passes_idle; /* whose time jumps to the next arrival */
  int64_t began_ns; /* real: its time 0 */
};

/* settings: SECTION.KEY=VALUE between spaces, that count before the options' and the
 * file's; NULL: none. max_requests: alive at once, where nothing else says. Errors of the
 * configuration beyond the first go to stderr. On failure there is nothing to close. */
int lls_machine_open(struct lls_machine *, const struct lls_sim_tool_options *,
                     const char *settings, uint32_t max_requests,
                     const struct lls_loop_observer *, struct lls_error *err);
/* The configuration and nothing that runs. */
int lls_machine_configure(struct lls_machine *, const struct lls_sim_tool_options *,
                          const char *settings, uint32_t max_requests,
                          struct lls_error *err);
void lls_machine_close(struct lls_machine *);

/* The first line of a decision log of this machine. */
void lls_machine_begin_log(const struct lls_machine *, struct lls_decision_log *);

/* Nanoseconds from 0, of the instance whose turn it is. */
int64_t lls_machine_now(struct lls_machine *);
/* The time of the instance that is furthest behind: nothing happens before that any more.
 */
int64_t lls_machine_least(struct lls_machine *);
/* Lets time pass: at once, or in real time by sleeping, unless that is passed over. No
 * instance is behind that time then; one that is beyond it stays there. */
void lls_machine_wait(struct lls_machine *, int64_t until_ns);

#endif
