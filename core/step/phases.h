/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a step for step.c, one file each, and the check between two steps.
 * Everything here is [step].
 */
#ifndef LLS_STEP_PHASES_H
#define LLS_STEP_PHASES_H

#include <stdint.h>

struct lls_engine_result;
struct lls_instance;
struct lls_live;

/* ---- plan.c */
/* Gets a plan from the scheduler (or the built-in order) inside the open transaction;
 * in->plan then holds a checked plan, perhaps an empty one. */
void lls_instance_plan(struct lls_instance *);

/* ---- placement.c */
/* Carries out in->plan, commits the transaction and fills in->batch. */
void lls_instance_place(struct lls_instance *);

/* ---- transfer.c: sequences moved between the tiers while other requests compute */
void lls_transfer_place(struct lls_instance *); /* called within the transaction */
/* called after the commit */
void lls_transfer_start(struct lls_instance *, struct lls_live *);
void lls_transfer_ended(struct lls_instance *); /* called after the engine's step */

/* ---- leases.c: what sessions left, kept in a tier or brought to another */
/* Takes the items of sessions out of the plan that the scheduler has made. Returns NULL,
 * or what is wrong with the plan: "it ...". */
const char *lls_leases_take_items(struct lls_instance *);
const char *lls_leases_check(struct lls_instance *); /* likewise, of these items */
void lls_leases_place(struct lls_instance *);        /* within the transaction */
void lls_leases_fetch(struct lls_instance *);        /* likewise, after the runs */

/* ---- drafter.c */
/* Calls the drafter for the requests that decode, after the commit. */
void lls_drafter_run(struct lls_instance *);
/* Reports to the drafter that a step verified some of the request's guesses, and accepted
 * the first of them. */
void lls_drafter_verified(struct lls_instance *, struct lls_live *, uint32_t drafted,
                          uint32_t accepted);

/* ---- commit.c */
/* Returns 0, or a negative errno after which no step may follow (health.failure). */
int lls_instance_commit(struct lls_instance *, const struct lls_engine_result *,
                        int64_t started_ns);

/* ---- invariants.c: does nothing without --enable-checks */
/* [step] called between two steps */
void lls_instance_check(const struct lls_instance *);

#endif
