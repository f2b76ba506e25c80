/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that keep to a grammar: constraint.c, and how much of the work for their masks
 * is done when: mask_budget.c, mask_turns.c. Everything here is [step].
 */
#ifndef LLS_STEP_CONSTRAINT_H
#define LLS_STEP_CONSTRAINT_H

#include "core/instance/instance.h"

/* ---- constraint.c: answers that keep to a grammar */
/* -EINVAL where a grammar, if there is one, is for another vocabulary; or cannot wait for
 * its first mask, which takes long. */
int lls_constraint_check(const struct lls_grammar *, uint32_t vocabulary,
                         uint32_t prompt_tokens, struct lls_error *err);
/* Goes on with its mask, within so many units; how many it took. It is `whole`, or goes
 * on later. */
uint64_t lls_constraint_fill(struct lls_instance *, struct lls_live *, uint64_t work);
/* Leaves of the whole mask what the lists allow, once, before the token is drawn. */
void lls_constraint_cut(struct lls_instance *, struct lls_live *);
/* A drawn token: 0; or -errno where the answer cannot go on, which is logged and ends the
 * request. */
int lls_constraint_take(struct lls_instance *, struct lls_live *, int32_t token);
/* The answer is whole, and nothing can follow. */
bool lls_constraint_complete(const struct lls_instance *, const struct lls_live *);
/* Writes the tokens that alone can follow behind those of the request, as far as it may
 * have more, and takes them; how many. */
uint32_t lls_constraint_jump(struct lls_instance *, struct lls_live *);
/* True for a token that ends an answer and is none of its text. */
bool lls_constraint_hides(const struct lls_instance *, const struct lls_live *,
                          int32_t token);

/* ---- mask_budget.c: how much work for masks */
#define LLS_MASK_FREE 4000 /* units: some 40 us; 9 in 10 masks of schemas take 10 us */
/* Its last mask took few units, and so has this one. */
bool lls_masks_are_light(const struct lls_instance *, const struct lls_live *);
/* Takes off what was done for a request, and what no step has as yet from steps to come.
 */
void lls_masks_charge(struct lls_instance *, uint64_t *left, uint64_t took);
void lls_masks_owe(struct lls_instance *, uint64_t took); /* work that cannot wait */
/* The units of this step: no limit, or the limit less some of the debt. */
uint64_t lls_masks_begin(struct lls_instance *, bool beside_others);

/* ---- mask_turns.c: whose mask is made when */
/* A run that is placed waits for its mask, which is made in this step or later ones; true
 * if there is nothing of it to compute in this step. */
bool lls_masks_hold(struct lls_instance *, struct lls_live *);
void lls_masks_forget(struct lls_instance *, const struct lls_live *); /* it ends */
/* After the step: those that had no row stay as they were. */
void lls_masks_release(struct lls_instance *);
/* Before tokens are drawn, or without a step if all that could run is held; context: the
 * instance. */
void lls_masks_fill(void *context);

#endif
