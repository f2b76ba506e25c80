/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [server] llamacpp: the dialects that paths shared with OpenAI's API have where clients
 * expect llama-server. /completions is its /completion. A chat continues its last
 * message if that is the assistant's, begins a stream with a content of null, and shows
 * its prompt and settings as "__verbose" to clients that want them. Errors have the types
 * of llama-server.
 */
#include "core/api/llamacpp/llamacpp.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/chat.h"
#include "core/api/chat_answer.h"

/* ---- the request ------------------------------------------------------------------- */

static bool is_assistants(const json_t *messages, size_t i)
{
  const json_t *message = json_array_get(messages, i);
  const char *role = json_string_value(json_object_get(message, "role"));
  return role != NULL && strcmp(role, "assistant") == 0;
}

/* Lets the answer continue a last message of the assistant, unless the client says how
 * the prompt ends. */
static int set_continuation(json_t *form, struct lls_api_error *error)
{
  const json_t *messages = json_object_get(form, "messages");
  size_t n = json_array_size(messages);
  if (n == 0 || !is_assistants(messages, n - 1))
    return 0;
  if (n > 1 && is_assistants(messages, n - 2))
    return lls_api_fail(error, 400, NULL, "messages",
                        "'messages' ends with two messages of the assistant: the answer "
                        "continues one");
  const json_t *calls = json_object_get(json_array_get(messages, n - 1), "tool_calls");
  if (json_array_size(calls) == 0 &&
      json_object_get(form, "continue_final_message") == NULL &&
      json_object_get(form, "add_generation_prompt") == NULL)
    json_object_set_new(form, "continue_final_message", json_true());
  return 0;
}

static json_t *translate(json_t *body, const struct lls_past *past, void **state,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  struct lls_llamacpp_answer *answer = calloc(1, sizeof *answer);
  json_t *form = json_copy(body);
  (void)past;
  (void)unknown;
  if (answer == NULL || form == NULL)
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
  else if (set_continuation(form, error) == 0) {
    answer->verbose = json_is_true(json_object_get(form, "verbose"));
    json_object_del(form, "verbose");
    *state = answer;
    return form;
  }
  free(answer);
  json_decref(form);
  return NULL;
}

/* ---- the answer -------------------------------------------------------------------- */

/* Returns true if the client wants "__verbose", or the log's level is debug, which is
 * llama-server's --verbose. */
static bool is_verbose(const struct lls_generation *generation)
{
  const struct lls_llamacpp_answer *answer = generation->state;
  const struct lls_log *log = generation->api->config.log;
  return answer->verbose || (log != NULL && log->level >= LLS_LOG_DEBUG);
}

static json_t *whole(const struct lls_generation *generation)
{
  json_t *object = lls_chat_completions.whole(generation);
  const struct lls_choice *choice = &generation->choices[0];
  if (!is_verbose(generation))
    return object;
  json_t *message = lls_chat_answer_message(choice);
  json_t *content = json_object_get(message, "content");
  lls_json_put(&object, "__verbose",
               lls_llamacpp_choice(choice, json_is_string(content) ? json_incref(content)
                                                                   : json_string("")));
  json_decref(message);
  return object;
}

/* Sets the content of the event that names the role, the first one, to null. */
static void begin(json_t *events)
{
  json_t *choices = json_object_get(json_array_get(events, 0), "choices");
  json_t *delta = json_object_get(json_array_get(choices, 0), "delta");
  if (json_object_get(delta, "role") != NULL)
    json_object_set_new(delta, "content", json_null());
}

/* Moves the end of the last event into one of its own, without text, as llama-server
 * has it. */
static void divide_last(json_t *events)
{
  size_t n = json_array_size(events);
  json_t *event = json_array_get(events, n > 0 ? n - 1 : 0);
  json_t *part = json_array_get(json_object_get(event, "choices"), 0);
  if (json_object_size(json_object_get(part, "delta")) == 0)
    return;
  json_t *end = json_deep_copy(event);
  json_t *last = json_array_get(json_object_get(end, "choices"), 0);
  json_object_set_new(last, "delta", json_object());
  json_object_set_new(last, "logprobs", json_null());
  json_object_del(last, "token_ids");
  if (json_array_append_new(events, end) < 0)
    return;
  json_object_set_new(part, "finish_reason", json_null());
  json_object_set_new(part, "stop_reason", json_null());
}

static json_t *chunk(struct lls_choice *choice)
{
  bool is_first = !choice->begun, is_last = choice->finish_reason != NULL;
  json_t *events = lls_chat_completions.chunk(choice);
  if (is_first)
    begin(events);
  if (is_last)
    divide_last(events);
  if (is_last && is_verbose(choice->generation))
    json_object_set_new(json_array_get(events, json_array_size(events) - 1), "__verbose",
                        lls_llamacpp_choice(choice, json_string("")));
  return events;
}

static json_t *progress(struct lls_choice *choice)
{
  bool is_first = !choice->begun;
  json_t *events = lls_chat_completions.progress(choice);
  if (is_first)
    begin(events);
  return events;
}

static json_t *end(const struct lls_generation *generation)
{
  return lls_chat_completions.end(generation);
}

static char *write_vectors(const struct lls_generation *generation)
{
  return lls_embeddings.write(generation);
}

static int read_inputs(const struct lls_api_config *config, const json_t *body,
                       const struct lls_api_params *params,
                       struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_embeddings.read_prompts(config, body, params, prompts, error);
}

/* ---- the dialects ------------------------------------------------------------------ */

static const struct lls_body_member chat_members[] = {{"verbose", "boolean", false},
                                                      {NULL, NULL, false}};

static const struct lls_dialect chats = {
    .id_prefix = "chatcmpl-",
    .members = chat_members,
    .params_of = LLS_CHAT,
    .is_chat = true,
    .batch_path = "/v1/chat/completions",
    .framing = &lls_framing_data,
    .translate = translate,
    .read_prompts = lls_chat_read_prompts,
    .whole = whole,
    .chunk = chunk,
    .progress = progress,
    .end = end,
    .failure = lls_llamacpp_failure,
    .error = lls_llamacpp_error,
    .free_state = lls_llamacpp_free,
};

static const struct lls_dialect embeddings = {
    .id_prefix = "embd-",
    .params_of = LLS_EMBEDDINGS,
    .batch_path = "/v1/embeddings",
    .read_prompts = read_inputs,
    .write = write_vectors,
    .error = lls_llamacpp_error,
};

const struct lls_dialect *lls_llamacpp_instead(const char *path,
                                               const struct lls_dialect *dialect)
{
  if (strcmp(path, "/completions") == 0)
    return &lls_llamacpp_completion;
  if (strncmp(path, "/openai/", 8) == 0)
    return dialect;
  if (dialect == &lls_chat_completions)
    return &chats;
  return dialect == &lls_embeddings ? &embeddings : dialect;
}
