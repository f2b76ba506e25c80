/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenising, and refusing what leaves no room for an answer; see prompt.h. */
#include "core/api/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/params.h"

/* `about` is "" or what the number of tokens is to be read with. */
static int too_long(const struct lls_api_config *config, const char *about,
                    size_t n_tokens, const char *param, struct lls_api_error *error)
{
  lls_api_fail(
      error, 400, "context_length_exceeded", param,
      "this model's context is %u tokens and the prompt has %s%zu; shorten it so "
      "that at least one token of answer fits",
      config->max_context, about, n_tokens);
  error->hopeless = true;
  return -1;
}

/* A prompt needs room in the context for itself and one token. */
static int check_length(const struct lls_api_config *config,
                        const struct lls_api_prompt *prompt, const char *param,
                        struct lls_api_error *error)
{
  if (prompt->n_tokens == 0)
    return lls_api_fail(error, 400, NULL, param, "'%s' must not be empty", param);
  if (prompt->n_tokens >= config->max_context)
    return too_long(config, "", prompt->n_tokens, param, error);
  return 0;
}

static int encode(const struct lls_api_config *config, const char *text, size_t length,
                  bool add_special, const char *param, struct lls_api_prompt *out,
                  struct lls_api_error *error)
{
  struct lls_error why;
  /* megabytes that can't fit are not tokenised */
  size_t least = length / lls_detokenizer_room(config->tokenizer);
  if (least >= config->max_context)
    return too_long(config, "at least ", least, param, error);
  out->text = malloc(length + 1);
  if (out->text == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  memcpy(out->text, text, length);
  out->text[length] = '\0';
  out->text_bytes = length;
  int status = lls_tokenizer_encode(config->tokenizer, text, length, add_special,
                                    &out->tokens, &out->n_tokens, &why);
  if (status != 0)
    return lls_api_fail(error, 500, NULL, param, "'%s' can't be tokenised: %s", param,
                        lls_error_text(&why, status));
  return check_length(config, out, param, error);
}

/* What token ids stand for, as a text would have been written: without what encoding puts
 * before it. Predictors read it. */
static int decode(const struct lls_api_config *config, struct lls_api_prompt *prompt,
                  struct lls_api_error *error)
{
  struct lls_text text = {0};
  bool begins = prompt->tokens[0] == lls_tokenizer_bos(config->tokenizer);
  lls_api_decode(config, prompt->tokens + begins, prompt->n_tokens - begins, false,
                 &text);
  prompt->text = text.data;
  prompt->text_bytes = text.length;
  return text.failed ? lls_api_fail(error, 503, NULL, NULL, "out of memory") : 0;
}

static int read_one(const struct lls_api_config *config, const json_t *value,
                    bool add_special, struct lls_api_prompt *out,
                    struct lls_api_error *error)
{
  if (json_is_string(value))
    return encode(config, json_string_value(value), json_string_length(value),
                  add_special, "prompt", out, error);
  if (!json_is_array(value))
    return lls_api_fail(error, 400, NULL, "prompt",
                        "'prompt' must be a string, an array of token ids, or an array "
                        "of these");
  if (lls_json_token_ids(value, "prompt", config->vocab, &out->tokens, &out->n_tokens,
                         error) != 0)
    return -1;
  out->from_ids = true;
  int status = check_length(config, out, "prompt", error);
  return status == 0 ? decode(config, out, error) : status;
}

/* An array that begins with a number is one prompt. */
static bool is_one_prompt(const json_t *value)
{
  return !json_is_array(value) || json_array_size(value) == 0 ||
         json_is_number(json_array_get(value, 0));
}

int lls_prompts_read(const struct lls_api_config *config, const json_t *value,
                     bool add_special, struct lls_api_prompt_list *out,
                     struct lls_api_error *error)
{
  *out = (struct lls_api_prompt_list){0};
  if (value == NULL || json_is_null(value))
    return lls_api_fail(error, 400, NULL, "prompt", "'prompt' is missing");
  size_t count = is_one_prompt(value) ? 1 : json_array_size(value);
  if (count > config->limits.max_choices)
    return lls_api_fail(error, 400, NULL, "prompt",
                        "'prompt' has %zu items; at most %u are possible", count,
                        config->limits.max_choices);
  out->prompts = calloc(count, sizeof *out->prompts);
  if (out->prompts == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  for (; out->count < count; out->count++) {
    const json_t *item = is_one_prompt(value) ? value : json_array_get(value, out->count);
    if (read_one(config, item, add_special, &out->prompts[out->count], error) != 0) {
      out->count++;
      lls_prompts_free(out);
      return -1;
    }
  }
  return 0;
}

int lls_prompts_from_text(const struct lls_api_config *config, const char *text,
                          size_t length, bool add_special, const char *param,
                          struct lls_api_prompt_list *out, struct lls_api_error *error)
{
  out->count = 1;
  out->prompts = calloc(1, sizeof *out->prompts);
  if (out->prompts == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  int status = encode(config, text, length, add_special, param, out->prompts, error);
  if (status != 0)
    lls_prompts_free(out);
  return status;
}

void lls_prompts_free(struct lls_api_prompt_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    free(list->prompts[i].tokens);
    free(list->prompts[i].text);
  }
  free(list->prompts);
  *list = (struct lls_api_prompt_list){0};
}
