/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers between bounds, and multiples. Bounds compare digits, so a bounded number has
 * no exponent, unless every number with such an exponent lies within the bounds. An
 * integer never has a fraction.
 */
#include "core/base/json_parse.h"
#include "text/grammar/decimal_multiple.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_compile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LISTED 1024 /* multiples listed one by one */
/* from this value on core/base/json_parse.h rounds integers */
#define WIDE            0x1p63
#define STATES_PER_STEP 16 /* states of an automaton that count as one step of work */

struct bound {
  const json_t *value; /* NULL: no bound */
  bool exclusive;
};

struct range {
  struct bound low, high;
  const json_t *multiple; /* NULL: no multipleOf */
};

static int compare(const json_t *a, const json_t *b)
{
  if (json_is_integer(a) && json_is_integer(b)) {
    json_int_t x = json_integer_value(a), y = json_integer_value(b);
    return x < y ? -1 : x > y;
  }
  double x = json_number_value(a), y = json_number_value(b);
  return x < y ? -1 : x > y;
}

/* Keeps the narrower of two bounds. sign: 1 for lower bounds, -1 for upper ones. */
static void narrow(struct bound *bound, const json_t *value, bool exclusive, int sign)
{
  int order = bound->value == NULL ? 1 : sign * compare(value, bound->value);
  if (order > 0)
    *bound = (struct bound){value, exclusive};
  else if (order == 0)
    bound->exclusive |= exclusive;
}

/* Reads both keywords of a bound. `exclusive` is a bound itself; up to draft 4 it is a
 * boolean that makes `inclusive` exclusive. */
static bool read_bound(struct lls_schema *s, const json_t *schema, const char *inclusive,
                       const char *exclusive, int sign, struct bound *bound)
{
  const json_t *value = json_object_get(schema, inclusive);
  const json_t *other = json_object_get(schema, exclusive);
  if ((value != NULL && !json_is_number(value)) ||
      (other != NULL && !json_is_number(other) && !json_is_boolean(other)))
    return !lls_schema_fail(s, schema, "'%s' and '%s' must be numbers", inclusive,
                            exclusive);
  if (value != NULL)
    narrow(bound, value, json_is_true(other), sign);
  if (json_is_number(other))
    narrow(bound, other, true, sign);
  return true;
}

static bool read_range(struct lls_schema *s, const struct lls_schema_set *set,
                       struct range *range)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *schema = set->members[i].schema;
    const json_t *multiple = json_object_get(schema, "multipleOf");
    if (!read_bound(s, schema, "minimum", "exclusiveMinimum", 1, &range->low) ||
        !read_bound(s, schema, "maximum", "exclusiveMaximum", -1, &range->high))
      return false;
    if (multiple == NULL)
      continue;
    if (!json_is_number(multiple) || !(json_number_value(multiple) > 0))
      return !lls_schema_fail(s, schema, "'multipleOf' must be a number above 0");
    if (json_is_real(multiple) && json_real_value(multiple) >= WIDE)
      return !lls_schema_fail(s, schema,
                              "'multipleOf' of 2^63 or more is not supported, since its "
                              "digits are not kept");
    if (range->multiple != NULL && compare(range->multiple, multiple) != 0 &&
        !lls_schema_leave_out(s, schema, "multipleOf", "beside another one"))
      return false;
    range->multiple = multiple;
  }
  return true;
}

/* ---- signs ---- */

struct kind {
  bool integers;
  const json_t *multiple; /* NULL: no multipleOf */
};

static struct lls_decimal decimal_of(const struct bound *bound)
{
  struct lls_decimal decimal = {.whole = "0"};
  if (bound->value != NULL)
    lls_decimal_read(&decimal, json_number_value(bound->value),
                     json_integer_value(bound->value), json_is_integer(bound->value));
  decimal.exclusive = bound->exclusive;
  return decimal;
}

/* Returns true for a real that core/base/json_parse.h may have rounded from an integer:
 * reals from 2^63 on; but above 1e22 not those that 15 digits identify, such as 1e25,
 * which people write with an exponent. */
static bool may_be_rounded(const json_t *value)
{
  double size = fabs(json_real_value(value));
  char text[32];
  snprintf(text, sizeof text, "%.15g", size);
  return json_is_real(value) && size >= WIDE &&
         (size <= 1e22 || strtod(text, NULL) != size);
}

/* Converts a bound on absolute values. A bound beyond WIDE may have been rounded either
 * way by half the distance to the next double, so it moves inwards to that double: no
 * number outside of the original bound is allowed. */
static struct lls_decimal bound_of(const struct bound *bound, bool low)
{
  struct lls_decimal decimal = decimal_of(bound);
  double size = fabs(json_number_value(bound->value));
  if (may_be_rounded(bound->value))
    lls_decimal_read(&decimal, nextafter(size, low ? HUGE_VAL : 0), 0, false);
  return decimal;
}

static int sign_of(const struct bound *bound)
{
  double value = json_number_value(bound->value);
  return value < 0 ? -1 : value > 0;
}

/* The multiples of one sign; LLS_GRAMMAR_NONE if they would take too many states. */
static uint32_t multiples_of_one_sign(struct lls_schema *s,
                                      struct lls_decimal_multiples *m, bool negative)
{
  uint32_t node = LLS_GRAMMAR_NONE;
  unsigned states = 0;
  if (!m->low.set && negative) /* 0 is not written with a sign */
    m->low = (struct lls_decimal){.set = true, .exclusive = true, .whole = "0"};
  bool made = lls_decimal_multiples(&s->json, m, &states, &node);
  *s->work += states / STATES_PER_STEP;
  return made ? node : LLS_GRAMMAR_NONE;
}

/* The numbers of one sign, whose absolute values lie between near and far. */
static uint32_t one_sign(struct lls_schema *s, struct bound near, struct bound far,
                         const struct kind *kind, bool negative)
{
  if (fabs(json_number_value(near.value)) == LLS_JSON_LARGEST)
    return s->json.nothing; /* the bound exceeds every double */
  struct lls_decimal low = bound_of(&near, true), high = bound_of(&far, false);
  bool integers = kind->integers;
  if (kind->multiple != NULL) {
    struct lls_decimal_multiples m = {decimal_of(&(struct bound){kind->multiple, false}),
                                      low, high, integers};
    return multiples_of_one_sign(s, &m, negative);
  }
  if (!integers)
    return lls_decimal_numbers(&s->json, &low, &high);
  if (low.set)
    lls_decimal_round(&low, true);
  else if (negative) /* 0 is not written with a sign */
    low = (struct lls_decimal){.set = true, .whole = "1"};
  if (high.set && !lls_decimal_round(&high, false))
    return s->json.nothing;
  return lls_decimal_integers(&s->json, &low, &high);
}

static uint32_t of_both_signs(struct lls_schema *s, const struct range *range,
                              const struct kind *kind)
{
  static const struct bound none = {NULL, false};
  struct bound low = range->low, high = range->high;
  uint32_t ways[2] = {s->json.nothing, s->json.nothing};
  if (low.value != NULL && high.value != NULL && compare(low.value, high.value) > 0)
    return s->json.nothing;
  bool has_positive = high.value == NULL || sign_of(&high) > 0 ||
                      (sign_of(&high) == 0 && !high.exclusive);
  if (has_positive)
    ways[0] = one_sign(s, low.value != NULL && sign_of(&low) >= 0 ? low : none, high,
                       kind, false);
  if (low.value == NULL || sign_of(&low) < 0) {
    uint32_t size = one_sign(s, high.value != NULL && sign_of(&high) <= 0 ? high : none,
                             low, kind, true);
    ways[1] = size == LLS_GRAMMAR_NONE
                  ? size
                  : LLS_JSON_ROW(&s->json, lls_json_bytes(&s->json, "-"), size);
  }
  return ways[0] == LLS_GRAMMAR_NONE || ways[1] == LLS_GRAMMAR_NONE
             ? LLS_GRAMMAR_NONE
             : lls_json_one_of(&s->json, ways, 2);
}

static uint32_t between(struct lls_schema *s, const struct range *range, bool integers)
{
  return of_both_signs(s, range, &(struct kind){integers, NULL});
}

/* ---- exponents ---- */

/* Python writes an exponent below 1e-4 and from 1e16 on, JavaScript below 1e-6 and from
 * 1e21 on. Numbers with the first expression are less than SMALL, and no double of them
 * is 0; those with the second are at least LARGE, and no double of them is infinite. */
#define DIGITS "(?:\\.[0-9]+)?[Ee]"
#define BELOW_SMALL                                                                      \
  "[1-9]" DIGITS                                                                         \
  "-(?:0?[4-9]|[1-9][0-9]|[12][0-9][0-9]|3[01][0-9]|32[0-3])|[3-9]" DIGITS "-324"
#define LARGE_OR_ABOVE "[1-9]" DIGITS "\\+?(?:1[5-9]|[2-9][0-9]|[12][0-9][0-9]|30[0-7])"
#define SMALL          1e-3
#define LARGE          1e15

static uint32_t expression(struct lls_schema *s, const char *text)
{
  struct lls_error err = {0};
  int code;
  return lls_grammar_regex(s->json.tree, text, strlen(text), (struct lls_regex_use){0},
                           &code, &err);
}

/* The numbers of one sign with an exponent; the bounds are those of the absolute
 * values. */
static uint32_t exponents(struct lls_schema *s, const struct bound *low, double low_value,
                          const struct bound *high, double high_value)
{
  uint32_t ways[2], n = 0;
  if ((low->value == NULL || low_value <= 0) &&
      (high->value == NULL || high_value >= SMALL))
    ways[n++] = expression(s, BELOW_SMALL);
  if ((low->value == NULL || low_value < LARGE) && high->value == NULL)
    ways[n++] = expression(s, LARGE_OR_ABOVE);
  return lls_json_one_of(&s->json, ways, n);
}

static uint32_t with_exponents(struct lls_schema *s, const struct range *range,
                               uint32_t without)
{
  const struct bound *low = &range->low, *high = &range->high;
  double from = json_number_value(low->value), to = json_number_value(high->value);
  uint32_t minus = lls_json_bytes(&s->json, "-");
  uint32_t ways[] = {without, exponents(s, low, from, high, to),
                     LLS_JSON_ROW(&s->json, minus, exponents(s, high, -to, low, -from))};
  return lls_json_one_of(&s->json, ways, 3);
}

/* ---- multiples ---- */

/* Lists the integer multiples between two bounds. Returns false if there are too many. */
static bool list_multiples(struct lls_schema *s, const struct range *range, int64_t of,
                           uint32_t *node)
{
  uint32_t listed[MOST_LISTED], n = 0;
  if (range->low.value == NULL || range->high.value == NULL)
    return false;
  double low = json_number_value(range->low.value);
  double high = json_number_value(range->high.value);
  if (fabs(low) > 0x1p52 || fabs(high) > 0x1p52 ||
      (high - low) / (double)of > MOST_LISTED - 2)
    return false;
  for (int64_t value = (int64_t)ceil(low / (double)of) * of; (double)value <= high;
       value += of) {
    char text[24];
    if ((range->low.exclusive && (double)value <= low) ||
        (range->high.exclusive && (double)value >= high))
      continue;
    snprintf(text, sizeof text, "%lld", (long long)value);
    listed[n++] = lls_json_bytes(&s->json, text);
  }
  *node = lls_json_one_of(&s->json, listed, n);
  return true;
}

/* Builds the multiples of a divisor of a power of ten, by their last digits. */
static bool by_last_digits(struct lls_schema *s, const struct range *range, int64_t of,
                           uint32_t *node)
{
  struct lls_json_syntax *json = &s->json;
  uint32_t shorter[1001], endings[1001], n_shorter = 0, n_endings = 0;
  int64_t power = 1;
  int digits = 0;
  for (; power % of != 0 && digits < 3; power *= 10)
    digits++;
  bool natural = range->low.value != NULL && json_number_value(range->low.value) == 0 &&
                 !range->low.exclusive;
  if (power % of != 0 || range->high.value != NULL ||
      (range->low.value != NULL && !natural))
    return false;
  for (int64_t value = 0; value < power; value += of) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    shorter[n_shorter++] = lls_json_bytes(json, text);
    snprintf(text, sizeof text, "%03u", (unsigned)value);
    endings[n_endings++] = lls_json_bytes(json, text + 3 - digits);
  }
  uint32_t above_0 =
      lls_grammar_class(json->tree, (struct lls_grammar_range[]){{'1', '9'}}, 1);
  uint32_t ways[] = {lls_json_one_of(json, shorter, n_shorter),
                     LLS_JSON_ROW(json, above_0, json->digits,
                                  lls_json_one_of(json, endings, n_endings))};
  *node = lls_json_one_of(json, ways, 2);
  if (!natural)
    *node = LLS_JSON_ROW(json, lls_json_maybe(json, lls_json_bytes(json, "-")), *node);
  return true;
}

static uint32_t multiples(struct lls_schema *s, const struct lls_schema_set *set,
                          const struct range *range, bool integers)
{
  double of = json_number_value(range->multiple);
  uint32_t node = LLS_GRAMMAR_NONE;
  if (of == floor(of) && of < 0x1p52) {
    if (of == 1)
      return between(s, range, true);
    if (list_multiples(s, range, (int64_t)of, &node) ||
        by_last_digits(s, range, (int64_t)of, &node))
      return node;
  }
  node = of_both_signs(s, range, &(struct kind){integers, range->multiple});
  if (node != LLS_GRAMMAR_NONE)
    return node;
  if (!lls_schema_leave_out(s, set->members[0].schema, "multipleOf",
                            "with this value beside these bounds"))
    return LLS_GRAMMAR_NONE;
  return between(s, range, integers);
}

/* The numbers that are not integers: with a point, and a last digit other than 0. */
static uint32_t fractions(struct lls_schema *s, const struct lls_schema_set *set,
                          const struct range *range)
{
  struct lls_json_syntax *json = &s->json;
  if ((range->multiple != NULL || range->low.value != NULL ||
       range->high.value != NULL) &&
      !lls_schema_leave_out(s, set->members[0].schema, "not",
                            "of integers beside bounds"))
    return LLS_GRAMMAR_NONE;
  uint32_t last =
      lls_grammar_class(json->tree, (struct lls_grammar_range[]){{'1', '9'}}, 1);
  return LLS_JSON_ROW(json, json->integer, lls_json_bytes(json, "."), json->digits, last);
}

uint32_t lls_schema_number(struct lls_schema *s, const struct lls_schema_set *set,
                           unsigned types)
{
  struct range range = {0};
  bool integers = (types & LLS_SCHEMA_FRACTION) == 0;
  if (!read_range(s, set, &range))
    return LLS_GRAMMAR_NONE;
  if ((types & LLS_SCHEMA_INTEGER) == 0)
    return fractions(s, set, &range);
  if (range.multiple != NULL)
    return multiples(s, set, &range, integers);
  if (range.low.value != NULL || range.high.value != NULL)
    return integers ? between(s, &range, true)
                    : with_exponents(s, &range, between(s, &range, false));
  return integers ? s->json.integer : s->json.number;
}
