/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multiples of a number between two bounds, as the digits that people write: an automaton
 * that has the remainder of the digits so far, and how they compare with each bound's.
 */
#ifndef LLS_GRAMMAR_DECIMAL_MULTIPLE_H
#define LLS_GRAMMAR_DECIMAL_MULTIPLE_H

#include "text/grammar/decimal_range.h"

#define LLS_DECIMAL_STATES 4000 /* a rule each */

struct lls_decimal_multiples {
  struct lls_decimal of, low, high; /* as decimal_range.h's; a bound may not be set */
  bool integers;                    /* they have no fraction */
};

/* The node, or json->nothing. False: it would have too many states, or no memory. Adds
 * to *work, in states. */
bool lls_decimal_multiples(struct lls_json_syntax *json,
                           const struct lls_decimal_multiples *m, unsigned *work,
                           uint32_t *node);

#endif
