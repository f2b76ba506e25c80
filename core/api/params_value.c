/* SPDX-License-Identifier: Apache-2.0 */
/* Converts JSON values to parameters: flags, numbers in their range, token ids, and texts
 * as tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"
#include "text/tokenizer/tokenizer.h"

const char *lls_json_excerpt(const json_t *value, char *out, size_t size)
{
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII |
                                     JSON_REAL_PRECISION(15)); /* prints 0.1 as 0.1 */
  size_t length = text != NULL ? strlen(text) : 0;
  if (length < size)
    snprintf(out, size, "%s", text != NULL ? text : "?");
  else
    snprintf(out, size, "%.*s...", (int)size - 4, text);
  free(text);
  return out;
}

bool lls_json_integer(const json_t *value, int64_t *out)
{
  if (json_is_integer(value)) {
    *out = json_integer_value(value);
    return true;
  }
  double real = json_real_value(value);
  if (!json_is_real(value) || real != floor(real) || fabs(real) > 0x1p53)
    return false;
  *out = (int64_t)real;
  return true;
}

/* ---- token ids ------------------------------------------------------------------ */

int lls_json_token_id(const json_t *value, size_t index, const char *param,
                      uint32_t vocab, int32_t *out, struct lls_api_error *error)
{
  int64_t id;
  char shown[48];
  if (!lls_json_integer(value, &id) || id < 0 || id >= vocab)
    return lls_api_fail(error, 400, NULL, param,
                        "'%s' must hold token ids from 0 to %u; item %zu is %s%s", param,
                        vocab - 1, index, lls_json_excerpt(value, shown, sizeof shown),
                        json_is_integer(value) ? ", which is out of vocabulary" : "");
  *out = (int32_t)id;
  return 0;
}

int lls_json_token_ids(const json_t *array, const char *param, uint32_t vocab,
                       int32_t **ids, size_t *count, struct lls_api_error *error)
{
  size_t n = json_array_size(array);
  int32_t *out = malloc((n + 1) * sizeof *out);
  if (out == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  for (size_t i = 0; i < n; i++) {
    if (lls_json_token_id(json_array_get(array, i), i, param, vocab, &out[i], error) !=
        0) {
      free(out);
      return -1;
    }
  }
  *ids = out;
  *count = n;
  return 0;
}

/* ---- rows that are one value ------------------------------------------------------ */

int lls_row_expected(const char *what, const struct lls_row *row, const char *name,
                     const json_t *value, struct lls_api_error *error)
{
  char shown[48], range[64] = "";
  bool above = json_is_number(value) && json_number_value(value) > row->max;
  if (row->max >= INT32_MAX && row->min > INT32_MIN && !above)
    snprintf(range, sizeof range, " of at least %.15g", row->min);
  else if (row->max > row->min)
    snprintf(range, sizeof range, " from %.16g to %.16g", row->min, row->max);
  return lls_api_fail(error, 400, NULL, name, "'%s' must be %s%s, not %s", name, what,
                      range, lls_json_excerpt(value, shown, sizeof shown));
}

static bool in_range(const struct lls_row *row, double value)
{
  return value >= row->min && value <= row->max;
}

static int read_integer(const json_t *value, const struct lls_row *row, const char *name,
                        void *member, struct lls_api_error *error)
{
  int64_t number;
  bool whole = lls_json_integer(value, &number);
  bool endless = whole && row->endless && number == -1;
  if (endless)
    number = LLS_ENDLESS;
  if (!endless && (!whole || !in_range(row, (double)number)))
    return lls_row_expected("an integer", row, name, value, error);
  *(int64_t *)member = number;
  return 0;
}

static int read_number(const json_t *value, const struct lls_row *row, const char *name,
                       void *member, struct lls_api_error *error)
{
  double number = json_number_value(value);
  if (!json_is_number(value) || !in_range(row, number))
    return lls_row_expected("a number", row, name, value, error);
  if (row->type == LLS_ROW_MILLISECONDS)
    *(int64_t *)member = (int64_t)(number * 1e6);
  else
    *(double *)member = number;
  return 0;
}

static int read_boolean(const json_t *value, const struct lls_row *row, const char *name,
                        void *member, struct lls_api_error *error)
{
  if (!json_is_boolean(value))
    return lls_row_expected("true or false", row, name, value, error);
  *(bool *)member = json_is_true(value);
  return 0;
}

int lls_row_read(const json_t *value, const struct lls_row *row, const char *name,
                 struct lls_api_params *out, struct lls_api_error *error)
{
  void *member = (char *)out + row->offset;
  if (row->type == LLS_ROW_BOOLEAN)
    return read_boolean(value, row, name, member, error);
  if (row->type == LLS_ROW_INTEGER)
    return read_integer(value, row, name, member, error);
  return read_number(value, row, name, member, error);
}

int lls_param_encode(const char *text, size_t length, const char *name,
                     const struct lls_params_context *context, int32_t **ids,
                     size_t *count, struct lls_api_error *error)
{
  struct lls_error why = {0};
  int rc =
      lls_tokenizer_encode(context->tokenizer, text, length, false, ids, count, &why);
  if (rc < 0)
    return lls_api_fail(error, 500, NULL, name, "'%s' can't be tokenised: %s", name,
                        lls_error_text(&why, rc));
  return 0;
}
