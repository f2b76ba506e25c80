/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parameters, and the function that reads a request with it. */
#include "core/api/api_params.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"
#include "core/lora/lora_set.h"
#include "text/template/template.h"

#define BOTH         (LLS_COMPLETIONS | LLS_CHAT)
#define MESSAGES     (LLS_CHAT | LLS_TOKENIZE_CHAT)
#define VECTORS      (LLS_EMBEDDINGS | LLS_RERANK | LLS_SCORE | LLS_CLASSIFY)
#define SERVED       (BOTH | VECTORS) /* endpoints that use the step loop */
#define ANY          (SERVED | LLS_TOKENIZE | LLS_TOKENIZE_CHAT | LLS_DETOKENIZE)
#define MAX_TOKENS   LLS_PARAM_ENDLESS
#define MAX_MS       1e12
#define AT(member)   offsetof(struct lls_api_params, member)
#define PATH_MAX_LEN 96

#define ROW(row_name, where, row_type, ...)                                              \
  {                                                                                      \
    .name = row_name, .endpoints = where, .type = row_type, __VA_ARGS__                  \
  }
#define FLAG(name, where, member) ROW(name, where, LLS_ROW_BOOLEAN, .offset = AT(member))
#define WHOLE(name, where, member, least, most)                                          \
  ROW(name, where, LLS_ROW_INTEGER, .offset = AT(member), .min = least, .max = most)
#define COUNT(name, where, member, least)                                                \
  ROW(name, where, LLS_ROW_INTEGER, .offset = AT(member), .min = least,                  \
      .max = MAX_TOKENS, .endless = true)
#define REAL(name, where, member, least, most)                                           \
  ROW(name, where, LLS_ROW_NUMBER, .offset = AT(member), .min = least, .max = most)
#define DURATION(name, member)                                                           \
  ROW(name, SERVED, LLS_ROW_MILLISECONDS, .offset = AT(member), .min = 0, .max = MAX_MS)
#define ODD(name, where, reader) ROW(name, where, LLS_ROW_SPECIAL, .read = reader)
#define GROUP(name, table)       ROW(name, BOTH, LLS_ROW_OBJECT, .members = table)
#define END                      ROW(NULL, 0, LLS_ROW_SPECIAL, .read = NULL)

static const struct lls_row stream_options[] = {
    FLAG("include_usage", BOTH, include_usage),
    FLAG("continuous_usage_stats", BOTH, continuous_usage),
    END,
};

static const struct lls_row slo[] = {
    DURATION("ttft_ms", slo.ttft_ns),
    DURATION("tbt_ms", slo.tbt_ns),
    DURATION("tpot_ms", slo.tpot_ns),
    DURATION("completion_ms", slo.completion_ns),
    END,
};

const struct lls_row lls_param_rows[] = {
    ODD("model", ANY, lls_param_model),
    FLAG("stream", BOTH, stream),
    GROUP("stream_options", stream_options),
    WHOLE("n", BOTH, n, 1, 128),
    COUNT("n_predict", BOTH, max_tokens, 1), /* llama.cpp's name */
    COUNT("max_new_tokens", BOTH, max_tokens,
          1), /* SGLang's; OpenAI's, read later, wins */
    COUNT("max_tokens", LLS_COMPLETIONS, max_tokens, 0),
    COUNT("max_tokens", LLS_CHAT, max_tokens, 1),
    COUNT("max_completion_tokens", LLS_CHAT, max_completion_tokens, 1),
    WHOLE("min_tokens", BOTH, min_tokens, 0, INT32_MAX),
    REAL("temperature", BOTH, temperature, 0, 100),
    REAL("top_p", BOTH, top_p, 0, 1),
    REAL("min_p", BOTH, min_p, 0, 1),
    WHOLE("top_k", BOTH, top_k, -1, INT32_MAX),
    REAL("repetition_penalty", BOTH, repetition_penalty, 0.01, 100),
    REAL("presence_penalty", BOTH, presence_penalty, -2, 2),
    REAL("frequency_penalty", BOTH, frequency_penalty, -2, 2),
    COUNT("repeat_last_n", BOTH, penalty_last_n, 0), /* llama.cpp's, as all these: */
    REAL("typical_p", BOTH, typical_p, 0, 1),
    REAL("top_n_sigma", BOTH, top_n_sigma, -1, 1000),
    REAL("xtc_probability", BOTH, xtc_probability, 0, 1),
    REAL("xtc_threshold", BOTH, xtc_threshold, 0, 1),
    REAL("dynatemp_range", BOTH, dynatemp_range, 0, 100),
    REAL("dynatemp_exponent", BOTH, dynatemp_exponent, 0, 100),
    WHOLE("mirostat", BOTH, mirostat, 0, 2),
    WHOLE("mirostat_mode", BOTH, mirostat, 0, 2), /* text-generation-webui's name */
    REAL("mirostat_tau", BOTH, mirostat_tau, 0, 100),
    REAL("mirostat_eta", BOTH, mirostat_eta, 0, 10),
    REAL("dry_multiplier", BOTH, dry_multiplier, 0, 100),
    REAL("dry_base", BOTH, dry_base, 1, 100),
    WHOLE("dry_allowed_length", BOTH, dry_allowed_length, 1, INT32_MAX),
    COUNT("dry_penalty_last_n", BOTH, dry_last_n, 0),
    ODD("dry_sequence_breakers", BOTH, lls_param_breakers),
    ODD("samplers", BOTH, lls_param_samplers),
    FLAG("post_sampling_probs", BOTH, drawn_logprobs),
    ODD("logit_bias", BOTH, lls_param_logit_bias),
    ODD("allowed_token_ids", BOTH, lls_param_allowed_token_ids),
    ODD("bad_words", BOTH, lls_param_bad_words),
    ODD("prediction", LLS_CHAT, lls_param_prediction),
    ODD("logprob_token_ids", BOTH, lls_param_logprob_ids),
    ODD("chat_template", MESSAGES, lls_param_chat_template),
    ODD("seed", BOTH, lls_param_seed),
    FLAG("ignore_eos", BOTH, ignore_eos),
    ODD("stop", BOTH, lls_param_stop),
    ODD("stop_regex", BOTH, lls_param_stop_regex),
    ODD("stop_token_ids", BOTH, lls_param_stop_token_ids),
    FLAG("include_stop_str_in_output", BOTH, include_stop),
    FLAG("no_stop_trim", BOTH, include_stop),                /* SGLang's */
    COUNT("reasoning_budget", LLS_CHAT, thinking_budget, 0), /* llama.cpp's names */
    COUNT("thinking_budget", LLS_CHAT, thinking_budget, 0),
    COUNT("thinking_budget_tokens", LLS_CHAT, thinking_budget, 0),
    COUNT("max_thinking_tokens", LLS_CHAT, thinking_budget, 0),
    COUNT("thinking_token_budget", LLS_CHAT, thinking_budget, 0), /* vLLM's */
    FLAG("include_reasoning", LLS_CHAT, include_reasoning),
    ODD("truncation_side", SERVED, lls_param_truncation_side),
    ODD("parse_special", LLS_TOKENIZE, lls_param_true),
    WHOLE("logprobs", LLS_COMPLETIONS, logprobs, 0, LLS_MAX_LOGPROBS),
    FLAG("logprobs", LLS_CHAT, chat_logprobs),
    WHOLE("top_logprobs", LLS_CHAT, top_logprobs, 0, LLS_MAX_LOGPROBS),
    FLAG("echo", LLS_COMPLETIONS, echo),
    FLAG("echo", LLS_CHAT, chat_echo),
    WHOLE("prompt_logprobs", BOTH, prompt_logprobs, 0, LLS_MAX_LOGPROBS),
    FLAG("return_token_ids", BOTH, return_token_ids),
    FLAG("timings_per_token", BOTH, timings), /* llama.cpp's */
    FLAG("return_progress", BOTH, progress),  /* llama.cpp's */
    FLAG("return_tokens_as_token_ids", BOTH, tokens_as_ids),
    FLAG("add_special_tokens", SERVED | LLS_TOKENIZE | LLS_TOKENIZE_CHAT,
         add_special_tokens),
    FLAG("skip_special_tokens", BOTH, skip_special_tokens),
    FLAG("add_generation_prompt", MESSAGES, add_generation_prompt),
    FLAG("continue_final_message", MESSAGES, continue_final_message),
    FLAG("return_token_strs", LLS_TOKENIZE | LLS_TOKENIZE_CHAT, return_token_strs),
    FLAG("add_special", LLS_TOKENIZE, add_special),
    FLAG("with_pieces", LLS_TOKENIZE, with_pieces),
    ROW("truncate_prompt_tokens", SERVED, LLS_ROW_INTEGER,
        .offset = AT(truncate_prompt_tokens), .min = 1, .max = MAX_TOKENS,
        .endless = true),
    ODD("service_tier", SERVED, lls_param_tier),
    ODD("class", SERVED, lls_param_class), /* after service_tier, so it wins */
    ODD("user", SERVED, lls_param_user),
    ODD("cache_salt", SERVED, lls_param_cache_salt),
    ODD("prompt_cache_key", BOTH, lls_param_cache_key),
    ODD("prompt_cache_retention", BOTH, lls_param_cache_retention),
    WHOLE("priority", SERVED, priority, INT32_MIN, INT32_MAX),
    ROW("slo", SERVED, LLS_ROW_OBJECT, .members = slo, .ours = true),
    ODD("encoding_format", LLS_EMBEDDINGS, lls_param_encoding_format),
    FLAG("normalize", LLS_EMBEDDINGS, normalize),
    WHOLE("dimensions", LLS_EMBEDDINGS, dimensions, 1, INT32_MAX),
    FLAG("use_activation", LLS_CLASSIFY, use_activation),
    WHOLE("top_n", LLS_RERANK, top_n, 0, INT32_MAX),
    FLAG("return_documents", LLS_RERANK, return_documents),
    ODD("response_format", BOTH, lls_param_response_format),
    ODD("structured_outputs", BOTH, lls_param_structured_outputs),
    ODD("guided_json", BOTH, lls_param_schema),
    ODD("guided_regex", BOTH, lls_param_regex),
    ODD("guided_choice", BOTH, lls_param_choice),
    ODD("guided_grammar", BOTH, lls_param_grammar),
    ODD("grammar", BOTH, lls_param_grammar),
    ODD("regex", BOTH, lls_param_regex), /* SGLang's names */
    ODD("ebnf", BOTH, lls_param_grammar),
    ODD("json_schema", BOTH, lls_param_schema),
    ODD("modalities", LLS_CHAT, lls_param_modalities),
    ODD("lora", BOTH, lls_param_lora), /* llama.cpp's; after model, so it wins */
    ODD("tools", MESSAGES, lls_param_tools),
    ODD("tool_choice", LLS_CHAT, lls_param_tool_choice),
    FLAG("parallel_tool_calls", LLS_CHAT, tools.parallel),
    END,
};

/* Parameters that other code reads from the body. */
static const struct {
  const char *name;
  unsigned endpoints;
} elsewhere[] = {
    {"prompt", LLS_COMPLETIONS | LLS_TOKENIZE},
    {"messages", MESSAGES},
    {"documents", LLS_RERANK},
    {"chat_template_kwargs", MESSAGES},
    {"input", LLS_EMBEDDINGS | LLS_CLASSIFY},
    {"query", LLS_RERANK},
    {"instruction", LLS_RERANK | LLS_SCORE},
    {"text_1", LLS_SCORE},
    {"text_2", LLS_SCORE},
    {"content", LLS_TOKENIZE},
    {"tokens", LLS_DETOKENIZE},
};

bool lls_param_elsewhere(size_t i, const char **name, unsigned *endpoints)
{
  if (i >= sizeof elsewhere / sizeof *elsewhere)
    return false;
  *name = elsewhere[i].name;
  *endpoints = elsewhere[i].endpoints;
  return true;
}

static bool is_row(const struct lls_row *row, const char *name,
                   enum lls_endpoint endpoint)
{
  for (; row->name != NULL; row++)
    if ((row->endpoints & endpoint) != 0 && strcmp(row->name, name) == 0)
      return true;
  return false;
}

static bool is_letter(char c)
{
  return isalnum((unsigned char)c) || c == '_';
}

/* Returns true if `name` occurs in `source` as a whole word. */
static bool has_word(const char *source, const char *name)
{
  size_t n = strlen(name);
  for (const char *at = source; (at = strstr(at, name)) != NULL; at++)
    if ((at == source || !is_letter(at[-1])) && !is_letter(at[n]))
      return true;
  return false;
}

/* Returns true if `name` is a variable that the chat template reads. */
static bool is_variable(const char *name, const struct lls_params_context *context)
{
  size_t i = 0;
  while (lls_param_variables[i] != NULL && strcmp(lls_param_variables[i], name) != 0)
    i++;
  return (context->endpoint & MESSAGES) != 0 && lls_param_variables[i] != NULL &&
         context->template_source != NULL && has_word(context->template_source, name);
}

static bool is_known(const char *name, const struct lls_params_context *context)
{
  if (is_row(lls_param_rows, name, context->endpoint) ||
      lls_param_is_refused(name, context->endpoint) || is_variable(name, context))
    return true;
  for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
    if ((elsewhere[i].endpoints & context->endpoint) != 0 &&
        strcmp(elsewhere[i].name, name) == 0)
      return true;
  return false;
}

/* Handles a parameter without effect: reports it and returns 0 if it may be ignored,
 * else returns -1 with *error set. */
static int unknown(const char *name, const json_t *value,
                   const struct lls_params_context *context, struct lls_api_error *error)
{
  bool harmless = lls_param_is_harmless(name);
  for (size_t i = 0; lls_param_variables[i] != NULL; i++)
    harmless |= strcmp(lls_param_variables[i], name) == 0;
  if (!harmless && context->limits->strict_params)
    return lls_api_fail(error, 400, "unknown_parameter", name,
                        "'%.64s' is no parameter of this endpoint, and this server "
                        "(strict_params) ignores none",
                        name);
  if (context->on_unknown != NULL && lls_param_asks(name, value))
    context->on_unknown(context->on_unknown_context, name);
  return 0;
}

static int check_known(const json_t *body, const struct lls_params_context *context,
                       struct lls_api_error *error)
{
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)body, name, value)
  {
    if (!is_known(name, context) && unknown(name, value, context, error) != 0)
      return -1;
  }
  return lls_params_refuse(body, context->endpoint, error);
}

static int no_member(const struct lls_row *row, const char *name,
                     struct lls_api_error *error)
{
  char known[128] = "";
  size_t used = 0;
  for (const struct lls_row *m = row->members; m->name != NULL && used < sizeof known;
       m++)
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                             used > 0 ? ", " : "", m->name);
  return lls_api_fail(error, 400, "unknown_parameter", name,
                      "'%s' is no part of '%s', which knows %s", name, row->name, known);
}

static int check_members(const json_t *value, const struct lls_row *row,
                         const struct lls_params_context *context,
                         struct lls_api_error *error)
{
  const char *key;
  json_t *member;
  json_object_foreach((json_t *)value, key, member)
  {
    char name[PATH_MAX_LEN];
    snprintf(name, sizeof name, "%s.%.64s", row->name, key);
    if (is_row(row->members, key, context->endpoint))
      continue;
    if (row->ours)
      return no_member(row, name, error);
    if (unknown(name, member, context, error) != 0)
      return -1;
  }
  return 0;
}

/* Reads the members of an object of plain values. */
static int read_object(const json_t *value, const struct lls_row *row,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error)
{
  if (!json_is_object(value))
    return lls_row_expected("an object", row, row->name, value, error);
  if (check_members(value, row, context, error) != 0)
    return -1;
  for (const struct lls_row *inner = row->members; inner->name != NULL; inner++) {
    char name[PATH_MAX_LEN];
    const json_t *member = json_object_get(value, inner->name);
    snprintf(name, sizeof name, "%s.%s", row->name, inner->name);
    if (member == NULL || json_is_null(member))
      continue;
    if (lls_row_read(member, inner, name, out, error) != 0)
      return -1;
  }
  return 0;
}

static int read_row(const json_t *value, const struct lls_row *row,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error)
{
  if (row->type == LLS_ROW_SPECIAL)
    return row->read(value, row->name, context, out, error);
  if (row->type == LLS_ROW_OBJECT)
    return read_object(value, row, context, out, error);
  return lls_row_read(value, row, row->name, out, error);
}

int lls_api_params_read(const json_t *body, const struct lls_params_context *context,
                        struct lls_api_params *out, struct lls_api_error *error)
{
  lls_params_defaults(context, out);
  if (lls_params_check_model(context, error) != 0)
    return -1;
  if (check_known(body, context, error) != 0)
    return -1;
  for (const struct lls_row *row = lls_param_rows; row->name != NULL; row++) {
    const json_t *value = json_object_get(body, row->name);
    if (value == NULL || json_is_null(value) || !(row->endpoints & context->endpoint))
      continue;
    if (read_row(value, row, context, out, error) != 0)
      goto fail;
  }
  if (lls_params_check(body, context, out, error) == 0)
    return 0;
fail:
  lls_api_params_free(out);
  return -1;
}

void lls_api_params_free(struct lls_api_params *params)
{
  lls_adapter_unref(params->adapter);
  params->adapter = NULL;
  lls_chat_template_free(params->chat_template);
  params->chat_template = NULL;
  lls_stop_set_free(&params->stop);
  for (size_t i = 0; i < params->n_stop_regex; i++)
    lls_regex_finder_destroy(params->stop_regex[i]);
  free(params->stop_regex);
  free(params->stop_tokens);
  free(params->bias);
  free(params->dry_breakers.tokens);
  free(params->dry_breakers.sequences);
  params->dry_breakers = (struct lls_dry_breakers){0};
  free(params->allowed);
  free(params->bad_words);
  free(params->expected);
  lls_structured_free(&params->structured);
  json_decref(params->tools.list);
  params->tools.list = NULL;
  params->stop_regex = NULL;
  params->n_stop_regex = 0;
  params->stop_tokens = NULL;
  params->bias = NULL;
  params->allowed = NULL;
  params->bad_words = NULL;
  params->expected = NULL;
}
