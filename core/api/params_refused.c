/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of other servers that have no effect here. A parameter that would change the
 * answer is refused by name, unless its value is the neutral one. All others are reported
 * to the client in the header x-llmserve-ignored (api_request.c).
 */
#include <math.h>
#include <string.h>

#include "core/api/params_internal.h"

#define GENERATES (LLS_COMPLETIONS | LLS_CHAT)
#define VECTORS   (LLS_EMBEDDINGS | LLS_RERANK | LLS_SCORE | LLS_CLASSIFY)
#define SERVED    (GENERATES | VECTORS)

struct refused {
  const char *name;
  unsigned endpoints;
  double neutral;   /* the number that has no effect, or NAN */
  const char *hint; /* what to do instead, or NULL */
};

static const struct refused refused[] = {
    {"best_of", LLS_COMPLETIONS, 1, "'n' samples"},
    {"custom_logit_processor", GENERATES, NAN, NULL},
    {"embd_normalize", LLS_EMBEDDINGS, 2,
     "'normalize': false leaves vectors as they are"},
    {"early_stopping", GENERATES, NAN, NULL},
    {"epsilon_cutoff", GENERATES, 0, "use 'min_p'"},
    {"eta_cutoff", GENERATES, 0, "use 'min_p'"},
    {"format", GENERATES, NAN, "use 'response_format'"},
    {"functions", LLS_CHAT, NAN, "use 'tools'"},
    {"image_data", SERVED, NAN, "this model reads text only"},
    {"instruction", LLS_EMBEDDINGS, NAN, "put it into the texts"},
    {"length_penalty", GENERATES, 1, NULL},
    {"logits_processors", GENERATES, NAN, NULL},
    {"lora", VECTORS, NAN, "'model' names the adapter"},
    {"lora_adapter", SERVED, NAN, "'model' names the adapter"},
    {"lora_name", SERVED, NAN, "'model' names the adapter"},
    {"lora_path", SERVED, NAN, "'model' names the adapter"},
    {"lora_request", SERVED, NAN, "'model' names the adapter"},
    {"adapter_id", SERVED, NAN, "'model' names the adapter"},
    {"max_thinking_tokens", LLS_COMPLETIONS, -1, "a chat has it"},
    {"n_probs", GENERATES, 0, "use 'logprobs'"},
    {"prompt_embeds", GENERATES, NAN, "prompts are text or token ids"},
    {"reasoning_budget", LLS_COMPLETIONS, -1, "a chat has it"},
    {"repeat_penalty", GENERATES, 1, "use 'repetition_penalty'"},
    {"repetition_detection", GENERATES, NAN, NULL},
    {"return_hidden_states", GENERATES, NAN, NULL},
    {"suffix", LLS_COMPLETIONS, NAN, NULL},
    {"tfs_z", GENERATES, 1, "use 'top_p' or 'min_p'"},
    {"thinking_budget", LLS_COMPLETIONS, -1, "a chat has it"},
    {"thinking_budget_tokens", LLS_COMPLETIONS, -1, "a chat has it"},
    {"thinking_token_budget", LLS_COMPLETIONS, -1, "a chat has it"},
    {"top_a", GENERATES, 0, "use 'min_p'"},
    {"use_beam_search", GENERATES, NAN, "'n' samples"},
    {"watermark", GENERATES, NAN, NULL},
    {"watermarking", GENERATES, NAN, NULL},
    {"web_search_options", GENERATES, NAN, "this server searches nothing"},
};

/* Names that clients send regardless of the server: accepted even with strict_params. */
static const char *const harmless[] = {
    "audio",
    "context_management",
    "function_call",
    "guided_decoding_backend",
    "guided_whitespace_pattern",
    "include",
    "input_type",
    "max_tool_calls",
    "metadata",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "request_id",
    "safety_identifier",
    "session_id",
    "store",
    "stream_options.include_obfuscation",
    "verbosity",
};

/* Parameters that are true where a request leaves them out: false asks for something. */
static const char *const on_by_default[] = {"detokenize", "parse_tool_calls",
                                            "spaces_between_special_tokens", "truncate"};

const char *const lls_param_variables[] = {"reasoning_effort", "enable_thinking",
                                           "thinking", "documents", NULL};

bool lls_param_is_harmless(const char *name)
{
  for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
    if (strcmp(harmless[i], name) == 0)
      return true;
  return false;
}

bool lls_param_asks_nothing(const json_t *value)
{
  if (json_is_string(value))
    return json_string_length(value) == 0;
  if (json_is_array(value))
    return json_array_size(value) == 0;
  if (json_is_object(value))
    return json_object_size(value) == 0;
  return json_is_false(value) || json_is_null(value);
}

bool lls_param_asks(const char *name, const json_t *value)
{
  for (size_t i = 0; i < sizeof on_by_default / sizeof *on_by_default; i++)
    if (json_is_boolean(value) && strcmp(on_by_default[i], name) == 0)
      return json_is_false(value);
  return !lls_param_asks_nothing(value);
}

int lls_params_refuse(const json_t *body, enum lls_endpoint endpoint,
                      struct lls_api_error *error)
{
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const struct refused *r = &refused[i];
    const json_t *value = json_object_get(body, r->name);
    if (value == NULL || (r->endpoints & endpoint) == 0 ||
        lls_param_asks_nothing(value) ||
        (json_is_number(value) && json_number_value(value) == r->neutral))
      continue;
    return lls_api_fail(error, 400, "unsupported_parameter", r->name,
                        "'%s' is not supported%s%s", r->name, r->hint != NULL ? ": " : "",
                        r->hint != NULL ? r->hint : "");
  }
  return 0;
}

bool lls_param_refused_row(size_t i, const char **name, unsigned *endpoints)
{
  if (i >= sizeof refused / sizeof *refused)
    return false;
  *name = refused[i].name;
  *endpoints = refused[i].endpoints;
  return true;
}

bool lls_param_is_refused(const char *name, enum lls_endpoint endpoint)
{
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if ((refused[i].endpoints & endpoint) != 0 && strcmp(refused[i].name, name) == 0)
      return true;
  return false;
}
