/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device: everything that engine, loop and policies do is real, except
 * for the arithmetic. (The engine walks one layer only: with one active request the
 * empty calls of 40 layers would take half of a step.) The device owns a virtual clock,
 * which a step advances by the step's cost (core/cost/model.h); nothing else takes
 * time. Give lls_sim_now to loop and engine as their clock.
 *
 * Memory is counted, not allocated: weights and buffers against the device's usable
 * memory, with the scratch of the hidden form where the engine has one; units of the pool
 * as indices that copies are checked against.
 *
 * Copies. Those BEFORE_STEP end before the forward pass begins; ASYNC ones use the link
 * while it computes, and the step ends with the later of the two (core/engine/batch.h:
 * all copies have ended when wait returns). Blocks of another simulated device come over
 * the link between the two at the same time, or, where the profile has none, over the
 * host's link twice. Both ends of the link are busy meanwhile: pulls by a device, and
 * pulls from it, run one after the other in the order of the requests. The source
 * device continues to compute.
 *
 * Tokens. The length of an answer belongs to the trace and must not reach a policy,
 * which sees only max_new_tokens, the client's bound. By convention lls_sampling.seed
 * is the true length: output token number seed - 1 is `eos`, the others are a hash of
 * seed and number that is never eos.
 */
#ifndef LLS_SIM_SIM_H
#define LLS_SIM_SIM_H

#include "core/cost/model.h"
#include "core/device/devices.h"

struct lls_sim_options {
  struct lls_cost_rates rates; /* the true costs of steps and copies */
  uint64_t memory;             /* usable bytes of all ranks together */
  int64_t plan_ns;             /* added to each step: the time that planning takes */
  int32_t eos;                 /* a token of the vocabulary */
  const char *name;            /* the name in lls_device_describe; copied */
};

/* Totals of the device since its creation. */
struct lls_sim_totals {
  uint64_t steps, rows, sequences;
  int64_t busy_ns; /* time of all steps */
  /* time of all copies; the part of it by which they lengthened steps */
  int64_t copy_ns, waited_ns;
  /* bytes copied by enum lls_copy_way */
  uint64_t copied_bytes[LLS_COPY_DEVICE_TO_DEVICE + 1];
  /* copies from other devices, and their bytes */
  uint64_t pulls, pulled_bytes;
  /* All pulls: time from the step's begin to their arrival, and the link's time for
   * each alone. */
  int64_t pull_ns, pull_link_ns;
  uint64_t memory_used; /* weights, buffers and device pool, bytes */
};

/* The empty device of struct lls_devices. */
extern const struct lls_device_module lls_empty_device;

/* [main] */
int lls_sim_device_create(const struct lls_sim_options *, struct lls_device **out,
                          struct lls_error *err);
/* The clock in nanoseconds from 0; its context is the device. */
int64_t lls_sim_now(void *device);
/* Advances the clock to until_ns; a time in the past changes nothing. */
void lls_sim_advance(struct lls_device *, int64_t until_ns);
/* Sets the duration of the next step, whatever it costs; for replays. */
void lls_sim_next_step(struct lls_device *, int64_t ns);
/* Returns the token of this place in an answer of `seed` tokens, unless something forbids
 * it. */
int32_t lls_sim_token(uint64_t seed, uint32_t index, uint32_t vocab, int32_t eos);
void lls_sim_totals(const struct lls_device *, struct lls_sim_totals *out);

#endif
