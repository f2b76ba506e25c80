/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parameters, and reading a request by it. */
#include "core/api/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"

#define BOTH         (LLS_COMPLETIONS | LLS_CHAT)
#define MAX_TOKENS   (double)(1 << 30)
#define MAX_MS       1e12
#define AT(member)   offsetof(struct lls_api_params, member)
#define PATH_MAX_LEN 96

enum row_type { BOOLEAN, INTEGER, NUMBER, MILLISECONDS, OBJECT, SPECIAL };

struct row {
  const char *name;
  uint8_t endpoints; /* enum lls_endpoint, or both */
  uint8_t type;
  size_t offset; /* bool, int64_t, double, int64_t (ns) */
  double min, max;
  bool endless;              /* -1 is the most there may be, as llama.cpp has it */
  lls_param_reader read;     /* SPECIAL */
  const struct row *members; /* OBJECT; ends with a row without name */
  bool ours;                 /* nobody else's: what it does not know is a mistake */
};

#define ROW(row_name, where, row_type, ...)                                              \
  {                                                                                      \
    .name = row_name, .endpoints = where, .type = row_type, __VA_ARGS__                  \
  }
#define FLAG(name, where, member) ROW(name, where, BOOLEAN, .offset = AT(member))
#define WHOLE(name, where, member, least, most)                                          \
  ROW(name, where, INTEGER, .offset = AT(member), .min = least, .max = most)
#define COUNT(name, where, member, least)                                                \
  ROW(name, where, INTEGER, .offset = AT(member), .min = least, .max = MAX_TOKENS,       \
      .endless = true)
#define REAL(name, where, member, least, most)                                           \
  ROW(name, where, NUMBER, .offset = AT(member), .min = least, .max = most)
#define DURATION(name, member)                                                           \
  ROW(name, BOTH, MILLISECONDS, .offset = AT(member), .min = 0, .max = MAX_MS)
#define ODD(name, where, reader) ROW(name, where, SPECIAL, .read = reader)
#define GROUP(name, table)       ROW(name, BOTH, OBJECT, .members = table)
#define END                      ROW(NULL, 0, SPECIAL, .read = NULL)

static const struct row stream_options[] = {
    FLAG("include_usage", BOTH, include_usage),
    FLAG("continuous_usage_stats", BOTH, continuous_usage),
    END,
};

static const struct row slo[] = {
    DURATION("ttft_ms", slo.ttft_ns),
    DURATION("tbt_ms", slo.tbt_ns),
    DURATION("tpot_ms", slo.tpot_ns),
    DURATION("completion_ms", slo.completion_ns),
    END,
};

static const struct row rows[] = {
    ODD("model", BOTH, lls_param_model),
    FLAG("stream", BOTH, stream),
    GROUP("stream_options", stream_options),
    WHOLE("n", BOTH, n, 1, 128),
    COUNT("max_tokens", LLS_COMPLETIONS, max_tokens, 0),
    COUNT("max_tokens", LLS_CHAT, max_tokens, 1),
    COUNT("max_completion_tokens", LLS_CHAT, max_completion_tokens, 1),
    WHOLE("min_tokens", BOTH, min_tokens, 0, MAX_TOKENS),
    REAL("temperature", BOTH, temperature, 0, 100),
    REAL("top_p", BOTH, top_p, 0, 1),
    REAL("min_p", BOTH, min_p, 0, 1),
    WHOLE("top_k", BOTH, top_k, -1, INT32_MAX),
    REAL("repetition_penalty", BOTH, repetition_penalty, 0.01, 100),
    REAL("presence_penalty", BOTH, presence_penalty, -2, 2),
    REAL("frequency_penalty", BOTH, frequency_penalty, -2, 2),
    ODD("logit_bias", BOTH, lls_param_logit_bias),
    ODD("seed", BOTH, lls_param_seed),
    FLAG("ignore_eos", BOTH, ignore_eos),
    ODD("stop", BOTH, lls_param_stop),
    ODD("stop_token_ids", BOTH, lls_param_stop_token_ids),
    FLAG("include_stop_str_in_output", BOTH, include_stop),
    WHOLE("logprobs", LLS_COMPLETIONS, logprobs, 0, LLS_MAX_LOGPROBS),
    FLAG("logprobs", LLS_CHAT, chat_logprobs),
    WHOLE("top_logprobs", LLS_CHAT, top_logprobs, 0, LLS_MAX_LOGPROBS),
    FLAG("echo", LLS_COMPLETIONS, echo),
    WHOLE("prompt_logprobs", BOTH, prompt_logprobs, 0, LLS_MAX_LOGPROBS),
    FLAG("return_token_ids", BOTH, return_token_ids),
    FLAG("return_tokens_as_token_ids", BOTH, tokens_as_ids),
    FLAG("add_special_tokens", BOTH, add_special_tokens),
    FLAG("skip_special_tokens", BOTH, skip_special_tokens),
    FLAG("add_generation_prompt", LLS_CHAT, add_generation_prompt),
    ODD("service_tier", BOTH, lls_param_tier),
    ODD("class", BOTH, lls_param_class), /* after the tier, for it says more */
    ODD("user", BOTH, lls_param_user),
    WHOLE("priority", BOTH, priority, INT32_MIN, INT32_MAX),
    ROW("slo", BOTH, OBJECT, .members = slo, .ours = true),
    ODD("response_format", BOTH, lls_param_response_format),
    ODD("suffix", LLS_COMPLETIONS, lls_param_unsupported),
    ODD("best_of", LLS_COMPLETIONS, lls_param_unsupported),
    ODD("use_beam_search", BOTH, lls_param_unsupported),
    ODD("tools", LLS_CHAT, lls_param_unsupported),
    ODD("functions", LLS_CHAT, lls_param_unsupported),
    /* vLLM's and llama.cpp's: whoever sends them would be surprised by an answer without
     */
    ODD("allowed_token_ids", BOTH, lls_param_unsupported),
    ODD("bad_words", BOTH, lls_param_unsupported),
    ODD("cache_salt", BOTH, lls_param_unsupported),
    ODD("chat_template", LLS_CHAT, lls_param_unsupported),
    ODD("continue_final_message", LLS_CHAT, lls_param_unsupported),
    ODD("echo", LLS_CHAT, lls_param_unsupported),
    ODD("grammar", BOTH, lls_param_unsupported),
    ODD("guided_choice", BOTH, lls_param_unsupported),
    ODD("guided_grammar", BOTH, lls_param_unsupported),
    ODD("guided_json", BOTH, lls_param_unsupported),
    ODD("guided_regex", BOTH, lls_param_unsupported),
    ODD("json_schema", BOTH, lls_param_unsupported),
    ODD("logits_processors", BOTH, lls_param_unsupported),
    ODD("logprob_token_ids", BOTH, lls_param_unsupported),
    ODD("prompt_embeds", LLS_COMPLETIONS, lls_param_unsupported),
    ODD("structured_outputs", BOTH, lls_param_unsupported),
    ODD("truncate_prompt_tokens", BOTH, lls_param_unsupported),
    END,
};

/* What other readers take from the body, and what OpenAI's and vLLM's clients may send
 * that has no effect here. */
static const char *const passed[] = {
    "prompt",
    "messages",
    "audio",
    "chat_template_kwargs",
    "function_call",
    "metadata",
    "modalities",
    "moderation",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "request_id",
    "safety_identifier",
    "session_id",
    "store",
    "stream_options.include_obfuscation",
    "tool_choice",
    "verbosity",
    "web_search_options",
};

static bool is_row(const struct row *row, const char *name, enum lls_endpoint endpoint)
{
  for (; row->name != NULL; row++)
    if ((row->endpoints & endpoint) != 0 && strcmp(row->name, name) == 0)
      return true;
  return false;
}

static bool is_known(const char *name, enum lls_endpoint endpoint)
{
  if (is_row(rows, name, endpoint))
    return true;
  for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
    if (strcmp(passed[i], name) == 0)
      return true;
  return false;
}

/* A parameter that no table has: 0 if it may be ignored. */
static int unknown(const char *name, const struct lls_params_context *context,
                   struct lls_api_error *error)
{
  if (context->strict)
    return lls_api_fail(error, 400, "unknown_parameter", name,
                        "'%.64s' is no parameter of this endpoint, and this server "
                        "(strict_params) ignores none",
                        name);
  if (context->on_unknown != NULL)
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
    if (!is_known(name, context->endpoint) && unknown(name, context, error) != 0)
      return -1;
  }
  return 0;
}

const char *lls_json_excerpt(const json_t *value, char *out, size_t size)
{
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
  size_t length = text != NULL ? strlen(text) : 0;
  if (length < size)
    snprintf(out, size, "%s", text != NULL ? text : "?");
  else
    snprintf(out, size, "%.*s...", (int)size - 4, text);
  free(text);
  return out;
}

bool lls_json_integer(const json_t *value, int64_t *out)
{
  if (json_is_integer(value)) {
    *out = json_integer_value(value);
    return true;
  }
  double real = json_real_value(value);
  if (!json_is_real(value) || real != floor(real) || fabs(real) > 0x1p53)
    return false;
  *out = (int64_t)real;
  return true;
}

static int expected(const char *what, const struct row *row, const char *name,
                    const json_t *value, struct lls_api_error *error)
{
  char shown[48], range[64] = "";
  if (row->max >= MAX_TOKENS)
    snprintf(range, sizeof range, " of at least %.15g", row->min);
  else if (row->max > row->min)
    snprintf(range, sizeof range, " from %.15g to %.15g", row->min, row->max);
  return lls_api_fail(error, 400, NULL, name, "'%s' must be %s%s, not %s", name, what,
                      range, lls_json_excerpt(value, shown, sizeof shown));
}

static bool in_range(const struct row *row, double value)
{
  return value >= row->min && value <= row->max;
}

static int read_integer(const json_t *value, const struct row *row, const char *name,
                        void *member, struct lls_api_error *error)
{
  int64_t number;
  bool whole = lls_json_integer(value, &number);
  if (whole && row->endless && number == -1)
    number = (int64_t)row->max;
  if (!whole || !in_range(row, (double)number))
    return expected("an integer", row, name, value, error);
  *(int64_t *)member = number;
  return 0;
}

static int read_number(const json_t *value, const struct row *row, const char *name,
                       void *member, struct lls_api_error *error)
{
  double number = json_number_value(value);
  if (!json_is_number(value) || !in_range(row, number))
    return expected("a number", row, name, value, error);
  if (row->type == MILLISECONDS)
    *(int64_t *)member = (int64_t)(number * 1e6);
  else
    *(double *)member = number;
  return 0;
}

static int read_boolean(const json_t *value, const struct row *row, const char *name,
                        void *member, struct lls_api_error *error)
{
  if (!json_is_boolean(value))
    return expected("true or false", row, name, value, error);
  *(bool *)member = json_is_true(value);
  return 0;
}

static int read_plain(const json_t *value, const struct row *row, const char *name,
                      struct lls_api_params *out, struct lls_api_error *error)
{
  void *member = (char *)out + row->offset;
  if (row->type == BOOLEAN)
    return read_boolean(value, row, name, member, error);
  if (row->type == INTEGER)
    return read_integer(value, row, name, member, error);
  return read_number(value, row, name, member, error);
}

static int no_member(const struct row *row, const char *name, struct lls_api_error *error)
{
  char known[128] = "";
  size_t used = 0;
  for (const struct row *m = row->members; m->name != NULL && used < sizeof known; m++)
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                             used > 0 ? ", " : "", m->name);
  return lls_api_fail(error, 400, "unknown_parameter", name,
                      "'%s' is no part of '%s', which knows %s", name, row->name, known);
}

static int check_members(const json_t *value, const struct row *row,
                         const struct lls_params_context *context,
                         struct lls_api_error *error)
{
  const char *key;
  json_t *member;
  json_object_foreach((json_t *)value, key, member)
  {
    char name[PATH_MAX_LEN];
    snprintf(name, sizeof name, "%s.%.64s", row->name, key);
    if (is_row(row->members, key, context->endpoint) || is_known(name, context->endpoint))
      continue;
    if (row->ours)
      return no_member(row, name, error);
    if (unknown(name, context, error) != 0)
      return -1;
  }
  return 0;
}

/* The members of an object that holds nothing but plain values. */
static int read_object(const json_t *value, const struct row *row,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error)
{
  if (!json_is_object(value))
    return expected("an object", row, row->name, value, error);
  if (check_members(value, row, context, error) != 0)
    return -1;
  for (const struct row *inner = row->members; inner->name != NULL; inner++) {
    char name[PATH_MAX_LEN];
    const json_t *member = json_object_get(value, inner->name);
    snprintf(name, sizeof name, "%s.%s", row->name, inner->name);
    if (member == NULL || json_is_null(member))
      continue;
    if (read_plain(member, inner, name, out, error) != 0)
      return -1;
  }
  return 0;
}

static int read_row(const json_t *value, const struct row *row,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error)
{
  if (row->type == SPECIAL)
    return row->read(value, row->name, context, out, error);
  if (row->type == OBJECT)
    return read_object(value, row, context, out, error);
  return read_plain(value, row, row->name, out, error);
}

/* What one parameter says about another. */
static int check_together(const json_t *body, struct lls_api_params *out,
                          const struct lls_params_context *context,
                          struct lls_api_error *error)
{
  const json_t *options = json_object_get(body, "stream_options");
  if (options != NULL && !json_is_null(options) && !out->stream)
    return lls_api_fail(error, 400, NULL, "stream_options",
                        "'stream_options' is only for requests with 'stream': true");
  if (context->endpoint == LLS_CHAT) {
    if (out->max_completion_tokens != LLS_UNSET)
      out->max_tokens = out->max_completion_tokens;
    if (out->top_logprobs > 0 && !out->chat_logprobs)
      return lls_api_fail(error, 400, NULL, "top_logprobs",
                          "'top_logprobs' is only for requests with 'logprobs': true");
    out->logprobs = out->chat_logprobs ? out->top_logprobs : LLS_UNSET;
  } else if (out->max_tokens == LLS_UNSET) {
    out->max_tokens = 16;
  }
  if (out->max_tokens == 0 && !out->echo && out->prompt_logprobs == LLS_UNSET)
    return lls_api_fail(error, 400, NULL, "max_tokens",
                        "'max_tokens' must be an integer of at least 1, not 0, where "
                        "neither 'echo' nor 'prompt_logprobs' asks for the prompt");
  if (out->stream && out->prompt_logprobs != LLS_UNSET)
    return lls_api_fail(error, 400, NULL, "prompt_logprobs",
                        "'prompt_logprobs' is not for requests with 'stream': true");
  if (out->max_tokens != LLS_UNSET && out->min_tokens > out->max_tokens)
    return lls_api_fail(error, 400, NULL, "min_tokens",
                        "'min_tokens' is %lld, more than the %lld tokens allowed",
                        (long long)out->min_tokens, (long long)out->max_tokens);
  return 0;
}

/* A chat template writes special tokens itself. */
static void set_defaults(struct lls_api_params *out, const struct lls_sampling *defaults,
                         enum lls_endpoint endpoint)
{
  *out = (struct lls_api_params){
      .n = 1,
      .max_tokens = LLS_UNSET,
      .max_completion_tokens = LLS_UNSET,
      .temperature = (double)defaults->temperature,
      .top_p = (double)defaults->top_p,
      .min_p = (double)defaults->min_p,
      .top_k = defaults->top_k,
      .repetition_penalty = (double)defaults->repetition_penalty,
      .presence_penalty = (double)defaults->presence_penalty,
      .frequency_penalty = (double)defaults->frequency_penalty,
      .logprobs = LLS_UNSET,
      .prompt_logprobs = LLS_UNSET,
      .add_special_tokens = endpoint != LLS_CHAT,
      .skip_special_tokens = true,
      .add_generation_prompt = true,
      .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER, 0},
  };
}

int lls_api_params_read(const json_t *body, const struct lls_params_context *context,
                        struct lls_api_params *out, struct lls_api_error *error)
{
  set_defaults(out, context->defaults, context->endpoint);
  if (check_known(body, context, error) != 0)
    return -1;
  for (const struct row *row = rows; row->name != NULL; row++) {
    const json_t *value = json_object_get(body, row->name);
    if (value == NULL || json_is_null(value) || !(row->endpoints & context->endpoint))
      continue;
    if (read_row(value, row, context, out, error) != 0)
      goto fail;
  }
  if (check_together(body, out, context, error) == 0)
    return 0;
fail:
  lls_api_params_free(out);
  return -1;
}

void lls_api_params_free(struct lls_api_params *params)
{
  lls_stop_set_free(&params->stop);
  free(params->stop_tokens);
  free(params->bias);
  params->stop_tokens = NULL;
  params->bias = NULL;
}

bool lls_api_params_scores(const struct lls_api_params *params, uint32_t *logprobs)
{
  int64_t echoed = params->echo ? params->logprobs : LLS_UNSET;
  int64_t most = echoed > params->prompt_logprobs ? echoed : params->prompt_logprobs;
  *logprobs = most > 0 ? (uint32_t)most : 0;
  return most != LLS_UNSET;
}

struct lls_sampling lls_api_params_sampling(const struct lls_api_params *params)
{
  return (struct lls_sampling){
      .temperature = (float)params->temperature,
      .top_p = (float)params->top_p,
      .min_p = (float)params->min_p,
      .top_k = (int32_t)params->top_k,
      .repetition_penalty = (float)params->repetition_penalty,
      .presence_penalty = (float)params->presence_penalty,
      .frequency_penalty = (float)params->frequency_penalty,
      .want_logprob = params->logprobs != LLS_UNSET,
      .n_logprobs = params->logprobs > 0 ? (uint32_t)params->logprobs : 0,
      .bias = params->bias,
      .n_bias = (uint32_t)params->n_bias,
  };
}
