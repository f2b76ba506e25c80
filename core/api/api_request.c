/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first steps of every endpoint: checks that the server accepts requests, parses
 * the body as JSON, reads its parameters, reports unknown names. Also the common parts
 * of refusals.
 */
#include "core/api/api_internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "core/base/json_cost.h"
#include "text/template/template.h"

/* ---- unknown names ---------------------------------------------------------------- */

#define MAX_HEADER 1024 /* bytes */

/* ---- requests ------------------------------------------------------------------- */

static void not_json(const json_error_t *why, bool no_memory, struct lls_api_error *error)
{
  if (no_memory)
    lls_api_fail(error, 503, NULL, NULL, "out of memory for the request body");
  else if (json_error_code(why) == json_error_out_of_memory)
    lls_api_fail(error, 413, "too_many_values", NULL, "the request body is not read: %s",
                 why->text);
  else
    lls_api_fail(error, 400, "invalid_json", NULL,
                 "the request body is not valid JSON: %s (line %d, column %d)", why->text,
                 why->line, why->column);
}

json_t *lls_api_value(const struct lls_text *text, struct lls_api_error *error)
{
  json_error_t why;
  uint64_t shortages = lls_json_shortages();
  json_t *body = lls_json_load(text->length > 0 ? text->data : "", text->length,
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
  /* without memory the parser reports a syntax error, or cuts a string short */
  bool no_memory = lls_json_shortages() != shortages;
  if (body == NULL || no_memory) {
    json_decref(body);
    not_json(&why, no_memory, error);
    return NULL;
  }
  return body;
}

json_t *lls_api_body(const struct lls_text *text, struct lls_api_error *error)
{
  json_t *body = lls_api_value(text, error);
  if (body != NULL && !json_is_object(body)) {
    json_decref(body);
    lls_api_fail(error, 400, "invalid_json", NULL,
                 "the request body must be a JSON object");
    return NULL;
  }
  return body;
}

int lls_api_check_open(struct lls_api *api, struct lls_api_error *error)
{
  struct lls_error why = {0};
  if (lls_loop_failed(api->config.loop, &why))
    return lls_api_fail(error, 503, "engine_error", NULL, "the engine failed: %s",
                        why.text);
  if (lls_loop_hangs(api->config.loop, &why)) {
    lls_api_fail(error, 503, "plugin_hangs", NULL, "%s", why.text);
    error->retry_after = lls_api_retry_after(api);
    return -1;
  }
  if (!api->draining)
    return 0;
  lls_api_fail(error, 503, "shutting_down", NULL, "the server is shutting down");
  error->retry_after = lls_api_retry_after(api);
  return -1;
}

/* Estimates the time from the rate at which running requests finish: each one frees a
 * place. */
unsigned lls_api_retry_after(struct lls_api *api)
{
  struct lls_loop_status status;
  const struct lls_histogram *e2e = &api->stats.inference;
  uint64_t count = lls_histogram_count(e2e);
  lls_loop_status(api->config.loop, &status);
  double mean = count > 0 ? e2e->sum / (double)count : 1;
  double wait = mean / (status.running > 0 ? status.running : 1);
  if (wait > 60)
    return 60;
  return wait > 1 ? (unsigned)(wait + 0.5) : 1;
}

/* Appends a name to the header, percent-encoded. */
static void put_name(struct lls_text *out, const char *name)
{
  for (; *name != '\0'; name++) {
    unsigned char c = (unsigned char)*name;
    bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                 (c >= 'a' && c <= 'z') || strchr("._-", c) != NULL;
    if (plain)
      lls_text_append(out, name, 1);
    else
      lls_text_printf(out, "%%%02X", c);
  }
}

static void add_header(struct lls_http_exchange *exchange,
                       const struct lls_unknown_names *names)
{
  struct lls_text value = {0};
  for (unsigned i = 0; i < names->n && value.length < MAX_HEADER; i++) {
    if (i > 0)
      lls_text_puts(&value, ", ");
    put_name(&value, names->names[i]);
  }
  if (value.length > 0 && !value.failed)
    lls_http_add_header(exchange, LLS_IGNORED_HEADER, value.data);
  lls_text_free(&value);
}

void lls_api_note_unknown(struct lls_api *api, struct lls_http_exchange *exchange,
                          const struct lls_unknown_names *names)
{
  add_header(exchange, names);
  for (unsigned i = 0; i < names->n; i++) {
    const struct lls_log_field fields[] = {
        {.name = "ignores", .text = names->names[i]},
        {.name = "why", .text = "the parameter has no effect here (said once)"},
    };
    if (lls_unknown_add(&api->unknown, names->names[i]))
      lls_log_request(api->config.log, LLS_LOG_INFO, "api", exchange->id, fields, 2);
  }
}

static void on_unknown(void *context, const char *name)
{
  lls_unknown_add(context, name);
}

/* Reports members of a chat's messages and form that reach neither model nor answer. */
static void note_members(const json_t *body, struct lls_unknown_names *unknown)
{
  static const char *const places[][2] = {
      {"messages", "role content name tool_calls tool_call_id reasoning "
                   "reasoning_content"},
      {"messages.content", "type text"},
      {"messages.tool_calls", "id type function index"},
      {"prediction", "type content"},
      {"prediction.content", "type text"},
      {"response_format.json_schema", "name schema strict"}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    lls_unknown_add_at(unknown, body, places[i][0], places[i][1]);
}

int lls_api_read_params(const struct lls_api_config *config, const json_t *body,
                        enum lls_endpoint endpoint, struct lls_unknown_names *unknown,
                        struct lls_api_params *out, struct lls_api_error *error)
{
  const struct lls_params_context context = {
      .endpoint = endpoint,
      .model_name = config->model_name,
      .adapters = config->adapters,
      .tokenizer = config->tokenizer,
      .pooling = &config->pooling,
      .vector_columns = config->vector_columns,
      .is_encoder = config->encoder.is_one,
      .headless = config->encoder.headless,
      .scores_pairs = config->encoder.scores_pairs,
      .takes_instruction = config->encoder.form != NULL,
      .classifies = config->encoder.labels != NULL,
      .vocab = config->vocab,
      .defaults = &config->sampling,
      .few_samplers = config->few_samplers,
      .drafts = config->drafts,
      .limits = &config->limits,
      .template_source = config->chat_template != NULL
                             ? lls_chat_template_source(config->chat_template, true)
                             : NULL,
      .on_unknown = on_unknown,
      .on_unknown_context = unknown,
  };
  if ((endpoint & (LLS_CHAT | LLS_TOKENIZE_CHAT)) != 0)
    note_members(body, unknown);
  return lls_api_params_read(body, &context, out, error);
}

void lls_api_decode(const struct lls_api_config *config, const int32_t *ids, size_t count,
                    bool skip_special, struct lls_text *text)
{
  struct lls_detokenizer detokenizer;
  const size_t room = lls_detokenizer_room(config->tokenizer);
  lls_detokenizer_init(&detokenizer, config->tokenizer, skip_special, false);
  for (size_t i = 0; i < count && lls_text_reserve(text, room); i++)
    text->length += lls_detokenizer_push(&detokenizer, ids[i], text->data + text->length);
  if (lls_text_reserve(text, room))
    text->length += lls_detokenizer_flush(&detokenizer, text->data + text->length);
  lls_text_append(text, "", 0); /* for its NUL */
}

void lls_api_log_refusal(const struct lls_api *api, struct lls_http_exchange *exchange,
                         const struct lls_api_error *error)
{
  const struct lls_log_field fields[] = {
      {.name = "outcome", .text = "refused"},
      {.name = "status", .number = error->status},
      {.name = "why", .text = error->message.text},
  };
  exchange->logged = true;
  lls_log_request(api->config.log, LLS_LOG_INFO, "api", exchange->id, fields, 3);
}
