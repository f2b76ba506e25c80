/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migration of requests between instances: migrate.c, and migrate_take.c for offers that
 * the plan takes. Everything here is [step].
 */
#ifndef LLS_CLUSTER_MIGRATE_H
#define LLS_CLUSTER_MIGRATE_H

#include <stdint.h>

struct lls_instance;
struct lls_live;

int lls_migrate_init(struct lls_instance *, uint32_t max_requests);
void lls_migrate_fini(struct lls_instance *);
/* Handle the content of the inbox: first the settled requests, then each request that is
 * not an arrival. */
void lls_migrate_settle(struct lls_instance *);
void lls_migrate_receive(struct lls_instance *, struct lls_live *);
/* Ends incoming requests whose source has failed, since their blocks cannot be copied. */
void lls_migrate_drop_broken(struct lls_instance *);
/* called after the plan is committed */
void lls_migrate_offer(struct lls_instance *);
void lls_migrate_offer_late(struct lls_instance *); /* called after the step */
void lls_migrate_return_all(struct lls_instance *);
/* Drops all requests and offers without an event: other instances have taken them over,
 * because this one was given up. */
void lls_migrate_forget_all(struct lls_instance *);
/* Returns an incoming request to its source, with the reason: enum lls_refusal or 0. */
void lls_migrate_refuse(struct lls_instance *, struct lls_live *, uint32_t refusal);
/* Makes the request one of this instance, in the state that the place of its blocks
 * implies. */
void lls_migrate_settle_in(struct lls_instance *, struct lls_live *);
/* Ends the fetch of the request's blocks; it is incoming again. Other ranks may still be
 * fetching. */
void lls_migrate_end_fetch(struct lls_instance *, struct lls_live *);

/* ---- migrate_take.c */
void lls_migrate_take(struct lls_instance *); /* reserves memory, in the transaction */
void lls_migrate_pull(struct lls_instance *); /* lists the copies, once committed */
uint64_t lls_migrate_bytes(const struct lls_instance *); /* bytes that the step copies */
/* called after the engine's step */
void lls_migrate_arrived(struct lls_instance *);
/* Handles the inbox's completed fetches, after the settled requests. */
void lls_migrate_fetched(struct lls_instance *);

#endif
