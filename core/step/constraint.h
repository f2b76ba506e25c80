/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that must match a grammar: constraint.c follows the answer, mask_budget.c
 * limits how much work a step spends on token masks, mask_turns.c chooses the requests
 * whose masks are filled. Everything here is [step].
 */
#ifndef LLS_STEP_CONSTRAINT_H
#define LLS_STEP_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

struct lls_error;
struct lls_grammar;
struct lls_grammar_state;
struct lls_instance;
struct lls_live;

/* ---- constraint.c: answers that keep to a grammar */
/* Returns -EINVAL if the grammar (NULL: none) is for another vocabulary, or if its first
 * mask takes long and a prompt of one token gives no chance to postpone the draw. */
int lls_constraint_check(const struct lls_grammar *, uint32_t vocabulary,
                         uint32_t prompt_tokens, struct lls_error *err);
/* Continues to fill the request's mask, with at most `work` units. Returns the units
 * spent. If the mask is then complete, constraint.whole is set; else a later call
 * continues. */
uint64_t lls_constraint_fill(struct lls_instance *, struct lls_live *, uint64_t work);
/* Removes from the complete mask the tokens that the request's lists forbid. Called once,
 * before the token is drawn. */
void lls_constraint_cut(struct lls_instance *, struct lls_live *);
/* Fills the mask of the draw after `ahead` guesses, less what the lists forbid. state:
 * the grammar's after them. Adds the units of work to *spent. Returns false if the mask
 * takes more than LLS_MASK_FREE, or allows no token. */
bool lls_constraint_fill_ahead(struct lls_instance *, const struct lls_live *,
                               struct lls_grammar_state *state, uint32_t ahead,
                               uint32_t *mask, uint64_t *spent);
/* Advances the grammar by a drawn token. Returns 0, or -errno if the answer cannot
 * continue: the failure is logged and the caller ends the request. */
int lls_constraint_take(struct lls_instance *, struct lls_live *, int32_t token);
/* Returns true if the answer is complete and no token can follow it. */
bool lls_constraint_complete(const struct lls_instance *, const struct lls_live *);
/* Appends the tokens that the grammar forces after the request's last token, up to
 * max_new_tokens, and advances the grammar by them. Returns how many. */
uint32_t lls_constraint_jump(struct lls_instance *, struct lls_live *);
/* Returns true for a token that ends an answer and has no text of its own. */
bool lls_constraint_hides(const struct lls_instance *, const struct lls_live *,
                          int32_t token);

/* ---- mask_budget.c: how much work for masks */
#define LLS_MASK_FREE 4000 /* units: some 40 us; 9 in 10 JSON schema masks take 10 us */
/* Returns true if the request's previous mask took few units and so has this one. */
bool lls_masks_are_light(const struct lls_instance *, const struct lls_live *);
/* Subtracts `took` units from *left. What exceeds *left is a debt, subtracted from the
 * budgets of later steps. */
void lls_masks_charge(struct lls_instance *, uint64_t *left, uint64_t took);
void lls_masks_owe(struct lls_instance *, uint64_t took); /* adds to the debt */
/* Returns the units of this step: unlimited, or the limit less the part of the debt that
 * it pays. beside_others: the step also computes requests with light masks or none. */
uint64_t lls_masks_begin(struct lls_instance *, bool beside_others);

/* ---- mask_turns.c: which masks are filled in which step */
/* Called for a run that has its place in the cache. If its mask needs much work the
 * request is held: its last token, from which the next one would be drawn, is not
 * computed in this step. Returns true if no token is left to compute. */
bool lls_masks_hold(struct lls_instance *, struct lls_live *);
/* called when the request ends */
void lls_masks_forget(struct lls_instance *, const struct lls_live *);
/* After the step: reports to the cache manager and the scheduler that held requests
 * without a row computed no token. */
void lls_masks_release(struct lls_instance *);
/* Fills masks: before tokens are drawn, or without a forward pass if all requests that
 * could run are held. context: the instance. */
void lls_masks_fill(void *context);

#endif
