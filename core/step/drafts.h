/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses of a request's next tokens (drafts), which a step verifies: the engine draws a
 * token after the request's last token and after each guess, with the seed, the index,
 * the history and the mask that the draw would have if the guesses before it were the
 * text. As long as a drawn token equals the guess at its position, the guess becomes
 * text; the first other token that is drawn is the last one of the step. So a text is the
 * same with guesses and without them, whatever they are.
 *
 * A step verifies no guesses of requests whose draw changes what later draws depend on:
 * mirostat, and DRY, which remembers how much of the text it has read.
 */
#ifndef LLS_STEP_DRAFTS_H
#define LLS_STEP_DRAFTS_H

#include <stdint.h>

struct lls_engine;
struct lls_engine_sequence;
struct lls_instance;
struct lls_live;
struct lls_step_drafts;

/* Allocates, before the first step, what steps with guesses need; nothing if the engine
 * verifies none. Returns 0 or -ENOMEM. */
int lls_drafts_init(struct lls_step_drafts *, const struct lls_engine *);
void lls_drafts_free(struct lls_step_drafts *);

/* ---- [step] a request's guesses */
/* Returns how many guesses the request may have: at most what the engine verifies of a
 * sequence, and one less than the tokens that it may still generate. */
uint32_t lls_drafts_room(const struct lls_instance *, const struct lls_live *);
/* Replaces the request's guesses by the n tokens, up to the first that is outside the
 * vocabulary and as many as it has room for. odds (n): of acceptance, cut to 0..1; NULL
 * or not a number: 0.5. */
void lls_drafts_offer(struct lls_instance *, struct lls_live *, uint32_t n,
                      const int32_t *tokens, const float *odds);
void lls_drafts_clear(struct lls_instance *, struct lls_live *);

/* ---- [step] the parts of a step */
/* Adds the reserved guesses (run_drafts) to a sequence of the batch that draws a token,
 * up to the first that its grammar does not allow. */
void lls_drafts_add(struct lls_instance *, struct lls_live *,
                    struct lls_engine_sequence *);
/* Fills the grammar's masks of all draws but the first one, which has its mask. Draws
 * whose mask takes much work are not used. Returns the units spent. */
uint64_t lls_drafts_fill_masks(struct lls_instance *, struct lls_live *,
                               struct lls_engine_sequence *);

#endif
