/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the messages of a chat, in the form of /v1/chat/completions, and renders them
 * with the model's chat template. */
#include "core/api/chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/api/api_params.h"
#include "core/api/chat_continue.h"
#include "core/api/prompt.h"
#include "core/api/plain_text.h"
#include "core/base/json_cost.h"
#include "text/template/template.h"
#include "text/tools/tool_parser.h"
#include "text/tools/tool_prompt.h"

#define MAX_MESSAGES 4096
#define MAX_ROLE     64 /* bytes */

/* Returns the role that templates expect: "developer" is a new name of "system". Every
 * other role is passed on, and the template accepts or refuses it. */
static const char *template_role(const char *role)
{
  return role != NULL && strcmp(role, "developer") == 0 ? "system" : role;
}

/* Appends the text of content parts, separated by line ends. */
static int join_parts(const json_t *parts, size_t message, struct lls_text *out,
                      struct lls_api_error *error)
{
  size_t i;
  const json_t *part;
  json_array_foreach((json_t *)parts, i, part)
  {
    const json_t *text = json_object_get(part, "text");
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(text))
      return lls_api_fail(error, 400, "unsupported_content", "messages",
                          "messages[%zu].content[%zu] must be {\"type\": \"text\", "
                          "\"text\": a string}: this model reads text only",
                          message, i);
    if (i > 0)
      lls_text_puts(out, "\n");
    lls_text_append(out, json_string_value(text), json_string_length(text));
  }
  return 0;
}

/* Returns the content as one string, a new reference; or NULL with *error set. */
static json_t *content_text(const json_t *message, size_t index,
                            struct lls_api_error *error)
{
  json_t *content = json_object_get(message, "content");
  struct lls_text joined = {0};
  if (json_is_string(content))
    return json_incref(content);
  bool calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
  if (json_is_null(content) || (content == NULL && calls))
    return json_string("");
  if (!json_is_array(content)) {
    lls_api_fail(error, 400, NULL, "messages",
                 "messages[%zu].content must be a string or an array of parts", index);
    return NULL;
  }
  json_t *text = NULL;
  int status = join_parts(content, index, &joined, error);
  if (status == 0 && joined.failed)
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
  else if (status == 0)
    text = json_stringn(joined.length > 0 ? joined.data : "", joined.length);
  lls_text_free(&joined);
  return text;
}

/* Converts a call's arguments from JSON text, as clients send them, to an object, as
 * most templates expect them. Returns a new reference, or NULL to leave them
 * unchanged. */
static json_t *arguments_object(const json_t *arguments)
{
  if (!json_is_string(arguments))
    return NULL;
  json_t *object = lls_json_load(json_string_value(arguments),
                                 json_string_length(arguments), JSON_ALLOW_NUL, NULL);
  if (json_is_object(object))
    return object;
  json_decref(object);
  return NULL;
}

/* Converts arguments to JSON text, for templates that expect text. */
static json_t *arguments_text(const json_t *arguments)
{
  char *text = json_is_object(arguments) ? json_dumps(arguments, 0) : NULL;
  json_t *string = text != NULL ? json_string(text) : NULL;
  free(text);
  return string;
}

static json_t *template_calls(const struct lls_tool_dialect *dialect, const json_t *calls)
{
  size_t i;
  json_t *call, *copy = json_deep_copy(calls);
  json_array_foreach(copy, i, call)
  {
    json_t *function = json_object_get(call, "function");
    const json_t *given = json_object_get(function, "arguments");
    json_t *wanted =
        dialect->text_arguments ? arguments_text(given) : arguments_object(given);
    if (wanted != NULL)
      json_object_set_new(function, "arguments", wanted);
  }
  return copy;
}

/* Copies the reasoning of an earlier answer. gpt-oss' template calls it "thinking", and
 * accepts it together with calls only in a message without content. */
static void copy_reasoning(const struct lls_tool_dialect *dialect, const json_t *message,
                           json_t *out)
{
  json_t *text = json_object_get(message, "reasoning_content");
  if (!json_is_string(text))
    text = json_object_get(message, "reasoning");
  if (!json_is_string(text))
    return;
  json_object_set(out, "reasoning_content", text);
  bool calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
  bool content = json_string_length(json_object_get(out, "content")) > 0;
  if (dialect->format->shape == LLS_TOOL_CHANNEL && !(calls && content))
    json_object_set(out, "thinking", text);
}

/* Copies the members that templates read in addition to role and content. */
static void copy_rest(const struct lls_api_config *config, const json_t *message,
                      json_t *out)
{
  const struct lls_tool_dialect *dialect = &config->dialect;
  static const char *const names[] = {"name", "tool_call_id"};
  const json_t *calls = json_object_get(message, "tool_calls");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    json_t *value = json_object_get(message, names[i]);
    if (json_is_string(value))
      json_object_set_new(out, names[i], lls_plain_guard(config, value));
  }
  if (json_array_size(calls) > 0)
    json_object_set_new(out, "tool_calls", template_calls(dialect, calls));
  copy_reasoning(dialect, message, out);
}

/* Returns true if the role is one word. Templates print roles next to the model's
 * special tokens, so a role must not contain any. */
static bool is_role(const char *role)
{
  size_t n = role != NULL ? strlen(role) : 0;
  return n > 0 && n <= MAX_ROLE && lls_tool_name_length(role, n) == n;
}

/* Guards the content of users and tools (plain_text.h), which is not trusted to contain
 * special tokens. */
static json_t *guarded(const struct lls_api_config *config, const char *role,
                       json_t *text)
{
  if (strcmp(role, "system") == 0 || strcmp(role, "assistant") == 0)
    return text;
  json_t *plain = lls_plain_guard(config, text);
  json_decref(text);
  return plain;
}

static int add_message(const struct lls_api_config *config, const json_t *message,
                       size_t index, json_t *out, struct lls_api_error *error)
{
  const char *role = template_role(json_string_value(json_object_get(message, "role")));
  if (!is_role(role))
    return lls_api_fail(error, 400, NULL, "messages",
                        "messages[%zu].role must be a word such as system, user, "
                        "assistant or tool: at most %d letters, digits, and _ - .",
                        index, MAX_ROLE);
  json_t *text = content_text(message, index, error);
  if (text == NULL)
    return -1;
  json_t *made =
      json_pack("{s:s, s:o}", "role", role, "content", guarded(config, role, text));
  copy_rest(config, message, made);
  if (json_array_append_new(out, made) == 0)
    return 0;
  return lls_api_fail(error, 503, NULL, NULL, "out of memory");
}

/* Refuses messages whose calls' arguments, parsed as JSON, would together take more
 * memory than a body may. */
static int check_cost(const json_t *messages, struct lls_api_error *error)
{
  struct lls_json_cost cost = {0};
  size_t i, k;
  const json_t *message, *call;
  json_array_foreach((json_t *)messages, i, message)
  {
    json_array_foreach(json_object_get(message, "tool_calls"), k, call)
    {
      const json_t *text =
          json_object_get(json_object_get(call, "function"), "arguments");
      if (json_is_string(text))
        lls_json_count(&cost, json_string_value(text), json_string_length(text));
    }
  }
  if (!lls_json_is_costly(&cost))
    return 0;
  return lls_api_fail(error, 413, "too_many_values", "messages",
                      "the arguments of the calls in 'messages' have too many small "
                      "values: they would take about %zu MiB of memory",
                      lls_json_cost_bytes(&cost) >> 20);
}

/* Returns the messages in the form that templates expect: known roles, and each content
 * one string. */
static json_t *read_messages(const struct lls_api_config *config, const json_t *body,
                             struct lls_api_error *error)
{
  size_t i;
  const json_t *message, *messages = json_object_get(body, "messages");
  size_t count = json_array_size(messages);
  if (!json_is_array(messages) || count == 0 || count > MAX_MESSAGES) {
    lls_api_fail(error, 400, NULL, "messages",
                 "'messages' must be an array of 1 to %d messages", MAX_MESSAGES);
    return NULL;
  }
  if (check_cost(messages, error) != 0)
    return NULL;
  json_t *out = json_array();
  json_array_foreach((json_t *)messages, i, message)
  {
    if (add_message(config, message, i, out, error) != 0) {
      json_decref(out);
      return NULL;
    }
  }
  return out;
}

/* Returns the template of a request: its own, or the model's; NULL: there is none. */
static const struct lls_chat_template *template_of(const struct lls_api_config *config,
                                                   const struct lls_api_params *params)
{
  return params->chat_template != NULL ? params->chat_template : config->chat_template;
}

static int render(const struct lls_chat_template *chat_template, const json_t *messages,
                  const json_t *variables, bool add_generation_prompt, char **text,
                  size_t *length, struct lls_api_error *error)
{
  struct lls_error why = {0};
  if (chat_template == NULL)
    return lls_api_fail(error, 400, NULL, NULL,
                        "this model has no chat template; use /v1/completions");
  int status =
      lls_chat_template_render(chat_template, messages, variables, add_generation_prompt,
                               (int64_t)time(NULL), text, length, &why);
  if (status == 0)
    return 0;
  if (status == -ENOTSUP) {
    lls_api_fail(error, 501, "chat_template_not_supported", NULL,
                 "this server cannot use the model's chat template: %s",
                 lls_error_text(&why, status));
    error->hopeless = true;
    return -1;
  }
  return lls_api_fail(error, 400, NULL, "messages",
                      "the model's chat template rejects 'messages': %s",
                      lls_error_text(&why, status));
}

/* Refuses documents if the model's template does not show them. */
static int check_documents(const struct lls_chat_template *chat_template,
                           const json_t *body, struct lls_api_error *error)
{
  const json_t *documents = json_object_get(body, "documents");
  const char *source =
      chat_template != NULL ? lls_chat_template_source(chat_template, true) : "";
  if (json_array_size(documents) == 0 || strstr(source, "documents") != NULL)
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", "documents",
                      "'documents' is not supported: the model's chat template shows "
                      "none; put them into a message");
}

/* Returns the variables for the template, a new reference; or NULL with *error set. */
static json_t *read_variables(const struct lls_api_config *config, const json_t *body,
                              const struct lls_api_params *params,
                              struct lls_api_error *error)
{
  if (check_documents(template_of(config, params), body, error) != 0)
    return NULL;
  json_t *given = json_object_get(body, "chat_template_kwargs");
  json_t *tools = json_object_get(body, "tools");
  if (given != NULL && !json_is_object(given) && !json_is_null(given)) {
    lls_api_fail(error, 400, NULL, "chat_template_kwargs",
                 "'chat_template_kwargs' must be an object");
    return NULL;
  }
  json_t *variables = json_object();
  json_t *documents = json_object_get(body, "documents");
  json_object_update(variables, (json_t *)config->template_variables);
  for (size_t i = 0; lls_param_variables[i] != NULL; i++) {
    json_t *value = json_object_get(body, lls_param_variables[i]);
    if (json_is_string(value) || json_is_boolean(value))
      json_object_set(variables, lls_param_variables[i], value);
  }
  json_object_update(variables, given);
  if (json_array_size(tools) > 0)
    json_object_set(variables, "tools", tools);
  if (json_array_size(documents) > 0)
    json_object_set_new(variables, "documents", lls_plain_guard(config, documents));
  if (variables == NULL)
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
  return variables;
}

/* Renders a chat whose last message the answer continues. */
static int render_open(const struct lls_chat_template *chat_template, json_t *messages,
                       const json_t *variables, char **text, size_t *length,
                       struct lls_api_error *error)
{
  if (lls_chat_mark_end(messages, error) != 0 ||
      render(chat_template, messages, variables, false, text, length, error) != 0)
    return -1;
  if (lls_chat_cut_at_end(*text, length, error) == 0)
    return 0;
  free(*text);
  return -1;
}

/* Returns the messages; if the template shows no tools or no calls, these are added to
 * the messages as text. */
static json_t *shown_messages(const struct lls_api_config *config, const json_t *body,
                              const struct lls_api_params *params,
                              struct lls_api_error *error)
{
  bool none = params->tools.choice == LLS_TOOL_CHOICE_NONE;
  const json_t *tools = none ? NULL : params->tools.list;
  json_t *messages = read_messages(config, body, error);
  bool lacks_tools = config->dialect.hides_tools && tools != NULL;
  bool lacks_calls = config->dialect.hides_calls &&
                     lls_tool_prompt_has_calls(json_object_get(body, "messages"));
  if (messages == NULL || (!lacks_tools && !lacks_calls))
    return messages;
  json_t *shown = lls_tool_prompt(&config->dialect, messages, tools);
  json_decref(messages);
  if (shown == NULL)
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
  return shown;
}

int lls_chat_render(const struct lls_api_config *config, const json_t *body,
                    const struct lls_api_params *params, char **text, size_t *length,
                    struct lls_api_error *error)
{
  json_t *messages = shown_messages(config, body, params, error);
  if (messages == NULL)
    return -1;
  json_t *variables = read_variables(config, body, params, error);
  const struct lls_chat_template *chat_template = template_of(config, params);
  int status = -1;
  if (variables != NULL && params->continue_final_message)
    status = render_open(chat_template, messages, variables, text, length, error);
  else if (variables != NULL)
    status = render(chat_template, messages, variables, params->add_generation_prompt,
                    text, length, error);
  json_decref(variables);
  json_decref(messages);
  return status;
}

/* Returns the last message's content, a new reference, if it is the assistant's. */
static json_t *begun_content(const json_t *body, struct lls_api_error *error)
{
  const json_t *messages = json_object_get(body, "messages");
  /* the list is not empty: the template has rendered it */
  size_t last = json_array_size(messages) - 1;
  const json_t *message = json_array_get(messages, last);
  const char *role = json_string_value(json_object_get(message, "role"));
  return strcmp(role, "assistant") == 0 ? content_text(message, last, error) : NULL;
}

int lls_chat_read_prompts(const struct lls_api_config *config, const json_t *body,
                          const struct lls_api_params *params,
                          struct lls_api_prompt_list *prompts,
                          struct lls_api_error *error)
{
  char *text;
  size_t length;
  if (lls_chat_render(config, body, params, &text, &length, error) != 0)
    return -1;
  int status =
      lls_prompts_from_text(config, text, length, params, "messages", prompts, error);
  if (status == 0)
    prompts->prompts[0].in_reasoning =
        lls_tool_dialect_opens_reasoning(&config->dialect, text, length);
  if (status == 0 && params->chat_echo)
    prompts->prompts[0].begun = begun_content(body, error);
  free(text);
  return status;
}
