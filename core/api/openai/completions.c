/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/completions: the model continues a text. POST /invocations: one of three
 * dialects. */
#include "core/api/openai/wire.h"

#define OBJECT "text_completion"

static int read_prompts(const struct lls_api_config *config, const json_t *body,
                        const struct lls_api_params *params,
                        struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_prompts_read(config, json_object_get(body, "prompt"), "prompt", params,
                          prompts, error);
}

static json_t *choice_json(const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  const struct lls_api_params *params = &generation->params;
  json_t *object = json_pack("{s:i, s:o}", "index", (int)choice->index, "text",
                             lls_choice_text(choice));
  lls_wire_put_end(&object, choice, lls_wire_completion_logprobs(choice));
  if (lls_wire_reports(generation, params->prompt_logprobs != LLS_UNSET))
    lls_json_put(&object, "prompt_logprobs", lls_wire_prompt_logprobs(choice));
  lls_wire_put_token_ids(&object, choice);
  if (!choice->begun && lls_wire_reports(generation, params->return_token_ids))
    lls_json_put(&object, "prompt_token_ids", lls_wire_prompt_ids(choice));
  return object;
}

static json_t *chunk(struct lls_choice *choice)
{
  json_t *events = json_array();
  bool empty = choice->ready == 0 && choice->n_unreported == 0;
  if (empty && choice->finish_reason == NULL)
    return events;
  json_t *object = lls_wire_envelope(choice->generation, OBJECT,
                                     json_pack("[o]", choice_json(choice)));
  lls_wire_put_usage(&object, choice, choice->n_tokens);
  lls_wire_put_timings(&object, choice);
  lls_json_add(&events, object);
  choice->text_offset += lls_wire_logprobs_characters(choice);
  return events;
}

static json_t *progress(struct lls_choice *choice)
{
  json_t *part = json_pack("{s:i, s:s, s:n, s:n}", "index", (int)choice->index, "text",
                           "", "logprobs", "finish_reason");
  json_t *object = lls_wire_envelope(choice->generation, OBJECT, json_pack("[o]", part));
  lls_wire_put_usage(&object, choice, 0);
  lls_wire_put_timings(&object, choice);
  lls_json_put(&object, "prompt_progress", lls_wire_progress(choice));
  return json_pack("[o]", object);
}

static json_t *end(const struct lls_generation *generation)
{
  json_t *events = json_array();
  if (!generation->params.include_usage)
    return events;
  json_t *object = lls_wire_envelope(generation, OBJECT, json_array());
  lls_json_put(&object, "usage", lls_wire_usage(generation));
  lls_wire_put_metrics(&object, generation);
  lls_json_add(&events, object);
  return events;
}

static json_t *whole(const struct lls_generation *generation)
{
  json_t *choices = json_array();
  for (uint32_t i = 0; i < generation->n_choices; i++)
    lls_json_add(&choices, choice_json(&generation->choices[i]));
  json_t *object = lls_wire_envelope(generation, OBJECT, choices);
  lls_json_put(&object, "usage", lls_wire_usage(generation));
  lls_wire_put_timings(&object, &generation->choices[0]);
  lls_wire_put_metrics(&object, generation);
  return object;
}

const struct lls_dialect lls_completions = {
    .id_prefix = "cmpl-",
    .params_of = LLS_COMPLETIONS,
    .batch_path = "/v1/completions",
    .framing = &lls_framing_data,
    .read_prompts = read_prompts,
    .whole = whole,
    .chunk = chunk,
    .progress = progress,
    .end = end,
    .failure = lls_wire_failure,
    .error = lls_api_error_json,
};

/* ---- /invocations ------------------------------------------------------------------ */

/* Returns the dialect of a body under the path by which SageMaker asks a server, as in
 * vLLM. */
static const struct lls_dialect *pick(const json_t *body)
{
  if (json_object_get(body, "messages") != NULL)
    return &lls_chat_completions;
  return json_object_get(body, "input") != NULL ? &lls_embeddings : &lls_completions;
}

static const struct lls_body_member any_members[] = {{NULL, NULL, false}};

/* Only pick and error are used: each request is one of the dialect that pick returns. */
const struct lls_dialect lls_invocations = {
    .id_prefix = "cmpl-",
    .members = any_members,
    .alone = true,
    .params_of = LLS_COMPLETIONS,
    .framing = &lls_framing_data,
    .pick = pick,
    .failure = lls_wire_failure,
    .error = lls_api_error_json,
};
