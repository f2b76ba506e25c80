/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of an instance, for an observer: which requests are in the loop's lists, and
 * what the scheduler's dump says of what orders them.
 *
 * Main asks, with memory of its own; the step thread writes at its next step, sets
 * `ready`, and wakes main. Both parts are cut where they would be long: a server with
 * thousands waiting shows the first of each list, and counts the rest.
 */
#ifndef LLS_RECORD_SNAPSHOT_H
#define LLS_RECORD_SNAPSHOT_H

#include <stdatomic.h>

#include "core/instance/life.h"
#include "core/instance/loop_status.h"

#define LLS_SNAPSHOT_REQUESTS    1024
#define LLS_SNAPSHOT_LABEL_MAX   64
#define LLS_SNAPSHOT_LINES_BYTES 65536

struct lls_snapshot_request {
  uint64_t id;                        /* as the scheduler's lines name it */
  char label[LLS_SNAPSHOT_LABEL_MAX]; /* the client's request id, cut */
  const char *state;
  uint32_t request_class, tenant, prompt_tokens, generated_tokens, cached_tokens;
  uint32_t preemptions;
  uint32_t device_units, host_units; /* of its cached tokens, shared ones too */
  uint32_t owned_units;              /* on the device, and of no other request */
  uint32_t form;                     /* enum lls_form */
  uint32_t predicted_tokens;         /* 0: not predicted */
  int32_t priority;
  int64_t arrival_ns, alive_ns;
  struct lls_life life;
};

#define LLS_SNAPSHOT_STATES 5

/* All requests of a state, those that are not listed too. */
struct lls_snapshot_count {
  const char *state;
  uint32_t by_class[LLS_CLASS_BEST_EFFORT + 1];
};

struct lls_snapshot {
  atomic_bool ready;
  char scheduler[LLS_POLICY_NAME_MAX]; /* as in the log */
  bool built_in;                       /* it was switched off, and is not asked */
  uint32_t n, n_left_out;
  struct lls_snapshot_request requests[LLS_SNAPSHOT_REQUESTS]; /* (n) */
  struct lls_snapshot_count counts[LLS_SNAPSHOT_STATES];       /* (n_counts) */
  uint32_t n_counts;
  uint32_t lines_left_out;
  size_t length;
  char lines[LLS_SNAPSHOT_LINES_BYTES]; /* (length) of the scheduler, each with its \n */
};

struct lls_instance;

/* [step] */
void lls_snapshot_take(struct lls_instance *, struct lls_snapshot *);

#endif
