/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/chat/completions: the model answers messages. */
#include "core/api/chat.h"
#include "core/api/chat_answer.h"
#include "core/api/openai/wire.h"

/* Returns an answer or a chunk with their common members, except for the usage. */
static json_t *envelope(const struct lls_generation *generation, const char *object,
                        json_t *choices)
{
  json_t *made = lls_wire_envelope(generation, object, choices);
  lls_json_put(&made, "service_tier",
               json_string(lls_service_tier(generation->params.request_class)));
  return made;
}

static json_t *usage(const struct lls_generation *generation)
{
  struct lls_usage n = lls_generation_usage(generation);
  json_t *object = lls_wire_usage(generation);
  lls_json_put(&object, "completion_tokens_details",
               json_pack("{s:I, s:I, s:I}", "reasoning_tokens", (json_int_t)n.reasoning,
                         "accepted_prediction_tokens", (json_int_t)n.accepted,
                         "rejected_prediction_tokens", (json_int_t)n.rejected));
  return object;
}

/* Returns a choice with its message, or with the part of it that a chunk has; `part` is
 * taken over. */
static json_t *choice_json(const struct lls_choice *choice, const char *name,
                           json_t *part)
{
  json_t *object = json_pack("{s:i, s:o}", "index", (int)choice->index, name, part);
  lls_wire_put_end(&object, choice, lls_wire_chat_logprobs(choice));
  lls_wire_put_token_ids(&object, choice);
  return object;
}

/* ---- a stream ---------------------------------------------------------------------- */

/* Returns a chunk with this part of a choice, which is taken over. */
static json_t *chunk_of(const struct lls_choice *choice, json_t *part, uint32_t n_tokens)
{
  json_t *object =
      envelope(choice->generation, "chat.completion.chunk", json_pack("[o]", part));
  lls_wire_put_usage(&object, choice, n_tokens);
  return object;
}

/* Returns the chunk before a choice's text, which names the role. */
static json_t *role_chunk(const struct lls_choice *choice)
{
  json_t *part =
      json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", (int)choice->index, "delta",
                "role", "assistant", "content", "", "logprobs", "finish_reason");
  json_t *object = chunk_of(choice, part, 0);
  if (choice->generation->params.return_token_ids)
    lls_json_put(&object, "prompt_token_ids", lls_wire_prompt_ids(choice));
  return object;
}

/* Puts the progress into the chunk with the role, or into one without text. */
static json_t *progress(struct lls_choice *choice)
{
  json_t *events = json_array();
  json_t *part = json_pack("{s:i, s:{}, s:n, s:n}", "index", (int)choice->index, "delta",
                           "logprobs", "finish_reason");
  json_t *object = choice->begun ? chunk_of(choice, part, 0) : role_chunk(choice);
  if (!choice->begun)
    json_decref(part);
  lls_wire_put_timings(&object, choice);
  lls_json_put(&object, "prompt_progress", lls_wire_progress(choice));
  lls_json_add(&events, object);
  choice->begun = true;
  return events;
}

static json_t *chunk(struct lls_choice *choice)
{
  json_t *events = json_array();
  if (!choice->begun)
    lls_json_add(&events, role_chunk(choice));
  bool empty = choice->ready == 0 && choice->n_unreported == 0 &&
               !lls_tool_answer_news(&choice->answer);
  if (empty && choice->finish_reason == NULL)
    return events;
  json_t *part = choice_json(choice, "delta", lls_chat_answer_delta(choice));
  json_t *object = chunk_of(choice, part, choice->n_tokens);
  lls_wire_put_timings(&object, choice);
  lls_json_add(&events, object);
  return events;
}

static json_t *end(const struct lls_generation *generation)
{
  json_t *events = json_array();
  if (!generation->params.include_usage)
    return events;
  json_t *object = envelope(generation, "chat.completion.chunk", json_array());
  lls_json_put(&object, "usage", usage(generation));
  lls_wire_put_timings(&object, &generation->choices[0]);
  lls_wire_put_metrics(&object, generation);
  lls_json_add(&events, object);
  return events;
}

/* ---- a whole answer ---------------------------------------------------------------- */

static json_t *whole(const struct lls_generation *generation)
{
  json_t *choices = json_array();
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    const struct lls_choice *choice = &generation->choices[i];
    lls_json_add(&choices,
                 choice_json(choice, "message", lls_chat_answer_message(choice)));
  }
  json_t *object = envelope(generation, "chat.completion", choices);
  lls_json_put(&object, "usage", usage(generation));
  lls_json_put(&object, "prompt_token_ids", lls_wire_prompt_ids(&generation->choices[0]));
  lls_json_put(&object, "prompt_logprobs",
               lls_wire_prompt_logprobs(&generation->choices[0]));
  lls_wire_put_timings(&object, &generation->choices[0]);
  lls_wire_put_metrics(&object, generation);
  return object;
}

const struct lls_dialect lls_chat_completions = {
    .id_prefix = "chatcmpl-",
    .params_of = LLS_CHAT,
    .is_chat = true,
    .batch_path = "/v1/chat/completions",
    .framing = &lls_framing_data,
    .read_prompts = lls_chat_read_prompts,
    .whole = whole,
    .chunk = chunk,
    .progress = progress,
    .end = end,
    .failure = lls_wire_failure,
    .error = lls_api_error_json,
};

/* ---- counting ---------------------------------------------------------------------- */

static json_t *count(const struct lls_generation *generation)
{
  return json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens",
                   (json_int_t)lls_generation_usage(generation).prompt);
}

/* POST /v1/chat/completions/input_tokens, llama.cpp's. */
const struct lls_dialect lls_chat_counts = {
    .id_prefix = "chatcmpl-",
    .params_of = LLS_CHAT,
    .is_chat = true,
    .read_prompts = lls_chat_read_prompts,
    .count = count,
    .error = lls_api_error_json,
};
