/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /tokenize and /detokenize, in the shapes of vLLM ("prompt" or "messages", and
 * "prompt" back) and of llama.cpp ("content", without BOS unless "add_special" asks for
 * it, and "content" back).
 */
#include <stdlib.h>
#include <string.h>

#include "core/api/chat.h"
#include "core/api/params.h"
#include "core/api/prompt.h"
#include "core/api/work.h"

/* Of one request; the answer to more would take main too long to send. */
#define MAX_TEXT   (1 << 20)
#define MAX_TOKENS (1 << 20)

static bool flag(const json_t *body, const char *name, bool otherwise)
{
  const json_t *value = json_object_get(body, name);
  return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static int encode(const struct lls_api_config *config, const char *text, size_t length,
                  bool add_special, int32_t **ids, size_t *count,
                  struct lls_api_error *error)
{
  struct lls_error why = {0};
  if (length > MAX_TEXT)
    return lls_api_fail(error, 413, NULL, NULL,
                        "the text has %zu bytes; at most %d are tokenised at once",
                        length, MAX_TEXT);
  int status = lls_tokenizer_encode(config->tokenizer, text, length, add_special, ids,
                                    count, &why);
  if (status == 0)
    return 0;
  return lls_api_fail(error, 500, NULL, NULL, "the text can't be tokenised: %s",
                      lls_error_text(&why, status));
}

static int encode_messages(const struct lls_api_config *config, const json_t *body,
                           int32_t **ids, size_t *count, struct lls_api_error *error)
{
  char *text;
  size_t length;
  if (lls_chat_render(config, body, flag(body, "add_generation_prompt", true), &text,
                      &length, error) != 0)
    return -1;
  int status = encode(config, text, length, false, ids, count, error);
  free(text);
  return status;
}

static int encode_body(const struct lls_api_config *config, const json_t *body,
                       int32_t **ids, size_t *count, struct lls_api_error *error)
{
  const json_t *prompt = json_object_get(body, "prompt");
  const json_t *content = json_object_get(body, "content");
  if (json_object_get(body, "messages") != NULL)
    return encode_messages(config, body, ids, count, error);
  if (json_is_string(prompt))
    return encode(config, json_string_value(prompt), json_string_length(prompt),
                  flag(body, "add_special_tokens", true), ids, count, error);
  if (json_is_string(content))
    return encode(config, json_string_value(content), json_string_length(content),
                  flag(body, "add_special", false), ids, count, error);
  return lls_api_fail(error, 400, NULL, "prompt",
                      "'prompt' must be a string, or 'messages' an array");
}

static json_t *token_strings(const struct lls_api_config *config, const int32_t *ids,
                             size_t count)
{
  json_t *strings = json_array();
  for (size_t i = 0; i < count; i++) {
    size_t length = 0;
    const char *text = lls_tokenizer_string(config->tokenizer, ids[i], &length);
    json_t *string = text != NULL ? json_stringn(text, length) : NULL;
    json_array_append_new(strings, string != NULL ? string : json_null());
  }
  return strings;
}

static json_t *token_ids(const int32_t *ids, size_t count)
{
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(array, json_integer(ids[i]));
  return array;
}

/* What /tokenize answers, or NULL and why. */
static json_t *tokenized(const struct lls_api_config *config, const json_t *body,
                         struct lls_api_error *error)
{
  int32_t *ids = NULL;
  size_t count = 0;
  if (encode_body(config, body, &ids, &count, error) != 0)
    return NULL;
  json_t *strings = flag(body, "return_token_strs", false)
                        ? token_strings(config, ids, count)
                        : json_null();
  json_t *answer = json_pack("{s:I, s:I, s:o, s:o}", "count", (json_int_t)count,
                             "max_model_len", (json_int_t)config->max_context, "tokens",
                             token_ids(ids, count), "token_strs", strings);
  free(ids);
  return answer;
}

static int decode_body(const struct lls_api_config *config, const json_t *body,
                       struct lls_text *text, struct lls_api_error *error)
{
  const json_t *tokens = json_object_get(body, "tokens");
  int32_t *ids;
  size_t count;
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

/* Likewise of /detokenize. */
static json_t *detokenized(const struct lls_api_config *config, const json_t *body,
                           struct lls_api_error *error)
{
  struct lls_text text = {0};
  json_t *answer = NULL;
  if (decode_body(config, body, &text, error) == 0)
    answer = json_pack("{s:s%, s:s%}", "prompt", text.data, text.length, "content",
                       text.data, text.length);
  lls_text_free(&text);
  return answer;
}

/* ---- as work ---------------------------------------------------------------------- */

struct translation {
  struct lls_work work;
  json_t *(*translate)(const struct lls_api_config *config, const json_t *body,
                       struct lls_api_error *error);
  char *answer; /* JSON, or NULL and why: */
  struct lls_api_error error;
};

static void run(struct lls_work *work)
{
  struct translation *translation = (struct translation *)work;
  struct lls_api_error *error = &translation->error;
  json_t *body = lls_api_body(&work->body, error);
  json_t *json = body != NULL ? translation->translate(&work->config, body, error) : NULL;
  if (json != NULL)
    translation->answer = json_dumps(json, JSON_COMPACT);
  if (json != NULL && translation->answer == NULL)
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
  json_decref(json);
  json_decref(body);
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  const struct translation *translation = (const struct translation *)work;
  const char *text = translation->answer;
  if (text != NULL)
    lls_http_reply(exchange, 200, "application/json", text, strlen(text));
  else
    lls_api_error_reply(exchange, &translation->error);
}

static void destroy(struct lls_work *work)
{
  struct translation *translation = (struct translation *)work;
  free(translation->answer);
  free(translation);
}

static void begin(struct lls_api *api, struct lls_http_exchange *exchange,
                  json_t *(*translate)(const struct lls_api_config *config,
                                       const json_t *body, struct lls_api_error *error))
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
