/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /tokenize and /detokenize, with the members of vLLM (in: "prompt" or "messages",
 * out: "prompt") and of llama.cpp (in: "content", without BOS unless "add_special" is
 * true, out: "content"; "with_pieces"); POST /apply-template, as in llama.cpp; GET
 * /tokenizer_info, as in vLLM.
 */
#include <stdlib.h>
#include <string.h>

#include "core/api/chat.h"
#include "core/api/api_params.h"
#include "core/api/plain_text.h"
#include "core/api/prompt.h"
#include "core/api/work.h"
#include "core/base/json_memory.h"

/* Most tokens of one request: sending a longer answer would block main too long. */
#define MAX_TOKENS (1 << 20)

/* One request to /tokenize. */
struct encoding {
  const struct lls_api_config *config;
  const json_t *body;
  struct lls_unknown_names *unknown;
  struct lls_api_params params;
  bool rendered; /* the text may have barriers (plain_text.h) */
  int32_t *ids;  /* (count) */
  size_t count;
};

static int encode(struct encoding *e, const char *text, size_t length, bool add_special,
                  struct lls_api_error *error)
{
  struct lls_error why = {0};
  if (length > LLS_MAX_TEXT)
    return lls_api_fail(error, 413, NULL, NULL,
                        "the text has %zu bytes; at most %d are tokenised at once",
                        length, LLS_MAX_TEXT);
  const struct lls_tokenizer *tokenizer = e->config->tokenizer;
  int status = e->rendered ? lls_plain_encode(tokenizer, text, length, add_special,
                                              &e->ids, &e->count, &why)
                           : lls_tokenizer_encode(tokenizer, text, length, add_special,
                                                  &e->ids, &e->count, &why);
  if (status == 0)
    return 0;
  return lls_api_fail(error, 500, NULL, NULL, "the text can't be tokenised: %s",
                      lls_error_text(&why, status));
}

static int encode_messages(struct encoding *e, struct lls_api_error *error)
{
  char *text;
  size_t length;
  if (lls_chat_render(e->config, e->body, &e->params, &text, &length, error) != 0)
    return -1;
  e->rendered = true;
  int status = encode(e, text, length, e->params.add_special_tokens, error);
  free(text);
  return status;
}

static int encode_text(struct encoding *e, struct lls_api_error *error)
{
  const json_t *prompt = json_object_get(e->body, "prompt");
  const json_t *content = json_object_get(e->body, "content");
  if (json_is_string(prompt) && content != NULL && !json_is_null(content))
    lls_unknown_add(e->unknown, "content");
  if (json_is_string(prompt))
    return encode(e, json_string_value(prompt), json_string_length(prompt),
                  e->params.add_special_tokens, error);
  if (json_is_string(content))
    return encode(e, json_string_value(content), json_string_length(content),
                  e->params.add_special, error);
  return lls_api_fail(error, 400, NULL, "prompt",
                      "'prompt' must be a string, or 'messages' an array");
}

static int encode_body(struct encoding *e, struct lls_api_error *error)
{
  bool chat = json_object_get(e->body, "messages") != NULL;
  if (lls_api_read_params(e->config, e->body, chat ? LLS_TOKENIZE_CHAT : LLS_TOKENIZE,
                          e->unknown, &e->params, error) != 0)
    return -1;
  int status = chat ? encode_messages(e, error) : encode_text(e, error);
  lls_api_params_free(&e->params);
  return status;
}

static json_t *token_strings(const struct encoding *e)
{
  json_t *strings = json_array();
  for (size_t i = 0; i < e->count; i++) {
    size_t length = 0;
    const char *text = lls_tokenizer_string(e->config->tokenizer, e->ids[i], &length);
    json_t *string = text != NULL ? json_stringn(text, length) : NULL;
    json_array_append_new(strings, string != NULL ? string : json_null());
  }
  return strings;
}

/* Returns the bytes of the token: as a string, or as numbers if they are not UTF-8. */
static json_t *piece(const struct lls_tokenizer *tokenizer, int32_t id)
{
  size_t length = 0;
  const char *bytes = lls_tokenizer_token_bytes(tokenizer, id, &length);
  json_t *text = json_stringn(bytes != NULL ? bytes : "", length);
  if (text != NULL)
    return text;
  json_t *numbers = json_array();
  for (size_t i = 0; i < length; i++)
    json_array_append_new(numbers, json_integer((unsigned char)bytes[i]));
  return numbers;
}

static json_t *tokens(const struct encoding *e)
{
  json_t *array = json_array();
  for (size_t i = 0; i < e->count; i++)
    json_array_append_new(array, e->params.with_pieces
                                     ? json_pack("{s:i, s:o}", "id", e->ids[i], "piece",
                                                 piece(e->config->tokenizer, e->ids[i]))
                                     : json_integer(e->ids[i]));
  return array;
}

/* Returns the answer of /tokenize, or NULL and why. */
static json_t *tokenized(const struct lls_api_config *config, const json_t *body,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  struct encoding e = {.config = config, .body = body, .unknown = unknown};
  json_t *answer = NULL;
  if (encode_body(&e, error) == 0)
    answer =
        json_pack("{s:I, s:I, s:o, s:o}", "count", (json_int_t)e.count, "max_model_len",
                  (json_int_t)config->max_context, "tokens", tokens(&e), "token_strs",
                  e.params.return_token_strs ? token_strings(&e) : json_null());
  free(e.ids);
  return answer;
}

static int decode_body(const struct lls_api_config *config, const json_t *body,
                       struct lls_unknown_names *unknown, struct lls_text *text,
                       struct lls_api_error *error)
{
  const json_t *tokens = json_object_get(body, "tokens");
  struct lls_api_params params;
  int32_t *ids;
  size_t count;
  if (lls_api_read_params(config, body, LLS_DETOKENIZE, unknown, &params, error) != 0)
    return -1;
  lls_api_params_free(&params);
  if (!json_is_array(tokens))
    return lls_api_fail(error, 400, NULL, "tokens",
                        "'tokens' must be an array of token ids");
  if (json_array_size(tokens) > MAX_TOKENS)
    return lls_api_fail(error, 413, NULL, "tokens",
                        "'tokens' has %zu ids; at most %d are turned into text at once",
                        json_array_size(tokens), MAX_TOKENS);
  if (lls_json_token_ids(tokens, "tokens", config->vocab, &ids, &count, error) != 0)
    return -1;
  lls_api_decode(config, ids, count, false, text);
  free(ids);
  return text->failed ? lls_api_fail(error, 503, NULL, NULL, "out of memory") : 0;
}

/* Returns the answer of /detokenize, or NULL and why. */
static json_t *detokenized(const struct lls_api_config *config, const json_t *body,
                           struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  struct lls_text text = {0};
  json_t *answer = NULL;
  if (decode_body(config, body, unknown, &text, error) == 0)
    answer = json_pack("{s:s%, s:s%}", "prompt", text.data, text.length, "content",
                       text.data, text.length);
  lls_text_free(&text);
  return answer;
}

/* ---- /apply-template --------------------------------------------------------------- */

/* Returns the prompt that a chat's template makes, or NULL and why. */
static json_t *templated(const struct lls_api_config *config, const json_t *body,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  struct lls_api_params params;
  char *text;
  size_t length;
  if (lls_api_read_params(config, body, LLS_CHAT, unknown, &params, error) != 0)
    return NULL;
  int status = lls_chat_render(config, body, &params, &text, &length, error);
  lls_api_params_free(&params);
  if (status != 0)
    return NULL;
  json_t *prompt = json_pack("{s:s%}", "prompt", text, lls_plain_strip(text, length));
  free(text);
  return prompt;
}

/* ---- work on a thread ------------------------------------------------------------ */

typedef json_t *translate_fn(const struct lls_api_config *config, const json_t *body,
                             struct lls_unknown_names *unknown,
                             struct lls_api_error *error);

struct translation {
  struct lls_work work;
  translate_fn *translate;
  struct lls_unknown_names unknown;
  char *answer; /* JSON; NULL on failure, described by: */
  struct lls_api_error error;
};

static void run(struct lls_work *work)
{
  struct translation *translation = (struct translation *)work;
  struct lls_api_error *error = &translation->error;
  uint64_t shortages = lls_json_shortages();
  json_t *body = lls_api_body(&work->body, error);
  json_t *json = body != NULL ? translation->translate(&work->config, body,
                                                       &translation->unknown, error)
                              : NULL;
  if (json != NULL && lls_json_shortages() == shortages)
    translation->answer = lls_json_text(json, JSON_COMPACT);
  if (translation->answer == NULL && (json != NULL || lls_json_shortages() != shortages))
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
  json_decref(json);
  json_decref(body);
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  const struct translation *translation = (const struct translation *)work;
  const char *text = translation->answer;
  lls_api_note_unknown(work->api, exchange, &translation->unknown);
  if (text != NULL)
    lls_http_reply(exchange, 200, "application/json", text, strlen(text));
  else
    lls_api_error_reply(exchange, &translation->error);
}

static void destroy(struct lls_work *work)
{
  struct translation *translation = (struct translation *)work;
  lls_unknown_free(&translation->unknown);
  free(translation->answer);
  free(translation);
}

static void begin(struct lls_api *api, struct lls_http_exchange *exchange,
                  translate_fn *translate)
{
  struct lls_api_error error;
  struct translation *translation = calloc(1, sizeof *translation);
  if (translation == NULL) {
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
    lls_api_error_reply(exchange, &error);
    return;
  }
  translation->work = (struct lls_work){.run = run, .answer = answer, .destroy = destroy};
  translation->translate = translate;
  lls_work_begin(api, exchange, &translation->work,
                 exchange->request.body.length >= LLS_WORK_LARGE);
}

void lls_handle_tokenize(void *context, struct lls_http_exchange *exchange)
{
  begin(context, exchange, tokenized);
}

void lls_handle_detokenize(void *context, struct lls_http_exchange *exchange)
{
  begin(context, exchange, detokenized);
}

void lls_handle_apply_template(void *context, struct lls_http_exchange *exchange)
{
  begin(context, exchange, templated);
}

static json_t *token_json(const struct lls_tokenizer *tokenizer, int32_t id)
{
  size_t length;
  const char *text = id >= 0 ? lls_tokenizer_string(tokenizer, id, &length) : NULL;
  return text != NULL ? json_stringn(text, length) : json_null();
}

/* Sends clients of /tokenize and /detokenize what else they need of the tokeniser. */
void lls_handle_tokenizer_info(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  const struct lls_tokenizer *tokenizer = api->config.tokenizer;
  lls_api_reply_json(exchange, 200,
                     json_pack("{s:o, s:o, s:I}", "bos_token",
                               token_json(tokenizer, lls_tokenizer_bos(tokenizer)),
                               "eos_token",
                               token_json(tokenizer, lls_tokenizer_eos(tokenizer)),
                               "model_max_length", (json_int_t)api->config.max_context));
}
