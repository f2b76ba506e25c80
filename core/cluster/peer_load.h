/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances tell each other their load, for the views of their schedulers: each puts it
 * on its board at the end of a step and looks at the boards of all before it plans.
 *
 * A board has its last two entries, since instances of a simulation have a clock each:
 * none sees what another will have done later. No more are needed: the loop steps the one
 * that is furthest behind, so that at most one entry of another is ahead of it.
 *
 * An offer that has been posted is in no list of the instance that it goes to before that
 * one's next step. So both count, as long as they live, what one has offered to the
 * other; the difference is on its way. Of one that was given up and has come back nothing
 * is on its way.
 */
#ifndef LLS_CLUSTER_PEER_LOAD_H
#define LLS_CLUSTER_PEER_LOAD_H

#include <llmserve/scheduler.h>

#include <pthread.h>

#include "core/config/instance_list.h"

struct lls_instance;
struct lls_live;

struct lls_offers { /* since the start */
  uint64_t requests, units;
};

struct lls_load_entry {
  int64_t at_ns; /* by the clock of the instance */
  struct lls_instance_load load;
  struct lls_offers received[LLS_MAX_INSTANCES]; /* by instance that they are of */
};

struct lls_peer_loads {
  pthread_mutex_t lock;           /* of entry */
  struct lls_load_entry entry[2]; /* the newer one last */

  /* [step] */
  struct lls_offers sent[LLS_MAX_INSTANCES], received[LLS_MAX_INSTANCES];
  uint32_t returns[LLS_MAX_INSTANCES]; /* theirs, when `sent` was counted anew */
  struct lls_instance_load seen[LLS_MAX_INSTANCES]; /* of the last look */
  const struct lls_instance_load *list[LLS_MAX_INSTANCES];
};

/* [main] Nothing where there is one instance alone. */
int lls_peer_loads_init(struct lls_instance *);
void lls_peer_loads_fini(struct lls_instance *);
/* [step] All that follow. Its load, on the board. */
void lls_peer_loads_show(struct lls_instance *);
/* The loads of all, for a view. */
void lls_peer_loads_look(struct lls_instance *);
/* It is about to be posted to `target`; and has come. */
void lls_peer_loads_sent(struct lls_instance *, struct lls_live *, uint32_t target);
void lls_peer_loads_received(struct lls_instance *, const struct lls_live *);

#endif
