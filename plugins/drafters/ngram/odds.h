/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the token behind a match of m tokens is the right one, learnt from all
 * answers, whether or not a step verified the guess:
 *
 *   odds(m) = (hits(m) + W prior(m)) / (tries(m) + W)     prior(m) = 1 - 2 / (m + 2)
 *
 * Earlier tries count less: hits and tries are halved when tries(m) reaches KEPT. A
 * request has a factor on top, since texts differ (code repeats itself, a talk does
 * not): (right + C) / (expected + C), of its own first guesses.
 */
#ifndef NGRAM_ODDS_H
#define NGRAM_ODDS_H

#include <stdbool.h>
#include <stdint.h>

#define ODDS_LENGTHS                                                                     \
  32 /* lengths of matches, the last one stands for all longer ones                      \
      */

struct odds {
  float hits[ODDS_LENGTHS + 1], tries[ODDS_LENGTHS + 1];
};

/* The factor of a request. */
struct own_odds {
  float right, expected;
};

double odds_of(const struct odds *, const struct own_odds *, uint32_t match);
/* Returns false if these cannot be what was learnt. */
bool odds_are_sound(const struct odds *);
/* Counts a guess behind a match; `first`: of the guesses made together. */
void odds_note(struct odds *, struct own_odds *, uint32_t match, bool hit, bool first);

#endif
