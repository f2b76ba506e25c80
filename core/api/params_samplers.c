/* SPDX-License-Identifier: Apache-2.0 */
/* Reads llama.cpp's order of samplers ("samplers") and DRY's sequence breakers, and
 * refuses samplers that the device lacks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"
#include "text/tokenizer/tokenizer.h"

#define BREAKERS    "dry_sequence_breakers"
#define MOST        32    /* breakers of a request */
#define MOST_BYTES  40    /* in a breaker's text */
#define MOST_TAIL   20    /* tokens of a breaker's rest */
#define MOST_TOKENS 65536 /* in all token sequences of a request's breakers */

/* ---- the order --------------------------------------------------------------------- */

enum place { PENALTIES = LLS_FILTERS, DRY };

/* llama.cpp's names and letters. */
static const struct {
  const char *name, *other;
  char letter;
  uint8_t place;
} places[] = {
    {"penalties", "penalties", 'e', PENALTIES},
    {"dry", "dry", 'd', DRY},
    {"top_n_sigma", "top-n-sigma", 's', LLS_FILTER_TOP_N_SIGMA},
    {"top_k", "top-k", 'k', LLS_FILTER_TOP_K},
    {"typ_p", "typical_p", 'y', LLS_FILTER_TYPICAL_P},
    {"top_p", "top-p", 'p', LLS_FILTER_TOP_P},
    {"min_p", "min-p", 'm', LLS_FILTER_MIN_P},
    {"xtc", "xtc", 'x', LLS_FILTER_XTC},
    {"temperature", "temp", 't', LLS_FILTER_TEMPERATURE},
};
#define N_PLACES (sizeof places / sizeof *places)

/* Takes the sampler at `row` of places into the order; a second mention is no more. */
static void put_place(size_t row, struct lls_api_params *out)
{
  uint8_t place = places[row].place;
  if (place == PENALTIES)
    out->without_penalties = false;
  else if (place == DRY)
    out->without_dry = false;
  else if (memchr(out->order, place, out->n_order) == NULL)
    out->order[out->n_order++] = place;
}

/* Returns the row of a name or, with `letter`, of a letter; N_PLACES if there is none. */
static size_t find_place(const char *name, char letter)
{
  size_t i = 0;
  while (i < N_PLACES && (name != NULL ? strcmp(name, places[i].name) != 0 &&
                                             strcmp(name, places[i].other) != 0
                                       : letter != places[i].letter))
    i++;
  return i;
}

static int no_sampler(const char *name, const char *given, struct lls_api_error *error)
{
  return lls_api_fail(error, 400, NULL, name,
                      "'%s' has \"%.32s\", which is no sampler: penalties, dry, "
                      "top_n_sigma, top_k, typ_p, top_p, min_p, xtc and temperature are",
                      name, given);
}

int lls_param_samplers(const json_t *value, const char *name,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error)
{
  size_t i;
  const json_t *item;
  (void)context;
  if (!json_is_array(value) && !json_is_string(value))
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be an array of strings, or a string of letters", name);
  if (lls_param_asks_nothing(value)) /* as if absent: no client means no sampler at all */
    return 0;
  out->has_order = out->without_penalties = out->without_dry = true;
  for (const char *at = json_string_value(value); at != NULL && *at != '\0'; at++) {
    size_t row = find_place(NULL, *at);
    if (row == N_PLACES)
      return no_sampler(name, (char[]){*at, '\0'}, error);
    put_place(row, out);
  }
  json_array_foreach((json_t *)value, i, item)
  {
    const char *text = json_is_string(item) ? json_string_value(item) : "?";
    size_t row = find_place(text, '\0');
    if (row == N_PLACES)
      return no_sampler(name, text, error);
    put_place(row, out);
  }
  return 0;
}

/* ---- breakers ---------------------------------------------------------------------- */

int lls_param_breakers(const json_t *value, const char *name,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error)
{
  size_t i, n = json_array_size(value);
  const json_t *item;
  (void)context;
  (void)out;
  bool right = json_is_array(value) && n <= MOST;
  json_array_foreach((json_t *)value, i, item)
  {
    size_t bytes = json_string_length(item);
    right = right && bytes > 0 && bytes <= MOST_BYTES;
  }
  return right ? 0
               : lls_api_fail(error, 400, NULL, name,
                              "'%s' must be an array of at most %d strings of 1 to %d "
                              "bytes",
                              name, MOST, MOST_BYTES);
}

/* A breaker, and the tokens of its rests: a token that ends like the breaker begins is
 * the head of a sequence, and the rest is its tail. */
struct breaker {
  const char *text;
  size_t n;
  int32_t *rest[MOST_BYTES]; /* by the bytes before it; NULL: not made yet */
  size_t n_rest[MOST_BYTES];
};

static int out_of_memory(struct lls_api_error *error)
{
  return lls_api_fail(error, 503, NULL, NULL, "out of memory");
}

/* Appends the sequence of a head and the breaker's rest behind its first `used` bytes. */
static int put_sequence(int32_t head, struct breaker *b, size_t used,
                        const struct lls_params_context *context,
                        struct lls_dry_breakers *out, struct lls_api_error *error)
{
  if (b->rest[used] == NULL &&
      lls_param_encode(b->text + used, b->n - used, BREAKERS, context, &b->rest[used],
                       &b->n_rest[used], error) != 0)
    return -1;
  size_t n = b->n_rest[used] < MOST_TAIL ? b->n_rest[used] : MOST_TAIL;
  if (out->sequences == NULL)
    out->sequences = malloc(MOST_TOKENS * sizeof *out->sequences);
  if (out->sequences == NULL)
    return out_of_memory(error);
  if (out->n_sequences + n + 2 > MOST_TOKENS)
    return lls_api_fail(error, 400, NULL, BREAKERS,
                        "the texts of '" BREAKERS "' begin at the end of too many "
                        "tokens: leave some out");
  int32_t *at = out->sequences + out->n_sequences;
  at[0] = (int32_t)n + 1;
  at[1] = head;
  memcpy(at + 2, b->rest[used], n * sizeof *at);
  out->n_sequences += (uint32_t)n + 2;
  return 0;
}

/* Marks the token if it has the breaker in it; appends a sequence if it ends like the
 * breaker begins. */
static int try_token(int32_t token, struct breaker *b,
                     const struct lls_params_context *context,
                     struct lls_dry_breakers *out, struct lls_api_error *error)
{
  size_t n, used = 0;
  const char *bytes = lls_tokenizer_token_bytes(context->tokenizer, token, &n);
  if (bytes == NULL || lls_tokenizer_is_special(context->tokenizer, token))
    return 0;
  for (size_t at = 0; at < n; at++) {
    size_t common = n - at < b->n ? n - at : b->n;
    if (memcmp(bytes + at, b->text, common) != 0)
      continue;
    if (common == b->n) {
      out->tokens[token / 32] |= UINT32_C(1) << (token % 32);
      return 0;
    }
    if (used == 0) /* the longest of its ends */
      used = common;
  }
  return used > 0 ? put_sequence(token, b, used, context, out, error) : 0;
}

static int put_breaker(const char *text, size_t n,
                       const struct lls_params_context *context,
                       struct lls_dry_breakers *out, struct lls_api_error *error)
{
  struct breaker b = {.text = text, .n = n};
  size_t size = lls_tokenizer_size(context->tokenizer);
  int rc = 0;
  size = size < context->vocab ? size : context->vocab;
  for (size_t i = 0; rc == 0 && i < size; i++)
    rc = try_token((int32_t)i, &b, context, out, error);
  for (size_t i = 0; i < MOST_BYTES; i++)
    free(b.rest[i]);
  return rc;
}

static int set_breakers(const json_t *given, const struct lls_params_context *context,
                        struct lls_dry_breakers *out, struct lls_api_error *error)
{
  static const char *const usual[] = {"\n", ":", "\"", "*"};
  size_t i;
  int rc = 0;
  const json_t *item;
  out->tokens = calloc(lls_mask_words(context->vocab), sizeof *out->tokens);
  if (out->tokens == NULL)
    return out_of_memory(error);
  json_array_foreach((json_t *)given, i, item)
  {
    if (rc == 0)
      rc = put_breaker(json_string_value(item), json_string_length(item), context, out,
                       error);
  }
  bool none = given == NULL || json_is_null(given);
  for (i = 0; none && rc == 0 && i < sizeof usual / sizeof *usual; i++)
    rc = put_breaker(usual[i], 1, context, out, error);
  return rc;
}

/* ---- all together ------------------------------------------------------------------ */

/* Refuses the first parameter of those that need the chain of filters. */
static int refuse_chain(const json_t *body, struct lls_api_error *error)
{
  static const char *const names[] = {
      "mirostat",    "mirostat_mode", "xtc_probability", "dynatemp_range",
      "top_n_sigma", "typical_p",     "samplers",        "post_sampling_probs"};
  size_t i = 0;
  while (i + 1 < sizeof names / sizeof *names &&
         lls_param_asks_nothing(json_object_get(body, names[i])))
    i++;
  return lls_api_fail(error, 400, "unsupported_parameter", names[i],
                      "'%s' is not supported by this server's device: [engine] device = "
                      "cpu has this sampler",
                      names[i]);
}

int lls_params_check_samplers(const json_t *body,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error)
{
  const struct lls_sampling sampling = lls_api_params_sampling(out);
  if (context->few_samplers && lls_sampling_is_chain(&sampling))
    return refuse_chain(body, error);
  if (!(lls_api_params_dry(out).multiplier > 0))
    return 0;
  return set_breakers(json_object_get(body, BREAKERS), context, &out->dry_breakers,
                      error);
}
