/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of an instance, for an administrator: the requests in the loop's lists, and
 * the scheduler's dump, which shows how it orders them.
 *
 * Main passes memory to the step thread, which writes the snapshot at its next step,
 * sets `ready`, and wakes main. Both parts are bounded: of thousands of waiting requests
 * a snapshot has the first of each list, and the number of the rest.
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
  uint64_t id;                        /* the same id as in the scheduler's lines */
  char label[LLS_SNAPSHOT_LABEL_MAX]; /* the client's request id, cut short */
  const char *state;
  uint32_t request_class, tenant, prompt_tokens, generated_tokens, cached_tokens;
  uint32_t preemptions;
  /* units of the request's cached tokens, shared ones included */
  uint32_t device_units, host_units;
  uint32_t owned_units;      /* units on the device that no other request shares */
  uint32_t form;             /* enum lls_form */
  uint32_t predicted_tokens; /* 0: not predicted */
  int32_t priority;
  int64_t arrival_ns, alive_ns;
  struct lls_life life;
};

#define LLS_SNAPSHOT_STATES 6

/* Counts of all requests in a state, listed or not. */
struct lls_snapshot_count {
  const char *state;
  uint32_t by_class[LLS_CLASS_BEST_EFFORT + 1];
};

struct lls_snapshot {
  atomic_bool ready;
  char scheduler[LLS_POLICY_NAME_MAX]; /* the scheduler's name in the log */
  bool built_in;                       /* the scheduler was switched off */
  uint32_t n, n_left_out;
  struct lls_snapshot_request requests[LLS_SNAPSHOT_REQUESTS]; /* (n) */
  struct lls_snapshot_count counts[LLS_SNAPSHOT_STATES];       /* (n_counts) */
  uint32_t n_counts;
  uint32_t lines_left_out;
  size_t length;
  /* (length) lines that the scheduler dumped, each with its \n */
  char lines[LLS_SNAPSHOT_LINES_BYTES];
};

struct lls_instance;

/* [step] Fills the snapshot, and sets `ready`. */
void lls_snapshot_take(struct lls_instance *, struct lls_snapshot *);

#endif
