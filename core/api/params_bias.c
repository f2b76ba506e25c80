/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads logit_bias: OpenAI's object of token ids and numbers, or llama.cpp's array of
 * pairs. In a pair a text stands for each of its tokens, and false for "never this
 * token".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"

#define MAX_BIAS 4096
#define NEVER    (-100.0)

static int bad_form(const char *name, struct lls_api_error *error)
{
  return lls_api_fail(error, 400, NULL, name,
                      "'%s' must be an object of at most %d token ids, or an array of "
                      "pairs of a token id or a text and its bias",
                      name, MAX_BIAS);
}

static int add(struct lls_api_params *out, int32_t token, double bias, const char *name,
               struct lls_api_error *error)
{
  if (out->n_bias == MAX_BIAS)
    return bad_form(name, error);
  out->bias[out->n_bias++] = (struct lls_logit_bias){token, (float)bias};
  return 0;
}

static bool read_bias(const json_t *value, double *out)
{
  *out = json_is_false(value) ? NEVER : json_number_value(value);
  return (json_is_number(value) || json_is_false(value)) && *out >= -100 && *out <= 100;
}

/* ---- an object ------------------------------------------------------------------- */

/* Reads a key of the object: a token id in decimal. */
static bool token_key(const char *key, uint32_t vocab, int32_t *id)
{
  char *end;
  errno = 0;
  long value = strtol(key, &end, 10);
  if (end == key || *end != '\0' || errno != 0 || value < 0 || value >= (long)vocab)
    return false;
  *id = (int32_t)value;
  return true;
}

/* Appends a wrong key to the list for the error message; "..." if the list is full. */
static void note(char *list, size_t size, const char *key)
{
  size_t used = strlen(list);
  if (used + strlen(key) + sizeof ", \"\", ..." > size)
    key = NULL;
  if (key != NULL)
    snprintf(list + used, size - used, "%s\"%s\"", used > 0 ? ", " : "", key);
  else if (used > 0 && strstr(list, "...") == NULL)
    snprintf(list + used, size - used, ", ...");
}

static int read_object(const json_t *value, const char *name,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error)
{
  const char *key;
  json_t *item;
  char wrong[160] = "";
  bool all = true;
  json_object_foreach((json_t *)value, key, item)
  {
    double bias;
    int32_t token;
    bool right = token_key(key, context->vocab, &token) && read_bias(item, &bias);
    if (!right)
      note(wrong, sizeof wrong, key);
    else if (add(out, token, bias, name, error) != 0)
      return -1;
    all = all && right;
  }
  if (all)
    return 0;
  return lls_api_fail(
      error, 400, NULL, name,
      "'%s' must map ids of the model's %u tokens, from 0, to numbers from -100 "
      "to 100; not so: %s",
      name, context->vocab, wrong[0] != '\0' ? wrong : "a key that is too long");
}

/* ---- an array -------------------------------------------------------------------- */

static int add_text(const json_t *text, double bias, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error)
{
  int32_t *ids;
  size_t count;
  if (json_string_length(text) > MAX_BIAS)
    return bad_form(name, error);
  int rc = lls_param_encode(json_string_value(text), json_string_length(text), name,
                            context, &ids, &count, error);
  if (rc != 0)
    return rc;
  for (size_t i = 0; i < count && rc == 0; i++)
    rc = add(out, ids[i], bias, name, error);
  free(ids);
  return rc;
}

static int read_pair(const json_t *pair, size_t index, const char *name,
                     const struct lls_params_context *context, struct lls_api_params *out,
                     struct lls_api_error *error)
{
  double bias;
  int32_t token;
  char shown[48];
  const json_t *what = json_array_get(pair, 0);
  if (json_array_size(pair) != 2 || !read_bias(json_array_get(pair, 1), &bias))
    return lls_api_fail(error, 400, NULL, name,
                        "'%s': item %zu must be a pair of a token id or a text and a "
                        "number from -100 to 100, not %s",
                        name, index, lls_json_excerpt(pair, shown, sizeof shown));
  if (json_is_string(what))
    return add_text(what, bias, name, context, out, error);
  if (lls_json_token_id(what, index, name, context->vocab, &token, error) != 0)
    return -1;
  return add(out, token, bias, name, error);
}

int lls_param_logit_bias(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error)
{
  size_t i;
  const json_t *pair;
  if (!json_is_object(value) && !json_is_array(value))
    return bad_form(name, error);
  out->bias = calloc(MAX_BIAS, sizeof *out->bias);
  if (out->bias == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  if (json_is_object(value))
    return read_object(value, name, context, out, error);
  json_array_foreach((json_t *)value, i, pair)
  {
    if (read_pair(pair, i, name, context, out, error) != 0)
      return -1;
  }
  return 0;
}
