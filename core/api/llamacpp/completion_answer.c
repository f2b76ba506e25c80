/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the answers of /completion and /infill, whole and as events; see llamacpp.h. */
#include "core/api/llamacpp/llamacpp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/openai/wire.h"
#include "text/tokenizer/tokenizer.h"

#define NO_SEED INT64_C(4294967295) /* llama.cpp's number for a random seed */

/* ---- settings ---------------------------------------------------------------------- */

static json_t *stops_json(const struct lls_stop_set *stops)
{
  json_t *list = json_array();
  for (size_t i = 0; i < stops->count; i++)
    lls_json_add(&list, json_stringn(stops->strings[i].text, stops->strings[i].length));
  return list;
}

static json_int_t count_json(int64_t count)
{
  return count == LLS_ENDLESS || count == LLS_UNSET ? -1 : (json_int_t)count;
}

/* Puts the samplers that vLLM lacks; adaptive_p, which this server lacks, too, is
 * neutral. */
static void put_samplers(json_t **settings, const struct lls_api_params *params)
{
  const struct {
    const char *name;
    double value;
  } values[] = {{"dynatemp_range", params->dynatemp_range},
                {"dynatemp_exponent", params->dynatemp_exponent},
                {"xtc_probability", params->xtc_probability},
                {"xtc_threshold", params->xtc_threshold},
                {"typical_p", params->typical_p},
                {"top_n_sigma", params->top_n_sigma},
                {"mirostat_tau", params->mirostat_tau},
                {"mirostat_eta", params->mirostat_eta},
                {"dry_multiplier", params->dry_multiplier},
                {"dry_base", params->dry_base},
                {"adaptive_target", -1},
                {"adaptive_decay", 0}};
  const struct {
    const char *name;
    json_int_t value;
  } counts[] = {{"mirostat", params->mirostat},
                {"repeat_last_n", count_json(params->penalty_last_n)},
                {"dry_allowed_length", params->dry_allowed_length},
                {"dry_penalty_last_n", count_json(params->dry_last_n)}};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    lls_json_put(settings, values[i].name, json_real(values[i].value));
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    lls_json_put(settings, counts[i].name, json_integer(counts[i].value));
}

/* Returns the biases; null, which stands for minus infinity, for the end tokens that
 * ignore_eos leaves out. */
static json_t *biases_json(const struct lls_api *api, const struct lls_api_params *params)
{
  json_t *list = json_array();
  int32_t eos = lls_tokenizer_eos(api->config.tokenizer);
  for (size_t i = 0; i < params->n_bias; i++)
    lls_json_add(&list, json_pack("{s:f, s:i}", "bias", (double)params->bias[i].bias,
                                  "token", (int)params->bias[i].token));
  if (params->ignore_eos && eos >= 0)
    lls_json_add(&list, json_pack("{s:n, s:i}", "bias", "token", (int)eos));
  return list;
}

static json_int_t seed_of(const struct lls_api *api, const struct lls_api_params *params)
{
  if (params->has_seed)
    return (json_int_t)params->seed;
  return api->config.seed != 0 ? (json_int_t)api->config.seed : NO_SEED;
}

json_t *lls_llamacpp_settings(const struct lls_api *api,
                              const struct lls_api_params *params)
{
  json_int_t most = count_json(params->max_tokens);
  json_t *settings =
      json_pack("{s:I, s:I, s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:I, s:b}",
                "n_predict", most, "max_tokens", most, "seed", seed_of(api, params),
                "temperature", params->temperature, "top_k", (json_int_t)params->top_k,
                "top_p", params->top_p, "min_p", params->min_p, "repeat_penalty",
                params->repetition_penalty, "presence_penalty", params->presence_penalty,
                "frequency_penalty", params->frequency_penalty, "ignore_eos",
                params->ignore_eos, "stream", params->stream, "n_probs",
                (json_int_t)(params->logprobs > 0 ? params->logprobs : 0),
                "timings_per_token", params->timings);
  lls_json_put(&settings, "stop", stops_json(&params->stop));
  lls_json_put(&settings, "logit_bias", biases_json(api, params));
  put_samplers(&settings, params);
  return settings;
}

/* ---- parts ------------------------------------------------------------------------- */

static void put_id(json_t *object, int32_t token)
{
  json_object_set_new(object, "id", json_integer(token));
}

/* Turns the log probability of post_sampling_probs into a probability. */
static void put_probability(json_t *token)
{
  double logprob = json_number_value(json_object_get(token, "logprob"));
  json_object_set_new(token, "prob", json_real(exp(logprob)));
  json_object_del(token, "logprob");
}

/* Gives a token's probabilities the names that they have with post_sampling_probs. */
static void name_probabilities(json_t *token)
{
  size_t i;
  json_t *other, *top = json_object_get(token, "top_logprobs");
  json_array_foreach(top, i, other)
  {
    put_probability(other);
  }
  put_probability(token);
  json_object_set(token, "top_probs", top);
  json_object_del(token, "top_logprobs");
}

/* Returns the probabilities of the tokens not reported yet. */
static json_t *probabilities(const struct lls_choice *choice)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < choice->n_unreported; i++) {
    const struct lls_sampled *sampled = &choice->tokens[i];
    json_t *token = lls_wire_chat_token(choice, sampled);
    json_t *top = json_object_get(token, "top_logprobs");
    put_id(token, sampled->token);
    for (uint32_t k = 0; k < sampled->n_top; k++)
      put_id(json_array_get(top, k), sampled->top_token[k]);
    if (choice->generation->params.drawn_logprobs)
      name_probabilities(token);
    lls_json_add(&list, token);
  }
  return list;
}

static json_t *token_ids(const struct lls_choice *choice)
{
  json_t *ids = json_array();
  bool wanted = choice->generation->params.return_token_ids;
  for (uint32_t i = 0; wanted && i < choice->n_unreported; i++)
    lls_json_add(&ids, json_integer(choice->tokens[i].token));
  return ids;
}

/* Returns the members that an event and the last one share; takes over content and
 * tokens. */
static json_t *envelope(const struct lls_choice *choice, json_t *content, json_t *tokens,
                        bool stop)
{
  return json_pack("{s:i, s:o, s:o, s:i, s:b, s:I, s:I}", "index", (int)choice->index,
                   "content", content, "tokens", tokens, "id_slot", -1, "stop", stop,
                   "tokens_predicted", (json_int_t)choice->n_tokens, "tokens_evaluated",
                   (json_int_t)choice->prompt->n_tokens);
}

static const char *stop_type(const struct lls_choice *choice)
{
  if (choice->finish_reason != NULL && strcmp(choice->finish_reason, "length") == 0)
    return "limit";
  return choice->stop_string != NULL || choice->stop_regex != NULL ? "word" : "eos";
}

static json_t *stopping_word(const struct lls_choice *choice)
{
  const struct lls_stop_string *word = choice->stop_string;
  return word != NULL ? json_stringn(word->text, word->length) : json_string("");
}

/* Returns true if the answer ended because the context had no more room. */
static bool fills_context(const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  uint64_t used = choice->prompt->n_tokens + choice->n_tokens;
  return used >= generation->api->config.max_context &&
         (int64_t)choice->n_tokens < generation->params.max_tokens;
}

/* Returns the text of the prompt's tokens, the special ones among them. */
static json_t *prompt_text(const struct lls_choice *choice)
{
  struct lls_text text = {0};
  lls_api_decode(&choice->generation->api->config, choice->prompt->tokens,
                 choice->prompt->n_tokens, false, &text);
  json_t *prompt = json_stringn(text.data != NULL ? text.data : "", text.length);
  lls_text_free(&text);
  return prompt;
}

/* Puts the members of a finished answer. */
static void put_end(json_t **object, const struct lls_choice *choice, bool new_line)
{
  const struct lls_generation *generation = choice->generation;
  const struct lls_api_prompt *prompt = choice->prompt;
  lls_json_put(object, "model", json_string(lls_generation_model(generation)));
  lls_json_put(object, "generation_settings",
               lls_llamacpp_settings(generation->api, &generation->params));
  lls_json_put(object, "prompt", prompt_text(choice));
  lls_json_put(object, "has_new_line", json_boolean(new_line));
  lls_json_put(object, "truncated", json_boolean(fills_context(choice)));
  lls_json_put(object, "stop_type", json_string(stop_type(choice)));
  lls_json_put(object, "stopping_word", stopping_word(choice));
  lls_json_put(object, "tokens_cached",
               json_integer((json_int_t)(prompt->n_tokens + choice->n_tokens)));
  lls_json_put(object, "timings", lls_wire_timings(choice));
}

/* Returns the value of a path such as "generation_settings/seed", borrowed, or NULL. */
static json_t *at_path(json_t *object, const char *path)
{
  char part[64];
  for (; object != NULL && *path != '\0'; path += *path == '/') {
    size_t length = strcspn(path, "/");
    if (length == 0 || length >= sizeof part)
      return NULL;
    memcpy(part, path, length);
    part[length] = '\0';
    object = json_object_get(object, part);
    path += length;
  }
  return object;
}

/* Leaves only the members that the client wants; takes over the object. */
static json_t *wanted(const struct lls_choice *choice, json_t *object)
{
  size_t i;
  const json_t *field;
  const struct lls_llamacpp_answer *answer = choice->generation->state;
  if (answer->fields == NULL || object == NULL)
    return object;
  json_t *some = json_object();
  json_array_foreach(answer->fields, i, field)
  {
    json_t *value = at_path(object, json_string_value(field));
    if (value != NULL)
      lls_json_put(&some, json_string_value(field), json_incref(value));
  }
  json_decref(object);
  return some;
}

/* ---- whole ------------------------------------------------------------------------- */

static bool has_new_line(const struct lls_choice *choice)
{
  return choice->ready > 0 && memchr(choice->text.data, '\n', choice->ready) != NULL;
}

json_t *lls_llamacpp_choice(const struct lls_choice *choice, json_t *content)
{
  json_t *object = envelope(choice, content, token_ids(choice), true);
  put_end(&object, choice, has_new_line(choice));
  if (choice->generation->params.logprobs != LLS_UNSET)
    lls_json_put(&object, "completion_probabilities", probabilities(choice));
  return wanted(choice, object);
}

static json_t *whole_choice(const struct lls_choice *choice)
{
  return lls_llamacpp_choice(choice, lls_choice_text(choice));
}

json_t *lls_llamacpp_whole(const struct lls_generation *generation)
{
  if (generation->n_choices == 1)
    return whole_choice(&generation->choices[0]);
  json_t *list = json_array();
  for (uint32_t i = 0; i < generation->n_choices; i++)
    lls_json_add(&list, whole_choice(&generation->choices[i]));
  return list;
}

/* ---- events ------------------------------------------------------------------------ */

static json_t *piece(const struct lls_choice *choice)
{
  const struct lls_api_params *params = &choice->generation->params;
  json_t *event = envelope(choice, lls_choice_text(choice), token_ids(choice), false);
  if (params->logprobs != LLS_UNSET)
    lls_json_put(&event, "completion_probabilities", probabilities(choice));
  lls_wire_put_timings(&event, choice);
  return event;
}

json_t *lls_llamacpp_progress(struct lls_choice *choice)
{
  json_t *event = envelope(choice, json_string(""), json_array(), false);
  lls_wire_put_timings(&event, choice);
  lls_json_put(&event, "prompt_progress", lls_wire_progress(choice));
  return json_pack("[o]", event);
}

/* Returns the note of the choice's line ends, or NULL if out of memory. */
static bool *new_line_of(const struct lls_choice *choice)
{
  struct lls_generation *generation = choice->generation;
  struct lls_llamacpp_answer *answer = generation->state;
  if (answer->new_lines == NULL)
    answer->new_lines = calloc(generation->n_choices, sizeof *answer->new_lines);
  generation->incomplete |= answer->new_lines == NULL;
  return answer->new_lines != NULL ? &answer->new_lines[choice->index] : NULL;
}

json_t *lls_llamacpp_chunk(struct lls_choice *choice)
{
  json_t *events = json_array();
  bool *new_line = new_line_of(choice);
  if (new_line == NULL)
    return events;
  *new_line |= has_new_line(choice);
  if (choice->ready > 0 || choice->n_unreported > 0)
    lls_json_add(&events, piece(choice));
  if (choice->finish_reason != NULL) {
    json_t *last = envelope(choice, json_string(""), json_array(), true);
    put_end(&last, choice, *new_line);
    lls_json_add(&events, wanted(choice, last));
  }
  return events;
}

json_t *lls_llamacpp_end(const struct lls_generation *generation)
{
  (void)generation;
  return json_array();
}

/* ---- errors ------------------------------------------------------------------------ */

static const char *error_type(unsigned status)
{
  static const struct {
    unsigned status;
    const char *type;
  } types[] = {{401, "authentication_error"}, {403, "permission_error"},
               {404, "not_found_error"},      {429, "rate_limit_error"},
               {501, "not_supported_error"},  {503, "unavailable_error"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].status == status)
      return types[i].type;
  return status < 500 ? "invalid_request_error" : "server_error";
}

/* Puts llama.cpp's words for a prompt that is too long, and the numbers of tokens. */
static void put_excess(json_t *inner, const struct lls_api_error *error)
{
  json_object_set_new(inner, "type", json_string("exceed_context_size_error"));
  json_object_set_new(inner, "message",
                      json_sprintf("the request is too large: it exceeds the available "
                                   "context size. %s",
                                   error->message.text));
  if (error->prompt_tokens == 0)
    return;
  json_object_set_new(inner, "n_prompt_tokens",
                      json_integer((json_int_t)error->prompt_tokens));
  json_object_set_new(inner, "n_ctx", json_integer((json_int_t)error->context_tokens));
}

/* llama.cpp's code is the status. */
json_t *lls_llamacpp_error(const struct lls_api_error *error)
{
  json_t *made = lls_api_error_json(error);
  json_t *inner = json_object_get(made, "error");
  if (inner == NULL)
    return made;
  json_object_set_new(inner, "type", json_string(error_type(error->status)));
  if (error->code != NULL && strcmp(error->code, "context_length_exceeded") == 0)
    put_excess(inner, error);
  json_object_set_new(inner, "code", json_integer((json_int_t)error->status));
  return made;
}

json_t *lls_llamacpp_failure(const struct lls_generation *generation,
                             const struct lls_api_error *error)
{
  (void)generation;
  return json_pack("[o]", lls_llamacpp_error(error));
}

void lls_llamacpp_free(void *state)
{
  struct lls_llamacpp_answer *answer = state;
  if (answer == NULL)
    return;
  json_decref(answer->fields);
  free(answer->new_lines);
  free(answer);
}
