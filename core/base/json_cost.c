/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the text that counts values by their first letter; see json_cost.h. */
#include "core/base/json_cost.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json_parse.h"

/* Bytes that jansson 2.14 allocates on a 64-bit machine, rounded up as malloc does. */
#define ARRAY_BYTES  (48 + 80)
#define OBJECT_BYTES (112 + 160)
/* for each member, in addition to its name: the pair and its buckets */
#define MEMBER_BYTES 32
#define STRING_BYTES (48 + 24) /* without its text */
#define PLACE_BYTES  16 /* for each element of an array: its table doubles when full */
#define NUMBER_BYTES 32

#define DEPTH_MAX    2048 /* deepest nesting that jansson parses */
#define FREE_NUMBERS ((size_t)1100000)
#define FREE_BYTES   ((size_t)16 << 20)
#define TIMES        5

/* Returns the quote that ends the string, or the end of the text. */
static const char *skip_string(const char *at, const char *end)
{
  while (at < end && *at != '"')
    at += *at == '\\' && at + 1 < end ? 2 : 1;
  return at;
}

/* Returns the last character of the number. */
static const char *skip_number(const char *at, const char *end)
{
  while (at + 1 < end && at[1] != '\0' && strchr("0123456789.eE+-", at[1]) != NULL)
    at++;
  return at;
}

/* Counts the value or sign that begins at `at`. Returns its last character. */
static const char *count_one(struct lls_json_cost *cost, const char *at, const char *end)
{
  const char *last = at;
  switch (*at) {
  case '"':
    last = skip_string(at + 1, end);
    cost->bytes += STRING_BYTES + (size_t)(last - at);
    break;
  case '[':
    cost->bytes += ARRAY_BYTES;
    break;
  case '{':
    cost->bytes += OBJECT_BYTES;
    break;
  case ':':
    cost->bytes += MEMBER_BYTES;
    break;
  case ',':
    cost->bytes += PLACE_BYTES;
    break;
  default:
    if (*at == '-' || (*at >= '0' && *at <= '9')) {
      last = skip_number(at, end);
      cost->numbers++;
    }
  }
  return last;
}

void lls_json_count(struct lls_json_cost *cost, const char *text, size_t length)
{
  const char *end = text + length;
  size_t depth = 0;
  for (const char *at = text; at < end && depth <= DEPTH_MAX; at++) {
    if (*at == '[' || *at == '{')
      depth++;
    else if ((*at == ']' || *at == '}') && depth > 0)
      depth--;
    at = count_one(cost, at, end);
  }
  cost->length += length;
}

bool lls_json_is_costly(const struct lls_json_cost *cost)
{
  size_t n = cost->numbers > FREE_NUMBERS ? cost->numbers - FREE_NUMBERS : 0;
  return cost->bytes + n * NUMBER_BYTES > FREE_BYTES + TIMES * cost->length;
}

size_t lls_json_cost_bytes(const struct lls_json_cost *cost)
{
  return cost->bytes + cost->numbers * NUMBER_BYTES;
}

/* Sets the reason and the code, which jansson keeps in the last byte of the text. */
static void set_reason(json_error_t *why, const struct lls_json_cost *cost)
{
  *why = (json_error_t){.line = -1, .column = -1};
  snprintf(why->text, sizeof why->text - 1,
           "it has so many small values that they would take %zu MiB of memory, which is "
           "more than five times the length of the text",
           lls_json_cost_bytes(cost) >> 20);
  why->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
}

json_t *lls_json_load(const char *text, size_t length, size_t flags, json_error_t *why)
{
  struct lls_json_cost cost = {0};
  lls_json_count(&cost, text, length);
  if (!lls_json_is_costly(&cost))
    return lls_json_parse(text, length, flags, why);
  if (why != NULL)
    set_reason(why, &cost);
  return NULL;
}
