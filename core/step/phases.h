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

/* ---- commit.c */
void lls_instance_commit(struct lls_instance *, const struct lls_engine_result *,
                         int64_t started_ns);

/* ---- invariants.c: does nothing without --enable-checks */
/* [step] called between two steps */
void lls_instance_check(const struct lls_instance *);

#endif
