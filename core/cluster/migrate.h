/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests from one instance to another: migrate.c, and migrate_take.c for offers that
 * the plan takes. Everything here is [step].
 */
#ifndef LLS_CLUSTER_MIGRATE_H
#define LLS_CLUSTER_MIGRATE_H

#include "core/instance/instance.h"

int lls_migrate_init(struct lls_instance *, uint32_t max_requests);
void lls_migrate_fini(struct lls_instance *);
/* For the content of the inbox: settled requests first, then each that is no arrival. */
void lls_migrate_settle(struct lls_instance *);
void lls_migrate_receive(struct lls_instance *, struct lls_live *);
/* Ends the offers of an instance that has failed: it cannot be copied from. */
void lls_migrate_drop_broken(struct lls_instance *);
void lls_migrate_leave(struct lls_instance *);      /* of the plan, committed */
void lls_migrate_offer_late(struct lls_instance *); /* after the step */
void lls_migrate_return_all(struct lls_instance *);
/* Others have taken over all that lives here, and what left: it is forgotten. */
void lls_migrate_forget_all(struct lls_instance *);
/* An offer goes back where it came from, for that reason. */
void lls_migrate_refuse(struct lls_instance *, struct lls_live *, uint32_t refusal);
/* It lives here, in the state that its blocks are in. */
void lls_migrate_settle_in(struct lls_instance *, struct lls_live *);
/* It is only offered again; other ranks may not be done with it. */
void lls_migrate_end_fetch(struct lls_instance *, struct lls_live *);

/* ---- migrate_take.c: offers that the plan takes; see there */
void lls_migrate_take(struct lls_instance *); /* of the plan, in the transaction */
void lls_migrate_pull(struct lls_instance *); /* committed: what is to be copied */
uint64_t lls_migrate_bytes(const struct lls_instance *); /* of this step's copies */
void lls_migrate_arrived(struct lls_instance *);         /* with the engine's step */
/* For the content of the inbox, after what is settled. */
void lls_migrate_fetched(struct lls_instance *);

#endif
