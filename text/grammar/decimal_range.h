/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a grammar of the numbers between two bounds, in decimal digits without sign,
 * exponent or leading zeros. A bound is stored as the digits before its point and the
 * digits after it.
 */
#ifndef LLS_GRAMMAR_DECIMAL_RANGE_H
#define LLS_GRAMMAR_DECIMAL_RANGE_H

#include "text/grammar/json_syntax.h"

#include <stdbool.h>

#define LLS_DECIMAL_WHOLE    310 /* the digits of the largest double */
#define LLS_DECIMAL_FRACTION 340

struct lls_decimal {
  bool set;                                /* false: no bound */
  bool exclusive;                          /* the bound itself is outside of the range */
  char whole[LLS_DECIMAL_WHOLE + 2];       /* "0", or digits without leading zeros */
  char fraction[LLS_DECIMAL_FRACTION + 2]; /* digits without trailing zeros; usually "" */
};

/* Reads the absolute value of a number, with exactly the digits that JSON would write. */
void lls_decimal_read(struct lls_decimal *decimal, double value, int64_t integer,
                      bool is_integer);
/* Rounds a bound up or down to the next whole number inside the range, and makes it
 * inclusive. Returns false if rounding down gives a number below 0. */
bool lls_decimal_round(struct lls_decimal *decimal, bool up);

/* Whole numbers from low to high; both bounds must be whole and inclusive, and high may
 * be unset. */
uint32_t lls_decimal_integers(struct lls_json_syntax *json, const struct lls_decimal *low,
                              const struct lls_decimal *high);
/* All numbers between low and high. */
uint32_t lls_decimal_numbers(struct lls_json_syntax *json, const struct lls_decimal *low,
                             const struct lls_decimal *high);

#endif
