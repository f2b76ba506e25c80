/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a step, each of which is a file, for step.c; and what is between two
 * steps. Everything here is [step].
 */
#ifndef LLS_STEP_PHASES_H
#define LLS_STEP_PHASES_H

#include "core/engine/engine.h"
#include "core/instance/instance.h"

/* ---- plan.c */
/* Asks for a plan inside the open transaction; in->plan holds a checked plan, perhaps
 * empty. */
void lls_instance_plan(struct lls_instance *);
void lls_instance_strike(struct lls_instance *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- placement.c */
/* Carries out in->plan, commits the transaction and fills in->batch. */
void lls_instance_place(struct lls_instance *);

/* ---- transfer.c: moved between the tiers while others compute */
void lls_transfer_place(struct lls_instance *); /* of the plan, in the transaction */
void lls_transfer_start(struct lls_instance *, struct lls_live *); /* committed */
void lls_transfer_ended(struct lls_instance *); /* with the engine's step */

/* ---- commit.c */
void lls_instance_commit(struct lls_instance *, const struct lls_engine_result *,
                         int64_t started_ns);

/* ---- invariants.c: nothing without --enable-checks */
void lls_instance_check(const struct lls_instance *); /* [step] between two steps */

#endif
