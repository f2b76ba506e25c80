/* SPDX-License-Identifier: Apache-2.0 */
/* Reads vLLM's allowed_token_ids and bad_words: the only tokens that an answer may have,
 * and words that it must not have. core/instance/lists.c enforces both. */
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"
#include "core/instance/lists.h"

/* each word is compared with the answer's end before each draw */
#define MAX_BAD_WORDS  256
#define MAX_WORD_BYTES 256

static int out_of_memory(struct lls_api_error *error)
{
  return lls_api_fail(error, 503, NULL, NULL, "out of memory");
}

int lls_param_allowed_token_ids(const json_t *value, const char *name,
                                const struct lls_params_context *context,
                                struct lls_api_params *out, struct lls_api_error *error)
{
  size_t i;
  int32_t token;
  const json_t *item;
  if (json_array_size(value) == 0)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be an array of at least one token id", name);
  out->allowed = calloc(lls_mask_words(context->vocab), sizeof *out->allowed);
  if (out->allowed == NULL)
    return out_of_memory(error);
  json_array_foreach((json_t *)value, i, item)
  {
    if (lls_json_token_id(item, i, name, context->vocab, &token, error) != 0)
      return -1;
    out->allowed[token / 32] |= UINT32_C(1) << (token % 32);
  }
  return 0;
}

/* ---- bad words --------------------------------------------------------------------- */

/* The words read so far, consecutively: each is its number of tokens, then the tokens. */
struct words {
  int32_t *tokens; /* (n) in a buffer for the longest possible list */
  size_t n;
};

/* Each word may have two forms: at the beginning of a text, and after a blank. */
#define MOST_OF_A_WORD       (MAX_WORD_BYTES + 8)
#define MOST_TOKENS(n_words) ((n_words)*2 * (1 + MOST_OF_A_WORD))

/* Appends a word. Returns its number of tokens, or -1 and why. */
static int put_text(const char *text, size_t length, const char *name,
                    const struct lls_params_context *context, struct words *w,
                    struct lls_api_error *error)
{
  int32_t *ids;
  size_t count;
  if (lls_param_encode(text, length, name, context, &ids, &count, error) != 0)
    return -1;
  bool fits = count <= MOST_OF_A_WORD;
  if (fits && count > 0) {
    w->tokens[w->n] = (int32_t)count;
    memcpy(w->tokens + w->n + 1, ids, count * sizeof *ids);
    w->n += count + 1;
  }
  free(ids);
  return fits ? (int)count
              : lls_api_fail(error, 400, NULL, name,
                             "'%s' has a word of %zu tokens; at most %d are possible",
                             name, count, MOST_OF_A_WORD);
}

/* Appends a word in vLLM's two forms, without and with a blank before it. The second form
 * is kept only if it has as many tokens but another first token: the blank is then part
 * of the word's first token. */
static int put_word(const json_t *word, const char *name,
                    const struct lls_params_context *context, struct words *w,
                    struct lls_api_error *error)
{
  char behind[MAX_WORD_BYTES + 2] = " ";
  const char *text = json_string_value(word);
  text += strspn(text, " \t\r\n");
  strcpy(behind + 1, text);
  size_t first = w->n;
  int plain = put_text(text, strlen(text), name, context, w, error);
  if (plain <= 0)
    return plain;
  size_t second = w->n;
  int blank = put_text(behind, strlen(behind), name, context, w, error);
  if (blank < 0)
    return blank;
  if (blank != plain || w->tokens[first + 1] == w->tokens[second + 1])
    w->n = second;
  return 0;
}

static bool is_word(const json_t *word)
{
  const char *text = json_string_value(word);
  return text != NULL && strlen(text) == json_string_length(word) &&
         strlen(text) <= MAX_WORD_BYTES && text[strspn(text, " \t\r\n")] != '\0';
}

int lls_param_bad_words(const json_t *value, const char *name,
                        const struct lls_params_context *context,
                        struct lls_api_params *out, struct lls_api_error *error)
{
  size_t i, n = json_array_size(value);
  const json_t *word;
  char shown[48];
  if (!json_is_array(value) || n > MAX_BAD_WORDS)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be an array of at most %d strings", name,
                        MAX_BAD_WORDS);
  struct words w = {.tokens = malloc((MOST_TOKENS(n) + 1) * sizeof *w.tokens)};
  if (w.tokens == NULL)
    return out_of_memory(error);
  out->bad_words = w.tokens;
  json_array_foreach((json_t *)value, i, word)
  {
    if (!is_word(word))
      return lls_api_fail(error, 400, NULL, name,
                          "'%s': item %zu must be a text of at most %d bytes, not %s",
                          name, i, MAX_WORD_BYTES,
                          lls_json_excerpt(word, shown, sizeof shown));
    if (put_word(word, name, context, &w, error) < 0)
      return -1;
  }
  out->n_bad_words = w.n;
  int32_t *fitting = realloc(w.tokens, (w.n + 1) * sizeof *fitting);
  out->bad_words = fitting != NULL ? fitting : w.tokens;
  return 0;
}
