/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log probabilities in OpenAI's two formats: four parallel arrays for completions; one
 * object per token for chats, whose "bytes" can hold a token that is only a part of a
 * character.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/api/openai/wire.h"
#include "text/base/utf8.h"

#define LOWEST (-9999.0) /* stands for -infinity, which JSON lacks */

static double finite_logprob(float logprob)
{
  return isfinite(logprob) && (double)logprob > LOWEST ? (double)logprob : LOWEST;
}

/* Sets `out` to the token's text as valid UTF-8. */
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

/* Sets `out` to the token's text or, with vLLM's return_tokens_as_token_ids, to
 * "token_id:N", which distinguishes tokens of the same text. */
static void token_name(const struct lls_choice *choice, int32_t token,
                       struct lls_bytes *out)
{
  char name[32];
  if (!choice->generation->params.tokens_as_ids) {
    token_text(choice, token, out);
    return;
  }
  out->length = 0;
  lls_bytes_append(out, name, (size_t)snprintf(name, sizeof name, "token_id:%d", token));
}

static size_t characters_of(const char *text, size_t length)
{
  size_t count = 0;
  for (size_t i = 0; i < length; i++)
    count += ((unsigned char)text[i] & 0xc0) != 0x80;
  return count;
}

/* Returns how many characters of the answer's text a token has; 0 if the text omits
 * it. */
static size_t shown_characters(const struct lls_choice *choice, int32_t token,
                               struct lls_bytes *text)
{
  if (choice->generation->params.skip_special_tokens &&
      lls_tokenizer_is_special(choice->generation->api->config.tokenizer, token))
    return 0;
  token_text(choice, token, text);
  return characters_of(text->data, text->length);
}

static json_t *token_string(const struct lls_bytes *text)
{
  if (text->failed)
    return NULL;
  return json_stringn(text->length > 0 ? text->data : "", text->length);
}

/* ---- completions ---------------------------------------------------------------- */

static void set_logprob(json_t **top, struct lls_bytes *key, float logprob)
{
  lls_bytes_append(key, "", 1);
  lls_json_put(top, key->failed ? "" : key->data,
               key->failed ? NULL : json_real(finite_logprob(logprob)));
  key->length--;
}

/* Returns the alternatives and the sampled token, keyed by string; `text` keeps the
 * string of the sampled token. */
static json_t *top_by_string(const struct lls_choice *choice,
                             const struct lls_sampled *sampled, struct lls_bytes *text)
{
  json_t *top = json_object();
  const struct lls_api_params *params = &choice->generation->params;
  uint32_t most =
      params->n_logprob_ids > 0 ? LLS_MAX_LOGPROBS : (uint32_t)params->logprobs;
  for (uint32_t i = 0; i < sampled->n_top && i < most; i++) {
    token_name(choice, sampled->top_token[i], text);
    set_logprob(&top, text, sampled->top_logprob[i]);
  }
  token_name(choice, sampled->token, text);
  set_logprob(&top, text, sampled->logprob);
  return top;
}

struct arrays {
  json_t *tokens, *logprobs, *tops, *offsets;
};

static void add_token(struct arrays *to, const struct lls_choice *choice,
                      const struct lls_sampled *sampled, size_t offset,
                      struct lls_bytes *text)
{
  lls_json_add(&to->tops, top_by_string(choice, sampled, text));
  lls_json_add(&to->tokens, token_string(text));
  lls_json_add(&to->logprobs, json_real(finite_logprob(sampled->logprob)));
  lls_json_add(&to->offsets, json_integer((json_int_t)offset));
}

/* Adds the first token of a prompt, which has no probability, since no token precedes
 * it. */
static void add_first(struct arrays *to, const struct lls_choice *choice,
                      struct lls_bytes *text)
{
  token_name(choice, choice->prompt->tokens[0], text);
  lls_json_add(&to->tops, json_null());
  lls_json_add(&to->tokens, token_string(text));
  lls_json_add(&to->logprobs, json_null());
  lls_json_add(&to->offsets, json_integer(0));
}

static bool reports_prompt(const struct lls_choice *choice)
{
  return choice->generation->params.echo && !choice->begun && choice->scores != NULL;
}

/* Returns the number of characters of the prompt as echo_prompt of generation.c shows
 * it, without tokens that encoding added before the text. Appends the offset of each
 * token to `to` unless that is NULL. */
static size_t echoed(const struct lls_choice *choice, struct arrays *to,
                     struct lls_bytes *text)
{
  const struct lls_tokenizer *tokenizer = choice->generation->api->config.tokenizer;
  const struct lls_api_prompt *prompt = choice->prompt;
  struct lls_detokenizer detokenizer;
  struct lls_text piece = {0};
  size_t offset = 0;
  if (!lls_text_reserve(&piece, lls_detokenizer_room(tokenizer))) {
    choice->generation->incomplete = true;
    return 0;
  }
  lls_detokenizer_init(&detokenizer, tokenizer, false, false);
  for (size_t i = 0; i < prompt->n_tokens; i++) {
    if (to != NULL && i == 0)
      add_first(to, choice, text);
    else if (to != NULL)
      add_token(to, choice, &choice->scores[i], offset, text);
    if (i < prompt->n_added)
      continue;
    size_t n = lls_detokenizer_push(&detokenizer, prompt->tokens[i], piece.data);
    offset += characters_of(piece.data, n);
  }
  lls_text_free(&piece);
  return offset;
}

json_t *lls_wire_completion_logprobs(const struct lls_choice *choice)
{
  if (choice->generation->params.logprobs == LLS_UNSET)
    return json_null();
  struct lls_bytes text = {0};
  struct arrays a = {json_array(), json_array(), json_array(), json_array()};
  size_t offset = choice->text_offset;
  if (reports_prompt(choice))
    offset += echoed(choice, &a, &text);
  for (uint32_t i = 0; i < choice->n_unreported; i++) {
    add_token(&a, choice, &choice->tokens[i], offset, &text);
    offset += shown_characters(choice, choice->tokens[i].token, &text);
  }
  lls_bytes_free(&text);
  return json_pack("{s:o, s:o, s:o, s:o}", "tokens", a.tokens, "token_logprobs",
                   a.logprobs, "top_logprobs", a.tops, "text_offset", a.offsets);
}

/* ---- prompts -------------------------------------------------------------------- */

static void add_entry(json_t **entries, const struct lls_choice *choice, int32_t token,
                      float logprob, uint32_t rank, struct lls_bytes *text)
{
  char key[16];
  snprintf(key, sizeof key, "%d", token);
  token_text(choice, token, text);
  lls_json_put(entries, key,
               json_pack("{s:f, s:I, s:o}", "logprob", finite_logprob(logprob), "rank",
                         (json_int_t)rank, "decoded_token", token_string(text)));
}

/* Returns the entry of a prompt token: the token and its most likely alternatives. */
static json_t *prompt_entry(const struct lls_choice *choice, const struct lls_sampled *s,
                            struct lls_bytes *text)
{
  json_t *entries = json_object();
  uint32_t most = (uint32_t)choice->generation->params.prompt_logprobs;
  add_entry(&entries, choice, s->token, s->logprob, s->rank, text);
  for (uint32_t i = 0; i < s->n_top && i < most; i++)
    if (s->top_token[i] != s->token)
      add_entry(&entries, choice, s->top_token[i], s->top_logprob[i], i + 1, text);
  return entries;
}

json_t *lls_wire_prompt_logprobs(const struct lls_choice *choice)
{
  struct lls_bytes text = {0};
  if (choice->scores == NULL || choice->generation->params.prompt_logprobs == LLS_UNSET)
    return json_null();
  json_t *list = json_array();
  lls_json_add(&list, json_null());
  for (size_t i = 1; i < choice->prompt->n_tokens; i++)
    lls_json_add(&list, prompt_entry(choice, &choice->scores[i], &text));
  lls_bytes_free(&text);
  return list;
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
    lls_json_add(&numbers, json_integer((unsigned char)bytes[i]));
  token_name(choice, token, text);
  return json_pack("{s:o, s:f, s:o}", "token", token_string(text), "logprob",
                   finite_logprob(logprob), "bytes", numbers);
}

/* Returns true if logprob_token_ids named the alternatives, and not the sampled token. */
static bool lacks_sampled(const struct lls_choice *choice, const struct lls_sampled *s)
{
  for (uint32_t k = 0; k < s->n_top; k++)
    if (s->top_token[k] == s->token)
      return false;
  return choice->generation->params.n_logprob_ids > 0;
}

/* Returns a sampled token with its alternatives; as in vLLM, it is one of those that
 * logprob_token_ids names. */
static json_t *chat_token(const struct lls_choice *choice, const struct lls_sampled *s,
                          struct lls_bytes *text)
{
  json_t *token = one_token(choice, s->token, s->logprob, text), *top = json_array();
  for (uint32_t k = 0; k < s->n_top; k++)
    lls_json_add(&top, one_token(choice, s->top_token[k], s->top_logprob[k], text));
  if (lacks_sampled(choice, s))
    lls_json_add(&top, one_token(choice, s->token, s->logprob, text));
  lls_json_put(&token, "top_logprobs", top);
  return token;
}

json_t *lls_wire_chat_token(const struct lls_choice *choice,
                            const struct lls_sampled *sampled)
{
  struct lls_bytes text = {0};
  json_t *token = chat_token(choice, sampled, &text);
  lls_bytes_free(&text);
  return token;
}

json_t *lls_wire_chat_logprobs(const struct lls_choice *choice)
{
  if (choice->generation->params.logprobs == LLS_UNSET)
    return json_null();
  struct lls_bytes text = {0};
  json_t *content = json_array();
  for (uint32_t i = 0; i < choice->n_unreported; i++)
    lls_json_add(&content, chat_token(choice, &choice->tokens[i], &text));
  lls_bytes_free(&text);
  return json_pack("{s:o, s:n}", "content", content, "refusal");
}

size_t lls_wire_logprobs_characters(const struct lls_choice *choice)
{
  struct lls_bytes text = {0};
  size_t count = 0;
  if (choice->generation->params.logprobs == LLS_UNSET)
    return 0;
  if (reports_prompt(choice))
    count = echoed(choice, NULL, &text);
  for (uint32_t i = 0; i < choice->n_unreported; i++)
    count += shown_characters(choice, choice->tokens[i].token, &text);
  choice->generation->incomplete |= text.failed;
  lls_bytes_free(&text);
  return count;
}
