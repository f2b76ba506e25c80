/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and draws lengths; see lengths.h. */
#include "tools/workload/lengths.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/grid.h"
#include "tools/workload/reader.h"

#define MAX_TERMS 16
#define MAX_TEXT  512
#define MAX_TRIES 1000 /* draws to hit A..B; after that the nearer bound is used */

enum kind { KIND_UNIFORM, KIND_LOGNORMAL, KIND_EXPONENTIAL, KIND_FILE };

struct term {
  enum kind kind;
  double weight;
  double a, b;      /* lognormal: mu and sigma; exponential: mean */
  double low, high; /* bounds of a draw; uniform: the whole distribution */
  uint32_t *values; /* (n) values of a file */
  size_t n;
};

struct lls_lengths {
  struct term terms[MAX_TERMS];
  unsigned n;
  double weight; /* sum of all terms' weights */
};

void lls_lengths_free(struct lls_lengths *lengths)
{
  if (lengths == NULL)
    return;
  for (unsigned i = 0; i < lengths->n; i++)
    free(lengths->terms[i].values);
  free(lengths);
}

/* ---- terms ------------------------------------------------------------------------- */

static int parse_bounds(const char *text, struct term *term)
{
  if (lls_range_parse(text, &term->low, &term->high) < 0)
    return -EINVAL;
  term->low = fmax(1, ceil(term->low));
  term->high = floor(term->high);
  return term->low <= term->high && term->high <= LLS_LENGTH_MAX ? 0 : -EINVAL;
}

/* Parses `count` numbers above 0, separated by commas, optionally followed by
 * ",A..B". */
static int parse_numbers(const char *text, double *numbers, int count, struct term *term)
{
  for (int i = 0; i < count; i++) {
    char *end;
    numbers[i] = strtod(text, &end);
    if (end == text || !(numbers[i] > 0) || numbers[i] > LLS_LENGTH_MAX)
      return -EINVAL;
    if (*end != '\0' && *end != ',')
      return -EINVAL;
    if (*end == '\0')
      return i < count - 1 ? -EINVAL : 0;
    text = end + 1;
  }
  return parse_bounds(text, term);
}

/* Converts mean and deviation of the lengths to those of their logarithms. */
static int parse_lognormal(const char *text, struct term *term)
{
  double numbers[2];
  if (parse_numbers(text, numbers, 2, term) < 0)
    return -EINVAL;
  double variance = log1p(numbers[1] * numbers[1] / (numbers[0] * numbers[0]));
  term->a = log(numbers[0]) - variance / 2;
  term->b = sqrt(variance);
  return 0;
}

static int parse_fixed(const char *text, struct term *term)
{
  double length;
  if (strchr(text, ',') != NULL || parse_numbers(text, &length, 1, term) < 0 ||
      length < 1 || length != floor(length))
    return -EINVAL;
  term->low = term->high = length;
  return 0;
}

static int parse_file(const char *text, struct term *term, struct lls_error *err)
{
  char path[MAX_TEXT];
  snprintf(path, sizeof path, "%s", text);
  char *colon = strrchr(path, ':');
  const char *column = "";
  if (colon != NULL) {
    *colon = '\0';
    column = colon + 1;
  }
  return lls_read_column(path, column, &term->values, &term->n, err);
}

static int parse_term(const char *text, struct term *term, struct lls_error *err)
{
  static const char *const names[] = {
      "fixed:", "uniform:", "lognormal:", "exponential:", "file:"};
  static const enum kind kinds[] = {KIND_UNIFORM, KIND_UNIFORM, KIND_LOGNORMAL,
                                    KIND_EXPONENTIAL, KIND_FILE};
  unsigned i = 0;
  while (i < 5 && strncmp(text, names[i], strlen(names[i])) != 0)
    i++;
  term->low = 1;
  term->high = LLS_LENGTH_MAX;
  if (i < 5) {
    term->kind = kinds[i];
    text += strlen(names[i]);
  }
  switch (i) {
  case 0:
    return parse_fixed(text, term);
  case 1:
    return parse_bounds(text, term);
  case 2:
    return parse_lognormal(text, term);
  case 3:
    return parse_numbers(text, &term->a, 1, term);
  case 4:
    return parse_file(text, term, err);
  default:
    return -EINVAL;
  }
}

/* ---- mixtures ---------------------------------------------------------------------- */

/* Reads a weight such as "0.7*" at text: returns its length, and sets *weight; returns
 * 0 if there is none. */
static size_t weight_at(const char *text, double *weight)
{
  char *end;
  *weight = strtod(text, &end);
  return end != text && *end == '*' && *weight > 0 && isfinite(*weight)
             ? (size_t)(end - text) + 1
             : 0;
}

/* Cuts the text after the first term, at a plus that is followed by a weight. */
static char *cut_term(char *text)
{
  double weight;
  for (char *plus = strchr(text, '+'); plus != NULL; plus = strchr(plus + 1, '+'))
    if (weight_at(plus + 1, &weight) > 0) {
      *plus = '\0';
      return plus + 1;
    }
  return NULL;
}

static int parse_terms(char *text, struct lls_lengths *lengths, struct lls_error *err)
{
  while (text != NULL) {
    if (lengths->n == MAX_TERMS)
      return -E2BIG;
    char *rest = cut_term(text);
    struct term *term = &lengths->terms[lengths->n++];
    size_t prefix = weight_at(text, &term->weight);
    if (prefix == 0) {
      if (rest != NULL || lengths->n > 1)
        return -EINVAL;
      term->weight = 1;
    }
    int rc = parse_term(text + prefix, term, err);
    if (rc < 0)
      return rc;
    lengths->weight += term->weight;
    text = rest;
  }
  return 0;
}

int lls_lengths_parse(const char *text, struct lls_lengths **out, struct lls_error *err)
{
  char copy[MAX_TEXT];
  struct lls_error why = {0};
  struct lls_lengths *lengths = calloc(1, sizeof *lengths);
  if (lengths == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a distribution");
  int length = snprintf(copy, sizeof copy, "%s", text);
  int rc = length < (int)sizeof copy ? parse_terms(copy, lengths, &why) : -E2BIG;
  if (rc == 0) {
    *out = lengths;
    return 0;
  }
  lls_lengths_free(lengths);
  if (why.text[0] != '\0')
    return lls_fail(err, rc, "%s", why.text);
  return lls_fail(err, rc,
                  "'%s': expected lengths like fixed:128, uniform:32..128, "
                  "lognormal:222,256, exponential:100, file:PATH:COLUMN or "
                  "0.7*uniform:1..999+0.3*uniform:1000..8000",
                  text);
}

/* ---- drawing ----------------------------------------------------------------------- */

static double draw_once(const struct term *term, struct lls_random *random)
{
  switch (term->kind) {
  case KIND_LOGNORMAL:
    return round(exp(term->a + term->b * lls_random_normal(random)));
  case KIND_EXPONENTIAL:
    return round(lls_random_gamma(random, 1, term->a));
  case KIND_FILE:
    return term->values[lls_random_below(random, term->n)];
  default:
    return term->low +
           (double)lls_random_below(random, (uint64_t)(term->high - term->low) + 1);
  }
}

static uint32_t draw(const struct term *term, struct lls_random *random)
{
  double value = 0;
  for (int i = 0; i < MAX_TRIES; i++) {
    value = draw_once(term, random);
    if (value >= term->low && value <= term->high)
      break;
  }
  return (uint32_t)fmin(fmax(value, term->low), term->high);
}

uint32_t lls_lengths_draw(const struct lls_lengths *lengths, struct lls_random *random)
{
  unsigned i = 0;
  if (lengths->n > 1) {
    double at = lls_random_uniform(random) * lengths->weight;
    while (i < lengths->n - 1 && at >= lengths->terms[i].weight)
      at -= lengths->terms[i++].weight;
  }
  return draw(&lengths->terms[i], random);
}
