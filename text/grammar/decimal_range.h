/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers between two bounds, as the digits that people write: without a sign, exponents
 * or zeros in front. A bound is the digits before its point and those behind it.
 */
#ifndef LLS_GRAMMAR_DECIMAL_RANGE_H
#define LLS_GRAMMAR_DECIMAL_RANGE_H

#include "text/grammar/json_syntax.h"

#include <stdbool.h>

#define LLS_DECIMAL_WHOLE    310 /* the digits of the largest double */
#define LLS_DECIMAL_FRACTION 340

struct lls_decimal {
  bool set;                                /* there is a bound */
  bool exclusive;                          /* it is no number of the range itself */
  char whole[LLS_DECIMAL_WHOLE + 2];       /* "0", or without zeros in front */
  char fraction[LLS_DECIMAL_FRACTION + 2]; /* without zeros at its end; mostly "" */
};

/* The absolute value of a number, exactly as JSON would write it. */
void lls_decimal_read(struct lls_decimal *decimal, double value, int64_t integer,
                      bool is_integer);
/* Changes a bound to the next whole number in it, upwards or downwards, and makes it
 * inclusive; downwards below 0: there is none, and the result is false. */
bool lls_decimal_round(struct lls_decimal *decimal, bool up);
/* < 0, 0 or > 0. */
int lls_decimal_compare(const struct lls_decimal *a, const struct lls_decimal *b);

/* Whole numbers from low to high, which are whole and inclusive; high may not be set. */
uint32_t lls_decimal_integers(struct lls_json_syntax *json, const struct lls_decimal *low,
                              const struct lls_decimal *high);
/* All numbers between them. */
uint32_t lls_decimal_numbers(struct lls_json_syntax *json, const struct lls_decimal *low,
                             const struct lls_decimal *high);

#endif
