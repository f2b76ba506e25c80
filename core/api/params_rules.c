/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that differ by endpoint when parameters are read: the defaults, the models
 * that can serve it, and the checks of several parameters together. Each endpoint has a
 * row of `rules`. */
#include <string.h>

#include "core/api/params_internal.h"

typedef int check_fn(const json_t *body, const struct lls_params_context *context,
                     struct lls_api_params *out, struct lls_api_error *error);

/* ---- text ------------------------------------------------------------------------- */

/* vLLM's continuous_usage_stats implies include_usage if that is absent, as in vLLM.
 * Otherwise an absent include_usage (OpenAI's) is false. */
static int check_stream(const json_t *options, struct lls_api_params *out,
                        struct lls_api_error *error)
{
  const json_t *usage = json_object_get(options, "include_usage");
  if (options != NULL && !json_is_null(options) && !out->stream)
    return lls_api_fail(error, 400, NULL, "stream_options",
                        "'stream_options' is only for requests with 'stream': true");
  if (usage == NULL || json_is_null(usage))
    out->include_usage = out->continuous_usage;
  out->continuous_usage = out->continuous_usage && out->include_usage;
  if (out->stream && out->prompt_logprobs != LLS_UNSET)
    return lls_api_fail(error, 400, NULL, "prompt_logprobs",
                        "'prompt_logprobs' is not for requests with 'stream': true");
  return 0;
}

static int check_chat_alone(struct lls_api_params *out, struct lls_api_error *error)
{
  if (out->max_completion_tokens != LLS_UNSET)
    out->max_tokens = out->max_completion_tokens;
  if (out->top_logprobs > 0 && !out->chat_logprobs)
    return lls_api_fail(error, 400, NULL, "top_logprobs",
                        "'top_logprobs' is only for requests with 'logprobs': true");
  out->logprobs = out->chat_logprobs ? out->top_logprobs : LLS_UNSET;
  if (out->chat_logprobs && out->thinking_budget != LLS_ENDLESS)
    return lls_api_fail(error, 400, NULL, "logprobs",
                        "'logprobs' is not for requests with a budget for thoughts: the "
                        "tokens that end a thought are not drawn");
  if (out->tools.list == NULL)
    out->tools.choice = LLS_TOOL_CHOICE_NONE;
  return 0;
}

static int check_limits(const struct lls_api_params *out, struct lls_api_error *error)
{
  if (out->max_tokens == 0 && !out->echo && out->prompt_logprobs == LLS_UNSET)
    return lls_api_fail(error, 400, NULL, "max_tokens",
                        "'max_tokens' must be an integer of at least 1, not 0, where "
                        "neither 'echo' nor 'prompt_logprobs' asks for the prompt");
  int64_t most = lls_api_params_answer(out, LLS_ENDLESS);
  if (out->min_tokens > most)
    return lls_api_fail(error, 400, NULL, "min_tokens",
                        "'min_tokens' is %lld, more than the %lld tokens allowed",
                        (long long)out->min_tokens, (long long)most);
  return 0;
}

/* Refuses a body that sets both continue_final_message and add_generation_prompt to
 * true; the latter's default of true does not count. */
static int check_ending(const json_t *body, const struct lls_params_context *context,
                        struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  if (!out->continue_final_message ||
      !json_is_true(json_object_get(body, "add_generation_prompt")))
    return 0;
  return lls_api_fail(
      error, 400, NULL, "continue_final_message",
      "'continue_final_message' continues the last message and 'add_generation_prompt' "
      "begins another one: only one of them can be true");
}

static int check_completion(const json_t *body, const struct lls_params_context *context,
                            struct lls_api_params *out, struct lls_api_error *error)
{
  if (check_stream(json_object_get(body, "stream_options"), out, error) != 0 ||
      lls_params_check_samplers(body, context, out, error) != 0 ||
      lls_params_check_logprob_ids(context, out, error) != 0)
    return -1;
  return check_limits(out, error);
}

static int check_chat(const json_t *body, const struct lls_params_context *context,
                      struct lls_api_params *out, struct lls_api_error *error)
{
  if (check_ending(body, context, out, error) != 0 ||
      check_stream(json_object_get(body, "stream_options"), out, error) != 0 ||
      lls_params_check_samplers(body, context, out, error) != 0 ||
      check_chat_alone(out, error) != 0 ||
      lls_params_check_logprob_ids(context, out, error) != 0)
    return -1;
  return check_limits(out, error);
}

static int needs_text(const struct lls_params_context *context,
                      struct lls_api_error *error)
{
  if (!context->is_encoder && !context->headless && !context->scores_pairs)
    return 0;
  return lls_api_fail(error, 400, "unsupported_model", NULL,
                      "this server's model makes no text, it %s: use %s",
                      context->is_encoder     ? "is an encoder"
                      : context->scores_pairs ? "scores pairs of texts"
                                              : "was saved without a head",
                      context->scores_pairs ? "/v1/rerank or /v1/score"
                      : context->classifies ? "/classify"
                                            : "/v1/embeddings");
}

/* ---- vectors ---------------------------------------------------------------------- */

static int refuse_classifier(const struct lls_params_context *context,
                             struct lls_api_error *error)
{
  if (!context->classifies)
    return 0;
  return lls_api_fail(error, 400, "unsupported_model", NULL,
                      "this server's model makes no vectors, it classifies texts: use "
                      "/classify");
}

static int needs_classes(const struct lls_params_context *context,
                         struct lls_api_error *error)
{
  if (context->classifies)
    return 0;
  return lls_api_fail(error, 400, "unsupported_model", NULL,
                      "this server's model does not classify texts: its config.json has "
                      "no classes (a model for sequence classification has two or more "
                      "in \"id2label\")");
}

static int needs_vectors(const struct lls_params_context *context,
                         struct lls_api_error *error)
{
  if (!context->scores_pairs)
    return refuse_classifier(context, error);
  return lls_api_fail(error, 400, "unsupported_model", NULL,
                      "this server's model makes no vectors, it scores pairs of texts: "
                      "use /v1/rerank or /v1/score");
}

static int check_pooling(const struct lls_params_context *context,
                         struct lls_api_error *error)
{
  if (context->pooling->pooling != LLS_POOLING_NONE)
    return 0;
  return lls_api_fail(error, 400, "unsupported_model", NULL,
                      "this server makes no vectors of texts: %s",
                      context->pooling->why_none.text);
}

static int check_embeddings(const json_t *body, const struct lls_params_context *context,
                            struct lls_api_params *out, struct lls_api_error *error)
{
  (void)body;
  const struct lls_pooling_config *pooling = context->pooling;
  if (check_pooling(context, error) != 0)
    return -1;
  if (out->dimensions == LLS_UNSET ||
      lls_pooling_allows(pooling, context->vector_columns, out->dimensions))
    return 0;
  return lls_api_fail(error, 400, NULL, "dimensions",
                      "'dimensions' is %lld; vectors of this model have %u numbers%s",
                      (long long)out->dimensions, context->vector_columns,
                      pooling->matryoshka
                          ? " and may be cut to the lengths that its config.json lists"
                          : " and cannot be cut: it was not trained for that "
                            "(Matryoshka)");
}

/* Returns false with *error set for an instruction that the model's prompt has no place
 * for. */
static bool check_instruction(const json_t *body,
                              const struct lls_params_context *context,
                              struct lls_api_error *error)
{
  const json_t *value = json_object_get(body, "instruction");
  if (value == NULL || json_is_null(value) ||
      (json_is_string(value) && context->takes_instruction))
    return true;
  lls_api_fail(error, 400, NULL, "instruction",
               context->takes_instruction
                   ? "'instruction' must be a string"
                   : "'instruction' is for rerankers that read one, such as "
                     "Qwen3-Reranker; this server's model reads two texts");
  return false;
}

/* Sets top_n to all texts if it is 0, as in vLLM. */
static int check_comparison(const json_t *body, const struct lls_params_context *context,
                            struct lls_api_params *out, struct lls_api_error *error)
{
  if (out->top_n == 0)
    out->top_n = LLS_ENDLESS;
  if (check_pooling(context, error) != 0)
    return -1;
  if (!check_instruction(body, context, error))
    return -1;
  if (context->is_encoder || context->scores_pairs || context->pooling->is_written)
    return 0;
  return lls_api_fail(error, 400, "unsupported_model", NULL,
                      "this server's model makes text, and its files do not say that it "
                      "makes vectors, too (1_Pooling): cosines of it are no scores; "
                      "[model] pooling = last, or mean, allows cosines, and task = "
                      "rerank takes the yes and no of a model such as Qwen3-Reranker");
}

/* ---- the endpoints ----------------------------------------------------------------- */

static const struct rules {
  enum lls_endpoint endpoint;
  int64_t default_tokens; /* limit of an answer's tokens if max_tokens is absent */
  bool has_messages;      /* the template writes the special tokens */
  bool makes_vectors;
  /* each may be NULL */
  int (*check_model)(const struct lls_params_context *context,
                     struct lls_api_error *error);
  check_fn *check;
} rules[] = {
    {LLS_COMPLETIONS, 16, false, false, needs_text, check_completion},
    {LLS_CHAT, LLS_ENDLESS, true, false, needs_text, check_chat},
    {LLS_TOKENIZE, LLS_ENDLESS, false, false, NULL, NULL},
    {LLS_TOKENIZE_CHAT, LLS_ENDLESS, true, false, NULL, check_ending},
    {LLS_DETOKENIZE, LLS_ENDLESS, false, false, NULL, NULL},
    {LLS_EMBEDDINGS, LLS_ENDLESS, false, true, needs_vectors, check_embeddings},
    {LLS_RERANK, LLS_ENDLESS, false, true, refuse_classifier, check_comparison},
    {LLS_SCORE, LLS_ENDLESS, false, true, refuse_classifier, check_comparison},
    {LLS_CLASSIFY, LLS_ENDLESS, false, true, needs_classes, NULL},
};

static const struct rules *rules_of(const struct lls_params_context *context)
{
  const struct rules *row = rules;
  while (row->endpoint != context->endpoint)
    row++;
  return row;
}

int lls_params_check_model(const struct lls_params_context *context,
                           struct lls_api_error *error)
{
  const struct rules *row = rules_of(context);
  return row->check_model != NULL ? row->check_model(context, error) : 0;
}

int lls_params_check(const json_t *body, const struct lls_params_context *context,
                     struct lls_api_params *out, struct lls_api_error *error)
{
  const struct rules *row = rules_of(context);
  return row->check != NULL ? row->check(body, context, out, error) : 0;
}

void lls_params_defaults(const struct lls_params_context *context,
                         struct lls_api_params *out)
{
  const struct rules *row = rules_of(context);
  const struct lls_sampling *defaults = context->defaults;
  *out = (struct lls_api_params){
      .use_activation = true,
      .normalize = true,
      .n = 1,
      .max_tokens = LLS_UNSET,
      .max_completion_tokens = LLS_UNSET,
      .default_tokens = row->default_tokens,
      .temperature = (double)defaults->temperature,
      .top_p = (double)defaults->top_p,
      .min_p = (double)defaults->min_p,
      .top_k = defaults->top_k,
      .repetition_penalty = (double)defaults->repetition_penalty,
      .presence_penalty = (double)defaults->presence_penalty,
      .frequency_penalty = (double)defaults->frequency_penalty,
      .penalty_last_n = LLS_ENDLESS,
      .xtc_threshold = 0.1,
      .typical_p = 1,
      .dynatemp_exponent = 1,
      .mirostat_tau = 5,
      .mirostat_eta = 0.1,
      .dry_base = 1.75,
      .dry_allowed_length = 2,
      .dry_last_n = LLS_ENDLESS,
      .logprobs = LLS_UNSET,
      .prompt_logprobs = LLS_UNSET,
      .truncate_prompt_tokens = LLS_UNSET,
      .pooling = row->makes_vectors ? context->pooling->pooling : LLS_POOLING_NONE,
      .dimensions = LLS_UNSET,
      .top_n = LLS_ENDLESS,
      .return_documents = true,
      .add_special_tokens = !row->has_messages,
      .skip_special_tokens = true,
      .add_generation_prompt = true,
      .include_reasoning = true,
      .thinking_budget = LLS_ENDLESS,
      .tools = {.choice = LLS_TOOL_CHOICE_AUTO, .parallel = true},
      .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER},
  };
}
