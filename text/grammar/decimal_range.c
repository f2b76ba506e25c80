/* SPDX-License-Identifier: Apache-2.0 */
/* Digits between bounds: once a digit differs from a bound's digit, the digits after it
 * are free on that side. */
#include "text/grammar/decimal_range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bounds ---- */

static void cut_zeros(char *fraction)
{
  size_t n = strlen(fraction);
  while (n > 0 && fraction[n - 1] == '0')
    fraction[--n] = '\0';
}

void lls_decimal_read(struct lls_decimal *decimal, double value, int64_t integer,
                      bool is_integer)
{
  decimal->set = true;
  decimal->exclusive = false;
  decimal->fraction[0] = '\0';
  if (is_integer) {
    uint64_t size = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    snprintf(decimal->whole, sizeof decimal->whole, "%llu", (unsigned long long)size);
    return;
  }
  /* the fewest digits that identify this double */
  char text[LLS_DECIMAL_WHOLE + LLS_DECIMAL_FRACTION + 4];
  value = fabs(value);
  for (int digits = 0; digits <= LLS_DECIMAL_FRACTION; digits++) {
    snprintf(text, sizeof text, "%.*f", digits, value);
    if (strtod(text, NULL) == value)
      break;
  }
  size_t whole = strcspn(text, ".");
  snprintf(decimal->whole, sizeof decimal->whole, "%.*s", (int)whole, text);
  snprintf(decimal->fraction, sizeof decimal->fraction, "%s",
           text[whole] == '.' ? text + whole + 1 : "");
  cut_zeros(decimal->fraction);
}

static void add_one(char *whole)
{
  size_t n = strlen(whole), i = n;
  while (i > 0 && whole[i - 1] == '9')
    whole[--i] = '0';
  if (i > 0)
    whole[i - 1]++;
  else if (n < LLS_DECIMAL_WHOLE) {
    memmove(whole + 1, whole, n + 1);
    whole[0] = '1';
  }
}

static bool take_one(char *whole)
{
  size_t i = strlen(whole);
  if (strcmp(whole, "0") == 0)
    return false;
  while (whole[i - 1] == '0')
    whole[--i] = '9';
  whole[i - 1]--;
  if (whole[0] == '0' && whole[1] != '\0')
    memmove(whole, whole + 1, strlen(whole));
  return true;
}

bool lls_decimal_round(struct lls_decimal *decimal, bool up)
{
  bool there = true, between = decimal->fraction[0] != '\0';
  if (up && (between || decimal->exclusive))
    add_one(decimal->whole);
  else if (!up && !between && decimal->exclusive)
    there = take_one(decimal->whole);
  decimal->fraction[0] = '\0';
  decimal->exclusive = false;
  return there;
}

static int compare_whole(const char *a, const char *b)
{
  size_t n = strlen(a), m = strlen(b);
  return n != m ? (n < m ? -1 : 1) : strcmp(a, b);
}

/* Returns a number < 0, 0 or > 0, as memcmp. */
static int compare(const struct lls_decimal *a, const struct lls_decimal *b)
{
  int whole = compare_whole(a->whole, b->whole);
  return whole != 0 ? whole : strcmp(a->fraction, b->fraction);
}

/* ---- whole numbers ---- */

static uint32_t digits_between(struct lls_json_syntax *json, char first, char last)
{
  if (first > last)
    return json->nothing;
  return lls_grammar_class(
      json->tree, &(struct lls_grammar_range){(uint32_t)first, (uint32_t)last}, 1);
}

static uint32_t free_digits(struct lls_json_syntax *json, size_t n)
{
  return lls_grammar_repeat(json->tree, json->digit, (uint32_t)n, (uint32_t)n);
}

/* Numbers with as many digits as low and high have, between them; NULL: no bound on
 * that side. */
static uint32_t same_length(struct lls_json_syntax *json, const char *low,
                            const char *high, size_t n)
{
  if (n == 0)
    return json->empty;
  if (low == NULL && high == NULL)
    return free_digits(json, n);
  char from = low != NULL ? *low : '0', to = high != NULL ? *high : '9';
  const char *low_rest = low != NULL ? low + 1 : NULL;
  const char *high_rest = high != NULL ? high + 1 : NULL;
  if (low != NULL && high != NULL && from == to)
    return LLS_JSON_ROW(json, digits_between(json, from, to),
                        same_length(json, low_rest, high_rest, n - 1));
  uint32_t ways[3], n_ways = 0;
  if (low != NULL)
    ways[n_ways++] = LLS_JSON_ROW(json, digits_between(json, from, from),
                                  same_length(json, low_rest, NULL, n - 1));
  ways[n_ways++] = LLS_JSON_ROW(
      json,
      digits_between(json, (char)(from + (low != NULL)), (char)(to - (high != NULL))),
      free_digits(json, n - 1));
  if (high != NULL)
    ways[n_ways++] = LLS_JSON_ROW(json, digits_between(json, to, to),
                                  same_length(json, NULL, high_rest, n - 1));
  return lls_json_one_of(json, ways, n_ways);
}

/* All numbers of n to m digits; m = LLS_GRAMMAR_UNBOUNDED: up to the maximum of JSON
 * numbers. */
static uint32_t lengths_between(struct lls_json_syntax *json, size_t n, size_t m)
{
  if (n > m)
    return json->nothing;
  if (m == LLS_GRAMMAR_UNBOUNDED)
    m = n > LLS_JSON_DIGITS ? n : LLS_JSON_DIGITS;
  uint32_t most = (uint32_t)m - 1;
  return LLS_JSON_ROW(json, digits_between(json, '1', '9'),
                      lls_grammar_repeat(json->tree, json->digit, (uint32_t)n - 1, most));
}

uint32_t lls_decimal_integers(struct lls_json_syntax *json, const struct lls_decimal *low,
                              const struct lls_decimal *high)
{
  const char *from = low->set ? low->whole : "0";
  size_t n = strlen(from), m = high->set ? strlen(high->whole) : 0;
  if (high->set && compare_whole(from, high->whole) > 0)
    return json->nothing;
  if (high->set && n == m)
    return same_length(json, from, high->whole, n);
  static const char ones[] = "1";
  char least[LLS_DECIMAL_WHOLE + 2]; /* 10...0, with as many digits as high */
  memset(least, '0', sizeof least);
  least[0] = ones[0];
  uint32_t ways[] = {
      same_length(json, from, NULL, n),
      lengths_between(json, n + 1, high->set ? m - 1 : LLS_GRAMMAR_UNBOUNDED),
      high->set ? same_length(json, least, high->whole, m) : json->nothing,
  };
  return lls_json_one_of(json, ways, 3);
}

/* ---- fractions ---- */

/* The digits of a fraction between two bounds. */
struct fraction {
  struct lls_json_syntax *json;
  const char *low, *high; /* digits, or NULL: no bound on that side */
  bool low_exclusive, high_exclusive;
};

static char digit_at(const char *digits, size_t i)
{
  return digits != NULL && i < strlen(digits) ? digits[i] : '0';
}

static bool is_over(const char *digits, size_t i)
{
  return digits == NULL || i >= strlen(digits);
}

/* Returns true if the number may end, or have only zeros, from digit i on. low, high:
 * the digits so far equal that bound's. */
static bool may_end(const struct fraction *f, size_t i, bool low, bool high)
{
  return (!low || (is_over(f->low, i) && !f->low_exclusive)) &&
         (!high || !is_over(f->high, i) || !f->high_exclusive);
}

/* One digit or more from digit i on, where both bounds have only zeros left. */
static uint32_t after_bounds(const struct fraction *f, bool low, bool high)
{
  struct lls_json_syntax *json = f->json;
  uint32_t zero = lls_json_bytes(json, "0");
  if (high)
    return f->high_exclusive || (low && f->low_exclusive)
               ? json->nothing
               : lls_grammar_repeat(json->tree, zero, 1, LLS_JSON_DIGITS);
  if (!low || !f->low_exclusive)
    return LLS_JSON_ROW(json, json->digit, json->digits);
  return LLS_JSON_ROW(json, lls_grammar_repeat(json->tree, zero, 0, LLS_JSON_DIGITS),
                      digits_between(json, '1', '9'), json->digits);
}

/* One digit or more from digit i on. low, high: the digits before i equal that
 * bound's. */
static uint32_t fraction_from(const struct fraction *f, size_t i, bool low, bool high)
{
  struct lls_json_syntax *json = f->json;
  if (!low && !high)
    return LLS_JSON_ROW(json, json->digit, json->digits);
  if ((!low || is_over(f->low, i)) && (!high || is_over(f->high, i)))
    return after_bounds(f, low, high);
  char from = low ? digit_at(f->low, i) : '0', to = high ? digit_at(f->high, i) : '9';
  uint32_t ways[3], n = 0;
  for (int side = 0; side < 2; side++) { /* the digit equals the bound's digit */
    bool on_low = low && (side == 0 || from == to),
         on_high = high && (side == 1 || from == to);
    char digit = side == 0 ? from : to;
    if ((side == 0 ? !low : !high) || (side == 1 && low && from == to) || from > to)
      continue;
    uint32_t rest = fraction_from(f, i + 1, on_low, on_high);
    if (may_end(f, i + 1, on_low, on_high))
      rest = lls_json_maybe(json, rest);
    ways[n++] = LLS_JSON_ROW(json, digits_between(json, digit, digit), rest);
  }
  uint32_t free_ones = digits_between(json, (char)(from + low), (char)(to - high));
  ways[n++] = LLS_JSON_ROW(json, free_ones, json->digits);
  return lls_json_one_of(json, ways, n);
}

/* A point and digits, or nothing, after a whole number that equals a bound's. */
static uint32_t fraction(struct lls_json_syntax *json, const struct lls_decimal *low,
                         const struct lls_decimal *high)
{
  struct fraction f = {.json = json};
  if (low != NULL) {
    f.low = low->fraction;
    f.low_exclusive = low->exclusive;
  }
  if (high != NULL) {
    f.high = high->fraction;
    f.high_exclusive = high->exclusive;
  }
  uint32_t some = LLS_JSON_ROW(json, lls_json_bytes(json, "."),
                               fraction_from(&f, 0, low != NULL, high != NULL));
  return may_end(&f, 0, low != NULL, high != NULL) ? lls_json_maybe(json, some) : some;
}

uint32_t lls_decimal_numbers(struct lls_json_syntax *json, const struct lls_decimal *low,
                             const struct lls_decimal *high)
{
  static const struct lls_decimal zero = {.set = true, .whole = "0"};
  const struct lls_decimal *from = low->set ? low : &zero;
  if (high->set && compare_whole(from->whole, high->whole) > 0)
    return json->nothing;
  if (high->set && strcmp(from->whole, high->whole) == 0) {
    if (compare(from, high) > 0)
      return json->nothing;
    return LLS_JSON_ROW(json, lls_json_bytes(json, from->whole),
                        fraction(json, from, high));
  }
  struct lls_decimal above = *from, below = *high;
  add_one(above.whole);
  bool between = !high->set ||
                 (take_one(below.whole) && compare_whole(above.whole, below.whole) <= 0);
  uint32_t ways[] = {
      LLS_JSON_ROW(json, lls_json_bytes(json, from->whole), fraction(json, from, NULL)),
      between ? LLS_JSON_ROW(json, lls_decimal_integers(json, &above, &below),
                             fraction(json, NULL, NULL))
              : json->nothing,
      high->set ? LLS_JSON_ROW(json, lls_json_bytes(json, high->whole),
                               fraction(json, NULL, high))
                : json->nothing,
  };
  return lls_json_one_of(json, ways, 3);
}
