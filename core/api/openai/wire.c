/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the objects that completions and chats share member by member; see wire.h. */
#include "core/api/openai/wire.h"

#include <stdio.h>
#include <string.h>

json_t *lls_wire_envelope(const struct lls_generation *generation, const char *object,
                          json_t *choices)
{
  return json_pack("{s:s, s:s, s:I, s:s, s:o, s:s}", "id", generation->id, "object",
                   object, "created", (json_int_t)generation->created_s, "model",
                   lls_generation_model(generation), "choices", choices,
                   "system_fingerprint", generation->api->fingerprint);
}

static json_t *counts(int64_t prompt, int64_t completion)
{
  return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)prompt,
                   "completion_tokens", (json_int_t)completion, "total_tokens",
                   (json_int_t)(prompt + completion));
}

json_t *lls_wire_usage(const struct lls_generation *generation)
{
  struct lls_usage usage = lls_generation_usage(generation);
  json_t *object = counts(usage.prompt, usage.completion);
  lls_json_put(&object, "prompt_tokens_details",
               json_pack("{s:I}", "cached_tokens", (json_int_t)usage.cached));
  return object;
}

void lls_wire_put_usage(json_t **chunk, const struct lls_choice *choice,
                        uint32_t n_tokens)
{
  const struct lls_api_params *params = &choice->generation->params;
  if (params->continuous_usage)
    lls_json_put(chunk, "usage", counts((int64_t)choice->prompt->n_tokens, n_tokens));
  else if (params->include_usage)
    lls_json_put(chunk, "usage", json_null());
}

static double milliseconds(int64_t from_ns, int64_t to_ns)
{
  return from_ns > 0 && to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0;
}

/* Puts a phase's tokens and time under names that begin with `prefix`. timed: the number
 * of tokens that were computed in the time. */
static void put_phase(json_t **timings, const char *prefix, int64_t tokens, int64_t timed,
                      double ms)
{
  const struct {
    const char *name;
    double value;
  } figures[] = {{"ms", ms},
                 {"per_token_ms", timed > 0 ? ms / (double)timed : 0},
                 {"per_second", ms > 0 ? (double)timed * 1e3 / ms : 0}};
  char name[48];
  snprintf(name, sizeof name, "%s_n", prefix);
  lls_json_put(timings, name, json_integer((json_int_t)tokens));
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    snprintf(name, sizeof name, "%s_%s", prefix, figures[i].name);
    lls_json_put(timings, name, json_real(figures[i].value));
  }
}

/* Returns the prompt's tokens that were computed so far, without those found in the
 * cache: all, unless the answer is a report of progress. */
static int64_t computed_of(const struct lls_choice *choice, int64_t cached)
{
  bool begins = choice->first_token_ns == 0 && choice->progress_ns > 0;
  return (begins ? choice->n_computed : (int64_t)choice->prompt->n_tokens) - cached;
}

/* Returns the time until the first token, or until the last report of progress: 0 before
 * a token is computed. */
static double prompt_ms(const struct lls_choice *choice, int64_t computed)
{
  int64_t end_ns =
      choice->first_token_ns > 0 ? choice->first_token_ns : choice->progress_ns;
  return computed > 0 ? milliseconds(choice->generation->arrival_ns, end_ns) : 0;
}

json_t *lls_wire_timings(const struct lls_choice *choice)
{
  bool known = choice->shared_tokens != UINT32_MAX;
  int64_t cached = known ? choice->shared_tokens : 0;
  json_t *timings = json_pack("{s:I}", "cache_n", (json_int_t)cached);
  int64_t prompt = computed_of(choice, cached), n = choice->n_tokens;
  put_phase(&timings, "prompt", prompt, prompt, prompt_ms(choice, prompt));
  /* the prompt's last step makes the first token */
  put_phase(&timings, "predicted", n, n > 0 ? n - 1 : 0,
            milliseconds(choice->first_token_ns, choice->last_token_ns));
  return timings;
}

void lls_wire_put_timings(json_t **object, const struct lls_choice *choice)
{
  if (choice->generation->params.timings)
    lls_json_put(object, "timings", lls_wire_timings(choice));
}

void lls_wire_put_metrics(json_t **object, const struct lls_generation *generation)
{
  const struct lls_choice *choice = &generation->choices[0];
  if (!generation->api->config.limits.request_metrics)
    return;
  double prefill = (double)choice->prefill_ns / 1e6, n = choice->n_tokens;
  double decode = milliseconds(choice->first_token_ns, choice->last_token_ns);
  json_t *metrics = json_pack("{s:f, s:f, s:f}", "time_to_first_token_ms", prefill,
                              "generation_time_ms", decode, "queue_time_ms",
                              (double)choice->queued_ns / 1e6);
  if (n > 1)
    lls_json_put(&metrics, "mean_itl_ms", json_real(decode / (n - 1)));
  if (prefill + decode > 0)
    lls_json_put(&metrics, "tokens_per_second", json_real(n * 1e3 / (prefill + decode)));
  lls_json_put(object, "metrics", metrics);
}

json_t *lls_wire_progress(const struct lls_choice *choice)
{
  double ms = milliseconds(choice->generation->arrival_ns, choice->progress_ns);
  return json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)choice->prompt->n_tokens,
                   "cache", (json_int_t)choice->shared_tokens, "processed",
                   (json_int_t)choice->n_computed, "time_ms", (json_int_t)ms);
}

bool lls_wire_reports(const struct lls_generation *generation, bool wanted)
{
  return wanted || !generation->params.stream;
}

json_t *lls_wire_prompt_ids(const struct lls_choice *choice)
{
  if (!choice->generation->params.return_token_ids)
    return json_null();
  json_t *ids = json_array();
  for (size_t i = 0; i < choice->prompt->n_tokens; i++)
    lls_json_add(&ids, json_integer(choice->prompt->tokens[i]));
  return ids;
}

static json_t *token_ids(const struct lls_choice *choice)
{
  if (!choice->generation->params.return_token_ids)
    return json_null();
  json_t *ids = json_array();
  for (uint32_t i = 0; i < choice->n_unreported; i++)
    lls_json_add(&ids, json_integer(choice->tokens[i].token));
  return ids;
}

void lls_wire_put_token_ids(json_t **object, const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  if (lls_wire_reports(generation, generation->params.return_token_ids))
    lls_json_put(object, "token_ids", token_ids(choice));
}

/* Returns what stopped the choice: a string, a token id, or null. */
static json_t *stop_reason(const struct lls_choice *choice)
{
  if (choice->stop_string != NULL)
    return json_stringn(choice->stop_string->text, choice->stop_string->length);
  if (choice->stop_regex != NULL) {
    size_t length;
    const char *pattern = lls_regex_finder_pattern(choice->stop_regex, &length);
    return json_stringn(pattern, length);
  }
  return choice->stop_token >= 0 ? json_integer(choice->stop_token) : json_null();
}

void lls_wire_put_end(json_t **object, const struct lls_choice *choice, json_t *logprobs)
{
  lls_json_put(object, "logprobs", logprobs);
  lls_json_put(object, "finish_reason",
               choice->finish_reason != NULL ? json_string(choice->finish_reason)
                                             : json_null());
  lls_json_put(object, "stop_reason", stop_reason(choice));
}

json_t *lls_wire_failure(const struct lls_generation *generation,
                         const struct lls_api_error *error)
{
  (void)generation;
  return json_pack("[o]", lls_api_error_json(error));
}
