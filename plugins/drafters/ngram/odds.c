/* SPDX-License-Identifier: Apache-2.0 */
/* See odds.h. */
#include "odds.h"

#define W    8.0    /* tries that the prior is worth */
#define C    4.0f   /* guesses that the factor 1 is worth */
#define KEPT 512.0f /* tries of a length */
#define OWN  32.0f  /* guesses of a request */
#define MOST 0.98   /* of an answer that only repeats: it may end at any token */

static uint32_t row_of(uint32_t match)
{
  return match < ODDS_LENGTHS ? match : ODDS_LENGTHS;
}

/* Returns the odds that all requests together have taught. */
static double common(const struct odds *o, uint32_t match)
{
  uint32_t i = row_of(match);
  double prior = 1 - 2.0 / (i + 2);
  return ((double)o->hits[i] + W * prior) / ((double)o->tries[i] + W);
}

double odds_of(const struct odds *o, const struct own_odds *own, uint32_t match)
{
  double factor = (double)(own->right + C) / (double)(own->expected + C);
  double odds = common(o, match) * factor;
  return odds < MOST ? odds : MOST;
}

bool odds_are_sound(const struct odds *o)
{
  for (uint32_t i = 0; i <= ODDS_LENGTHS; i++)
    if (!(o->hits[i] >= 0 && o->hits[i] <= o->tries[i] && o->tries[i] < 1e6f))
      return false;
  return true;
}

void odds_note(struct odds *o, struct own_odds *own, uint32_t match, bool hit, bool first)
{
  uint32_t i = row_of(match);
  if (first) {
    own->expected += (float)common(o, match);
    own->right += hit;
  }
  if (own->expected >= OWN) {
    own->expected /= 2;
    own->right /= 2;
  }
  o->hits[i] += hit;
  o->tries[i] += 1;
  if (o->tries[i] >= KEPT) {
    o->hits[i] /= 2;
    o->tries[i] /= 2;
  }
}
