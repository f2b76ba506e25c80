/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "truncation": "auto": drops the oldest messages of a conversation that is too long for
 * the context. The system's messages at its beginning stay, and so does the last message;
 * the output of a call is dropped with the call.
 *
 *   system | droppable: user, assistant, tool ... | last
 */
#include "core/api/responses/responses.h"

#include <string.h>

#include "core/api/chat.h"

static bool has_role(const json_t *message, const char *role)
{
  const char *found = json_string_value(json_object_get(message, "role"));
  return found != NULL && strcmp(found, role) == 0;
}

static bool is_instruction(const json_t *message)
{
  return has_role(message, "system") || has_role(message, "developer");
}

static size_t first_droppable(const json_t *messages)
{
  size_t first = 0;
  while (is_instruction(json_array_get(messages, first)))
    first++;
  return first;
}

/* Returns the body without `n` of its droppable messages, and without the outputs that
 * would follow them. */
static json_t *shortened(const json_t *body, size_t n)
{
  json_t *messages = json_object_get(body, "messages"), *kept = json_array();
  size_t first = first_droppable(messages), count = json_array_size(messages);
  size_t next = first + n;
  while (next + 1 < count && has_role(json_array_get(messages, next), "tool"))
    next++;
  for (size_t i = 0; i < count; i++)
    if (i < first || i >= next)
      json_array_append(kept, json_array_get(messages, i));
  json_t *made = json_copy((json_t *)body);
  json_object_set_new(made, "messages", kept);
  return made;
}

static bool is_too_long(const struct lls_api_error *error)
{
  return error->code != NULL && strcmp(error->code, "context_length_exceeded") == 0;
}

struct fitting {
  const struct lls_api_config *config;
  const json_t *body;
  const struct lls_api_params *params;
  struct lls_api_prompt_list *prompts;
  struct lls_api_error *error;
};

static int read_without(const struct fitting *fitting, size_t n)
{
  json_t *body = shortened(fitting->body, n);
  int status = lls_chat_read_prompts(fitting->config, body, fitting->params,
                                     fitting->prompts, fitting->error);
  json_decref(body);
  return status;
}

/* Searches for the fewest messages to drop. `most` is enough, and its prompts are read;
 * `few` is not. */
static int read_longest(const struct fitting *fitting, size_t few, size_t most)
{
  while (most - few > 1) {
    struct lls_api_prompt_list longer = {0};
    struct fitting trial = *fitting;
    size_t middle = few + (most - few) / 2;
    trial.prompts = &longer;
    if (read_without(&trial, middle) == 0) {
      lls_prompts_free(fitting->prompts);
      *fitting->prompts = longer;
      most = middle;
    } else {
      few = middle;
    }
  }
  return 0;
}

int lls_response_fit(const struct lls_api_config *config, const json_t *body,
                     const void *state, const struct lls_api_params *params,
                     struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  const struct fitting fitting = {config, body, params, prompts, error};
  const json_t *messages = json_object_get(body, "messages");
  size_t count = json_array_size(messages), first = first_droppable(messages);
  int status = lls_chat_read_prompts(config, body, params, prompts, error);
  if (status == 0 || !lls_response_truncates(state) || !is_too_long(error) ||
      first + 1 >= count)
    return status;
  size_t most = count - 1 - first;
  if (read_without(&fitting, most) != 0)
    return -1;
  return read_longest(&fitting, 0, most);
}
