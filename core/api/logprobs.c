/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log probabilities in their two shapes: four parallel arrays for completions, one object
 * a token for chats, where "bytes" carries a token that is half a character.
 */
#include <math.h>
#include <string.h>

#include "core/api/wire.h"
#include "core/tokenizer/utf8.h"

#define LOWEST (-9999.0) /* JSON has no infinity */

static double finite_logprob(float logprob)
{
  return isfinite(logprob) && (double)logprob > LOWEST ? (double)logprob : LOWEST;
}

/* What the token writes, as valid UTF-8 in out, which is emptied first. */
static void token_text(const struct lls_choice *choice, int32_t token,
                       struct lls_bytes *out)
{
  size_t length = 0;
  const char *bytes = lls_tokenizer_token_bytes(choice->generation->api->config.tokenizer,
                                                token, &length);
  out->length = 0;
  if (bytes != NULL)
    lls_utf8_repair(bytes, length, out);
}

static size_t characters(const struct lls_bytes *text)
{
  size_t count = 0;
  for (size_t i = 0; i < text->length; i++)
    count += ((unsigned char)text->data[i] & 0xc0) != 0x80;
  return count;
}

static json_t *token_string(const struct lls_bytes *text)
{
  return json_stringn(text->length > 0 ? text->data : "", text->length);
}

/* ---- completions ---------------------------------------------------------------- */

static void set_logprob(json_t *top, struct lls_bytes *key, float logprob)
{
  lls_bytes_append(key, "", 1);
  if (!key->failed)
    json_object_set_new(top, key->data, json_real(finite_logprob(logprob)));
  key->length--;
}

/* The alternatives and the token itself; its own string stays in text. */
static json_t *top_by_string(const struct lls_choice *choice,
                             const struct lls_sampled *sampled, struct lls_bytes *text)
{
  json_t *top = json_object();
  for (uint32_t i = 0; i < sampled->n_top; i++) {
    token_text(choice, sampled->top_token[i], text);
    set_logprob(top, text, sampled->top_logprob[i]);
  }
  token_text(choice, sampled->token, text);
  set_logprob(top, text, sampled->logprob);
  return top;
}

static json_t *completion_logprobs(const struct lls_choice *choice,
                                   struct lls_bytes *text)
{
  json_t *tokens = json_array(), *logprobs = json_array();
  json_t *tops = json_array(), *offsets = json_array();
  size_t offset = choice->text_offset;
  for (uint32_t i = 0; i < choice->n_unreported; i++) {
    const struct lls_sampled *sampled = &choice->tokens[i];
    json_array_append_new(tops, top_by_string(choice, sampled, text));
    json_array_append_new(tokens, token_string(text));
    json_array_append_new(logprobs, json_real(finite_logprob(sampled->logprob)));
    json_array_append_new(offsets, json_integer((json_int_t)offset));
    offset += characters(text);
  }
  return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs,
                   "top_logprobs", tops, "text_offset", offsets);
}

/* ---- chats ---------------------------------------------------------------------- */

static json_t *one_token(const struct lls_choice *choice, int32_t token, float logprob,
                         struct lls_bytes *text)
{
  size_t length = 0;
  const char *bytes = lls_tokenizer_token_bytes(choice->generation->api->config.tokenizer,
                                                token, &length);
  json_t *numbers = json_array();
  for (size_t i = 0; i < length; i++)
    json_array_append_new(numbers, json_integer((unsigned char)bytes[i]));
  token_text(choice, token, text);
  return json_pack("{s:o, s:f, s:o}", "token", token_string(text), "logprob",
                   finite_logprob(logprob), "bytes", numbers);
}

static json_t *chat_logprobs(const struct lls_choice *choice, struct lls_bytes *text)
{
  json_t *content = json_array();
  for (uint32_t i = 0; i < choice->n_unreported; i++) {
    const struct lls_sampled *sampled = &choice->tokens[i];
    json_t *token = one_token(choice, sampled->token, sampled->logprob, text);
    json_t *top = json_array();
    for (uint32_t k = 0; k < sampled->n_top; k++)
      json_array_append_new(
          top, one_token(choice, sampled->top_token[k], sampled->top_logprob[k], text));
    json_object_set_new(token, "top_logprobs", top);
    json_array_append_new(content, token);
  }
  return json_pack("{s:o, s:n}", "content", content, "refusal");
}

json_t *lls_wire_logprobs(const struct lls_choice *choice)
{
  struct lls_bytes text = {0};
  if (choice->generation->params.logprobs == LLS_UNSET)
    return json_null();
  json_t *logprobs = choice->generation->endpoint == LLS_CHAT
                         ? chat_logprobs(choice, &text)
                         : completion_logprobs(choice, &text);
  lls_bytes_free(&text);
  return logprobs;
}

size_t lls_wire_logprobs_characters(const struct lls_choice *choice)
{
  struct lls_bytes text = {0};
  size_t count = 0;
  if (choice->generation->params.logprobs == LLS_UNSET)
    return 0;
  for (uint32_t i = 0; i < choice->n_unreported; i++) {
    token_text(choice, choice->tokens[i].token, &text);
    count += characters(&text);
  }
  lls_bytes_free(&text);
  return count;
}
