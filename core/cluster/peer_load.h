/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances publish their load for the views of other instances' schedulers: each
 * writes to its board at the end of a step, and reads all boards before it plans.
 *
 * A board has its last two entries, because each instance of a simulation has its own
 * clock: an instance must not see what another one did later. Two are enough: the
 * simulator steps the instance that is furthest behind, so at most one entry of another
 * instance is ahead of it.
 *
 * An offer is in no list of its target before the target's next step. So both sides
 * count all offers ever made from one to the other; the difference is under way. For an
 * instance that was given up and has come back, no offer is under way.
 */
#ifndef LLS_CLUSTER_PEER_LOAD_H
#define LLS_CLUSTER_PEER_LOAD_H

#include <llmserve/scheduler.h>

#include <pthread.h>

#include "core/config/instance_list.h"

struct lls_instance;
struct lls_live;

struct lls_offers { /* counts since the start */
  uint64_t requests, units;
};

struct lls_load_entry {
  int64_t at_ns; /* time of `load`, by the instance's own clock */
  struct lls_instance_load load;
  /* offers that this instance received, by the instance that made the offer */
  struct lls_offers received[LLS_MAX_INSTANCES];
};

struct lls_peer_loads {
  pthread_mutex_t lock;           /* guards entry */
  struct lls_load_entry entry[2]; /* the newer one last */

  /* [step] */
  struct lls_offers sent[LLS_MAX_INSTANCES], received[LLS_MAX_INSTANCES];
  uint32_t returns[LLS_MAX_INSTANCES]; /* the other instance's number of returns when
                                        * `sent` was reset */
  /* loads of all instances when they were last read */
  struct lls_instance_load seen[LLS_MAX_INSTANCES];
  const struct lls_instance_load *list[LLS_MAX_INSTANCES];
};

/* [main] Does nothing if there is only one instance. */
int lls_peer_loads_init(struct lls_instance *);
void lls_peer_loads_fini(struct lls_instance *);
/* [step] All functions below. Writes the instance's load to its board. */
void lls_peer_loads_show(struct lls_instance *);
/* Reads the loads of all instances, for a view. */
void lls_peer_loads_look(struct lls_instance *);
/* A request is about to be posted to `target`; has arrived. */
void lls_peer_loads_sent(struct lls_instance *, struct lls_live *, uint32_t target);
void lls_peer_loads_received(struct lls_instance *, const struct lls_live *);

#endif
