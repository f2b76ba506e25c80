/* SPDX-License-Identifier: Apache-2.0 */
/* Builds every object of an answer member by member; see wire.h. */
#include "core/api/wire.h"
#include "core/api/chat_answer.h"

#include <string.h>

static const char *object_name(const struct lls_generation *generation, bool chunk)
{
  if (generation->endpoint == LLS_COMPLETIONS)
    return "text_completion";
  return chunk ? "chat.completion.chunk" : "chat.completion";
}

/* Returns the service tier in which the request was served. */
json_t *lls_wire_service_tier(const struct lls_generation *generation)
{
  static const char *const tiers[] = {"default", "priority", "flex"};
  return json_string(tiers[generation->params.request_class]);
}

/* Returns an answer or a chunk with the members that all kinds have, except for the
 * usage. */
static json_t *envelope(const struct lls_generation *generation, bool chunk,
                        json_t *choices)
{
  json_t *object =
      json_pack("{s:s, s:s, s:I, s:s, s:o, s:s}", "id", generation->id, "object",
                object_name(generation, chunk), "created",
                (json_int_t)generation->created_s, "model", generation->api->model_name,
                "choices", choices, "system_fingerprint", generation->api->fingerprint);
  if (generation->endpoint == LLS_CHAT)
    lls_json_put(&object, "service_tier", lls_wire_service_tier(generation));
  return object;
}

/* Returns the prompt tokens found in the cache. Of the choices of one prompt the one with
 * the fewest counts: it computed the prompt, and the other choices then found its
 * blocks. */
static json_int_t cached_tokens(const struct lls_generation *generation)
{
  uint32_t n = (uint32_t)generation->params.n;
  json_int_t sum = 0;
  for (uint32_t first = 0; first < generation->n_choices; first += n) {
    uint32_t least = UINT32_MAX;
    for (uint32_t i = first; i < first + n; i++)
      if (generation->choices[i].shared_tokens < least)
        least = generation->choices[i].shared_tokens;
    sum += least != UINT32_MAX ? least : 0;
  }
  return sum;
}

static json_t *counts(json_int_t prompt, json_int_t completion)
{
  return json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt, "completion_tokens",
                   completion, "total_tokens", prompt + completion);
}

json_t *lls_wire_usage(const struct lls_generation *generation)
{
  json_int_t prompt = 0, completion = 0, reasoning = 0;
  for (size_t i = 0; i < generation->prompts.count; i++)
    prompt += (json_int_t)generation->prompts.prompts[i].n_tokens;
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    completion += generation->choices[i].n_tokens;
    reasoning += generation->choices[i].n_reasoning;
  }
  json_t *object = counts(prompt, completion);
  lls_json_put(&object, "prompt_tokens_details",
               json_pack("{s:I}", "cached_tokens", cached_tokens(generation)));
  if (generation->endpoint == LLS_CHAT)
    lls_json_put(&object, "completion_tokens_details",
                 json_pack("{s:I}", "reasoning_tokens", reasoning));
  return object;
}

/* True if an optional member is present. If the request did not ask for it, whole answers
 * have it as null, like vLLM's, and chunks omit it. */
static bool reports(const struct lls_generation *generation, bool wanted)
{
  return wanted || !generation->params.stream;
}

static json_t *prompt_ids(const struct lls_choice *choice)
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

/* Adds the members that all choices end with. */
static json_t *end_of_choice(json_t *object, const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  lls_json_put(&object, "logprobs", lls_wire_logprobs(choice));
  lls_json_put(&object, "finish_reason",
               choice->finish_reason != NULL ? json_string(choice->finish_reason)
                                             : json_null());
  lls_json_put(&object, "stop_reason", stop_reason(choice));
  bool completion = generation->endpoint == LLS_COMPLETIONS;
  if (completion && reports(generation, generation->params.prompt_logprobs != LLS_UNSET))
    lls_json_put(&object, "prompt_logprobs", lls_wire_prompt_logprobs(choice));
  if (reports(generation, generation->params.return_token_ids))
    lls_json_put(&object, "token_ids", token_ids(choice));
  if (completion && !choice->begun &&
      reports(generation, generation->params.return_token_ids))
    lls_json_put(&object, "prompt_token_ids", prompt_ids(choice));
  return object;
}

static json_t *ready_text(const struct lls_choice *choice)
{
  return json_stringn(choice->ready > 0 ? choice->text.data : "", choice->ready);
}

static json_t *completion_choice(const struct lls_choice *choice)
{
  json_t *object =
      json_pack("{s:i, s:o}", "index", (int)choice->index, "text", ready_text(choice));
  return end_of_choice(object, choice);
}

json_t *lls_wire_message(const struct lls_choice *choice)
{
  if (choice->parser != NULL)
    return lls_chat_answer_message(choice);
  return json_pack("{s:s, s:o, s:n, s:n}", "role", "assistant", "content",
                   ready_text(choice), "refusal", "reasoning");
}

static json_t *chat_message(const struct lls_choice *choice)
{
  json_t *object = json_pack("{s:i, s:o}", "index", (int)choice->index, "message",
                             lls_wire_message(choice));
  return end_of_choice(object, choice);
}

json_t *lls_wire_delta(const struct lls_choice *choice)
{
  json_t *delta = lls_chat_answer_delta(choice);
  if (choice->ready > 0)
    lls_json_put(&delta, "content", ready_text(choice));
  return delta;
}

static json_t *chat_delta(const struct lls_choice *choice)
{
  json_t *object = json_pack("{s:i, s:o}", "index", (int)choice->index, "delta",
                             lls_wire_delta(choice));
  return end_of_choice(object, choice);
}

/* Returns a chunk with this part of a choice. Its usage counts the choice's n_tokens so
 * far, or is null: the last chunk has the usage of the whole request. */
static json_t *chunk(const struct lls_choice *choice, json_t *part, uint32_t n_tokens)
{
  const struct lls_generation *generation = choice->generation;
  json_t *object = envelope(generation, true, json_pack("[o]", part));
  if (generation->params.continuous_usage)
    lls_json_put(&object, "usage",
                 counts((json_int_t)choice->prompt->n_tokens, n_tokens));
  else if (generation->params.include_usage)
    lls_json_put(&object, "usage", json_null());
  return object;
}

json_t *lls_wire_chunk(const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  json_t *delta =
      generation->endpoint == LLS_CHAT ? chat_delta(choice) : completion_choice(choice);
  return chunk(choice, delta, choice->n_tokens);
}

json_t *lls_wire_role_chunk(const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  json_t *object =
      json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", (int)choice->index, "delta",
                "role", "assistant", "content", "", "logprobs", "finish_reason");
  json_t *whole = chunk(choice, object, 0);
  if (generation->params.return_token_ids)
    lls_json_put(&whole, "prompt_token_ids", prompt_ids(choice));
  return whole;
}

json_t *lls_wire_usage_chunk(const struct lls_generation *generation)
{
  json_t *object = envelope(generation, true, json_array());
  lls_json_put(&object, "usage", lls_wire_usage(generation));
  return object;
}

json_t *lls_wire_whole(const struct lls_generation *generation)
{
  json_t *choices = json_array();
  bool chat = generation->endpoint == LLS_CHAT;
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    const struct lls_choice *choice = &generation->choices[i];
    lls_json_add(&choices, chat ? chat_message(choice) : completion_choice(choice));
  }
  json_t *object = envelope(generation, false, choices);
  lls_json_put(&object, "usage", lls_wire_usage(generation));
  if (!chat)
    return object;
  lls_json_put(&object, "prompt_token_ids", prompt_ids(&generation->choices[0]));
  lls_json_put(&object, "prompt_logprobs",
               lls_wire_prompt_logprobs(&generation->choices[0]));
  return object;
}
