/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a grammar of the multiples of a number between two bounds, as decimal digits:
 * an automaton that keeps the remainder of the digits so far, and how they compare with
 * each bound.
 */
#ifndef LLS_GRAMMAR_DECIMAL_MULTIPLE_H
#define LLS_GRAMMAR_DECIMAL_MULTIPLE_H

#include "text/grammar/decimal_range.h"

#define LLS_DECIMAL_STATES 4000 /* one rule each */

struct lls_decimal_multiples {
  struct lls_decimal of, low, high; /* as in decimal_range.h; `low` and `high` may be
                                     * unset */
  bool integers;                    /* only multiples without a fraction */
};

/* Returns the node; or json->nothing. Returns false if the automaton has too many
 * states or memory runs out. Adds the number of states to *work. */
bool lls_decimal_multiples(struct lls_json_syntax *json,
                           const struct lls_decimal_multiples *m, unsigned *work,
                           uint32_t *node);

#endif
