/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jansson reads the text first. Only if it meets a wide number, one pass over a copy of
 * the text replaces all wide numbers, each in place and with as many bytes, so that lines
 * and columns stay right. A text without a wide number costs nothing more.
 */
#include "core/base/json_parse.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "core/base/text.h"

#define INT64_DIGITS  19  /* digits of 2^63 - 1 */
#define DOUBLE_DIGITS 17  /* enough to distinguish all doubles */
#define MOST_DIGITS   800 /* enough to decide which of two adjacent doubles is nearer */
#define LARGEST_POWER 309 /* the largest double is below 10^309 */
#define MOST_EXPONENT 1000000000
#define LARGEST_TEXT  "9e307"
#define SHORTEST_WIDE 5 /* bytes of 1e309 */

/* ---- one number ----------------------------------------------------------------- */

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static const char *pass_digits(const char *at, const char *end)
{
  while (at < end && is_digit(*at))
    at++;
  return at;
}

/* The value of a number is 0.DIGITS times 10^power. */
struct parts {
  const char *digits, *end; /* without leading zeros; may include a decimal point */
  int64_t power;
  bool negative, integer;
};

/* Reads an exponent with its sign; its size is limited. */
static int64_t read_exponent(const char *at, const char *end)
{
  bool negative = at < end && *at == '-';
  int64_t value = 0;
  for (at += at < end && !is_digit(*at); at < end; at++)
    if (value < MOST_EXPONENT)
      value = value * 10 + (*at - '0');
  return negative ? -value : value;
}

/* Splits a number into its parts. Returns its end, or NULL if it is not a JSON number. */
static const char *read_number(const char *at, const char *end, struct parts *p)
{
  p->negative = *at == '-';
  at += p->negative;
  const char *whole = at, *point = pass_digits(at, end);
  if (point == whole || (*whole == '0' && point - whole > 1))
    return NULL;
  const char *fraction_end = point;
  if (point < end && *point == '.' &&
      (fraction_end = pass_digits(point + 1, end)) == point + 1)
    return NULL;
  p->integer = fraction_end == point;
  p->digits = whole;
  p->end = fraction_end;
  while (p->digits < p->end && (*p->digits == '0' || *p->digits == '.'))
    p->digits++;
  p->power = p->digits <= point ? point - p->digits : point + 1 - p->digits;
  at = fraction_end;
  if (at == end || (*at != 'e' && *at != 'E'))
    return at;
  const char *exponent = ++at;
  at += at < end && (*at == '+' || *at == '-');
  const char *number_end = pass_digits(at, end);
  if (number_end == at)
    return NULL;
  p->integer = false;
  p->power += read_exponent(exponent, number_end);
  return number_end;
}

/* Returns the nearest double to the absolute value; infinity if it is too large. */
static double value_of(const struct parts *p)
{
  char text[MOST_DIGITS + 32];
  size_t n = 0;
  if (p->digits == p->end)
    return 0;
  if (p->power > LARGEST_POWER)
    return HUGE_VAL;
  for (const char *at = p->digits; at < p->end && n < MOST_DIGITS; at++)
    if (*at != '.')
      text[n++] = *at;
  /* without a decimal point, whose character depends on the locale */
  snprintf(text + n, sizeof text - n, "e%lld", (long long)(p->power - (int64_t)n));
  return strtod(text, NULL);
}

static bool is_wide(const struct parts *p)
{
  static const char most[] = "9223372036854775807", least[] = "9223372036854775808";
  if (!p->integer)
    return p->power >= LARGEST_POWER && isinf(value_of(p));
  if (p->power != INT64_DIGITS)
    return p->power > INT64_DIGITS;
  return memcmp(p->digits, p->negative ? least : most, INT64_DIGITS) > 0;
}

/* ---- all of a text -------------------------------------------------------------- */

/* Returns the byte after the string that begins at `at`. */
static const char *pass_string(const char *at, const char *end)
{
  for (at++; at < end && *at != '"'; at++)
    at += *at == '\\';
  return at < end ? at + 1 : end;
}

/* A number in a text. */
struct number {
  const char *text;
  size_t length;
  bool integer; /* without fraction and exponent */
};

/* Finds the next wide number, fills in `found` and `p`, and moves *at to the byte after
 * it. */
static bool next_wide(const char **at, const char *end, struct number *found,
                      struct parts *p)
{
  const char *after;
  while (*at < end) {
    if (**at == '"') {
      *at = pass_string(*at, end);
    } else if (!is_digit(**at) && **at != '-') {
      ++*at;
    } else if ((after = read_number(*at, end, p)) == NULL) {
      ++*at;
    } else {
      *found = (struct number){*at, (size_t)(after - *at), p->integer};
      *at = after;
      if (found->length >= SHORTEST_WIDE && is_wide(p))
        return true;
    }
  }
  return false;
}

/* Writes a real at `to` over a wide number of `length` bytes. */
static void write_real(char *to, size_t length, const struct parts *p)
{
  char text[40] = LARGEST_TEXT;
  double value = value_of(p);
  if (p->integer && value < LLS_JSON_LARGEST) {
    char scientific[40]; /* d.dddddddddddddddde+xx, with the locale's decimal point */
    snprintf(scientific, sizeof scientific, "%.*e", DOUBLE_DIGITS - 1, value);
    const char *mark = strchr(scientific, 'e');
    snprintf(text, sizeof text, "%c%.*se%d", scientific[0], DOUBLE_DIGITS - 1,
             mark - (DOUBLE_DIGITS - 1), atoi(mark + 1) - (DOUBLE_DIGITS - 1));
  }
  memset(to, ' ', length);
  *to = '-';
  memcpy(to + p->negative, text, strlen(text));
}

/* Returns a copy in which wide numbers are reals; NULL without memory. */
static char *narrow(const char *text, size_t length)
{
  char *copy = malloc(length);
  struct number wide;
  struct parts p;
  if (copy == NULL)
    return NULL;
  memcpy(copy, text, length);
  for (const char *at = text; next_wide(&at, text + length, &wide, &p);)
    write_real(copy + (wide.text - text), wide.length, &p);
  return copy;
}

/* Returns the length of the object or list at the beginning of the text. A text of many
 * values is so not copied whole for each of them. */
static size_t length_of_value(const char *text, size_t length)
{
  const char *at = text, *end = text + length;
  size_t depth = 0;
  while (at < end) {
    if (*at == '"') {
      at = pass_string(at, end);
      continue;
    }
    depth += *at == '{' || *at == '[';
    if ((*at == '}' || *at == ']') && (depth == 0 || --depth == 0))
      return (size_t)(at + 1 - text);
    at++;
  }
  return length;
}

json_t *lls_json_parse(const char *text, size_t length, size_t flags, json_error_t *why)
{
  json_error_t own;
  if (why == NULL)
    why = &own;
  json_t *json = json_loadb(text, length, flags, why);
  if (json != NULL || json_error_code(why) != json_error_numeric_overflow)
    return json;
  if ((flags & JSON_DISABLE_EOF_CHECK) != 0)
    length = length_of_value(text, length);
  char *copy = narrow(text, length);
  if (copy == NULL) {
    lls_json_note_shortage();
    return NULL;
  }
  json = json_loadb(copy, length, flags, why);
  free(copy);
  return json;
}

json_t *lls_json_parse_string(const char *text, size_t flags, json_error_t *why)
{
  return lls_json_parse(text != NULL ? text : "", text != NULL ? strlen(text) : 0, flags,
                        why);
}

/* ---- files ---------------------------------------------------------------------- */

json_t *lls_json_parse_stream(FILE *file, size_t flags, json_error_t *why)
{
  struct lls_text text = {0};
  char piece[1 << 16];
  for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
    lls_text_append(&text, piece, n);
  if (text.failed)
    lls_json_note_shortage();
  json_t *json = lls_json_parse(text.length > 0 ? text.data : "",
                                text.failed ? 0 : text.length, flags, why);
  lls_text_free(&text);
  return json;
}

json_t *lls_json_parse_file(const char *path, size_t flags, json_error_t *why)
{
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return json_load_file(path, flags, why);
  json_t *json = lls_json_parse_stream(file, flags, why);
  fclose(file);
  return json;
}
