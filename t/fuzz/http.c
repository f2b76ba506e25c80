/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the bytes of a connection: they are parsed as requests, in pieces whose size
 * the input decides, and the bodies are read as parameters and prompts of both
 * endpoints.
 */
#include "core/api/chat.h"
#include "core/api/api_params.h"
#include "core/api/prompt.h"
#include "core/http/parser.h"
#include "text/template/template.h"
#include "t/fuzz/fuzz.h"

static struct lls_api api;

static void make_api(void)
{
  struct lls_tokenizer *tokenizer;
  struct lls_chat_template *chat_template;
  if (api.config.tokenizer != NULL)
    return;
  assert(lls_tokenizer_load(fuzz_source("t/data/models/stories260K"), &tokenizer, NULL) ==
         0);
  assert(lls_chat_template_compile("{% for m in messages %}{{ m.role }}:{{ m.content }}"
                                   "{% endfor %}",
                                   NULL, NULL, &chat_template, NULL) == 0);
  api.config.tokenizer = tokenizer;
  api.config.chat_template = chat_template;
  lls_tool_dialect_complete(&api.config.dialect, chat_template);
  api.config.max_context = 512;
  api.config.vocab = 512;
  api.config.limits = LLS_API_DEFAULT_LIMITS;
}

/* Also reads the prompts, if requested and if the parameters are valid. */
static void read_params(const json_t *body, enum lls_endpoint endpoint, bool strict)
{
  static const struct lls_sampling defaults = {
      .temperature = 1, .top_p = 1, .repetition_penalty = 1};
  const struct lls_api_limits limits = {.strict_params = strict};
  const struct lls_params_context context = {.endpoint = endpoint,
                                             .model_name = "m",
                                             .tokenizer = api.config.tokenizer,
                                             .vocab = 512,
                                             .defaults = &defaults,
                                             .limits = &limits};
  struct lls_api_params params;
  struct lls_api_error error;
  if (lls_api_params_read(body, &context, &params, &error) != 0) {
    assert(error.status >= 400 && error.message.text[0] != '\0');
    json_decref(lls_api_error_json(&error));
    return;
  }
  assert(params.n >= 1 && params.n <= 128 && params.temperature >= 0);
  struct lls_api_prompt_list prompts;
  if (endpoint == LLS_COMPLETIONS &&
      lls_prompts_read(&api.config, json_object_get(body, "prompt"), "prompt", &params,
                       &prompts, &error) == 0)
    lls_prompts_free(&prompts);
  lls_api_params_free(&params);
}

static void read_body(struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  char *text;
  size_t length;
  json_t *body = lls_api_body(&exchange->request.body, &error);
  if (body == NULL)
    return;
  read_params(body, LLS_COMPLETIONS, false);
  read_params(body, LLS_CHAT, true);
  read_params(body, LLS_TOKENIZE_CHAT, false);
  for (int i = 0; i < 2; i++) {
    const struct lls_api_params ends = {.add_generation_prompt = true,
                                        .continue_final_message = i == 1};
    if (lls_chat_render(&api.config, body, &ends, &text, &length, &error) == 0)
      free(text);
  }
  json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct lls_http_parser parser;
  static struct lls_http_exchange exchange;
  make_api();
  if (size < 1)
    return 0;
  size_t piece = 1 + data[0] * 7u, at = 1, taken;
  memset(&exchange, 0, sizeof exchange);
  lls_http_parser_init(&parser, &exchange.request, 4096, 16384);
  while (at < size) {
    size_t n = size - at < piece ? size - at : piece;
    int state = lls_http_parser_feed(&parser, (const char *)data + at, n, &taken);
    if (state < 0) {
      assert(parser.status >= 400 && parser.reason[0] != '\0');
      break;
    }
    assert(taken <= n && (state == 1 || taken == n));
    at += taken;
    if (state == 0)
      continue;
    assert(exchange.request.path[0] == '/');
    lls_http_request_header(&exchange.request, "authorization");
    read_body(&exchange);
    lls_http_request_clear(&exchange.request);
    lls_http_parser_next(&parser);
  }
  lls_http_request_clear(&exchange.request);
  return 0;
}
