/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the members of a message from an answer's text; see chat_answer.h. */
#include "core/api/chat_answer.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "text/tools/tool_grammar.h"

#define SHORT_ID 9 /* letters and digits in an id that Mistral's templates accept */

/* ---- before it begins ------------------------------------------------------------ */

/* Returns the tools that the answer may call, a new reference. */
static json_t *wanted_tools(const struct lls_api_tools *tools)
{
  if (tools->choice != LLS_TOOL_CHOICE_NAMED)
    return json_incref(tools->list);
  return json_pack("[{s:O}]", "function", (json_t *)tools->named);
}

/* Returns true if calls are optional and a tool is "strict": its calls must then follow
 * its schema. */
static bool holds_calls(const struct lls_tool_dialect *dialect,
                        const struct lls_api_params *params)
{
  size_t i;
  const json_t *tool;
  if (params->tools.choice != LLS_TOOL_CHOICE_AUTO ||
      !lls_tool_grammar_may_be_optional(dialect->format))
    return false;
  json_array_foreach(params->tools.list, i, tool)
  {
    if (json_is_true(json_object_get(json_object_get(tool, "function"), "strict")))
      return true;
  }
  return false;
}

/* Returns true if reasoning or a channel header may precede the requested format. */
static bool is_framed(const struct lls_tool_dialect *dialect,
                      const struct lls_api_params *params, bool in_reasoning)
{
  bool channel = dialect->format->shape == LLS_TOOL_CHANNEL;
  bool raw = channel && params->structured.kind == LLS_STRUCTURED_TAG;
  bool goes_on = params->continue_final_message && !in_reasoning;
  return !raw && !goes_on && (channel || dialect->reasoning != NULL);
}

/*
 * Builds the grammar of the answer, one of three, each after the reasoning
 * (tool_grammar.h): calls, if tool_choice requires them, whatever format is requested;
 * calls or the format, if the model may choose; or the format alone.
 */
int lls_chat_answer_require(const struct lls_api_config *config,
                            const struct lls_api_prompt_list *prompts,
                            struct lls_api_params *params, struct lls_api_error *error)
{
  const struct lls_tool_dialect *dialect = &config->dialect;
  const struct lls_api_tools *tools = &params->tools;
  bool in_reasoning = prompts->count > 0 && prompts->prompts[0].in_reasoning;
  bool required = tools->choice > LLS_TOOL_CHOICE_AUTO;
  bool form = !required && params->structured.kind != LLS_STRUCTURED_NONE;
  bool optional = !form && holds_calls(dialect, params);
  bool calls = tools->choice != LLS_TOOL_CHOICE_NONE && (required || optional || form);
  params->all_content = form && !calls && !is_framed(dialect, params, in_reasoning);
  if (params->all_content || (!calls && !form))
    return 0;
  params->tools.beside_form = form && calls;
  json_t *wanted = calls ? wanted_tools(tools) : NULL;
  if (calls && wanted == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  const struct lls_tool_constraint constraint = {
      .format = lls_tool_format_written(dialect->format),
      .reasoning = dialect->reasoning,
      .tools = wanted,
      .parallel = tools->choice != LLS_TOOL_CHOICE_NAMED && tools->parallel,
      .in_reasoning = in_reasoning,
      .optional = optional};
  int status = lls_structured_set_answer(&params->structured, &constraint, form,
                                         optional ? "tools" : "tool_choice", error);
  json_decref(wanted);
  return status;
}

int lls_chat_answer_init(const struct lls_api_config *config, struct lls_choice *choice)
{
  const struct lls_api_tools *tools = &choice->generation->params.tools;
  const struct lls_tool_dialect *dialect = &config->dialect;
  bool calls = tools->choice != LLS_TOOL_CHOICE_NONE;
  bool channel = dialect->format->shape == LLS_TOOL_CHANNEL;
  bool looks = calls || channel || dialect->reasoning != NULL;
  if (!looks || choice->generation->params.all_content)
    return 0;
  bool required = tools->choice > LLS_TOOL_CHOICE_AUTO;
  bool written = required || tools->beside_form;
  const struct lls_tool_parser_options options = {
      .format = written ? lls_tool_format_written(dialect->format) : dialect->format,
      .reasoning = dialect->reasoning,
      .tools = calls ? tools->list : NULL,
      .in_reasoning = choice->prompt->in_reasoning,
      .one_call = !tools->parallel,
      .only_calls = required,
      .form = tools->beside_form,
  };
  choice->parser = lls_tool_parser_create(&options, &choice->answer);
  return choice->parser != NULL ? 0 : -1;
}

void lls_chat_answer_free(struct lls_choice *choice)
{
  lls_tool_parser_destroy(choice->parser);
  lls_tool_answer_free(&choice->answer);
}

/* ---- text in --------------------------------------------------------------------- */

static bool is_mark(const struct lls_choice *choice, int32_t token)
{
  const struct lls_tokenizer *tokenizer = choice->detokenizer.tokenizer;
  const struct lls_tool_dialect *dialect = &choice->generation->api->config.dialect;
  size_t length;
  if (choice->parser == NULL || !lls_tokenizer_is_special(tokenizer, token))
    return false;
  const char *text = lls_tokenizer_string(tokenizer, token, &length);
  return text != NULL && lls_tool_mark(dialect->format, dialect->reasoning, text);
}

size_t lls_chat_answer_text(struct lls_choice *choice, int32_t token, char *piece)
{
  bool skips = choice->detokenizer.skip_special;
  if (skips && is_mark(choice, token))
    choice->detokenizer.skip_special = false;
  size_t n = lls_detokenizer_push(&choice->detokenizer, token, piece);
  choice->detokenizer.skip_special = skips;
  return n;
}

/* Gives new calls their ids. */
static void name_calls(struct lls_choice *choice)
{
  const struct lls_tool_dialect *dialect = &choice->generation->api->config.dialect;
  struct lls_tool_answer *answer = &choice->answer;
  char fresh[LLS_ID_BYTES];
  for (uint32_t i = answer->n_calls; i > 0 && answer->calls[i - 1].id[0] == '\0'; i--) {
    char *id = answer->calls[i - 1].id;
    lls_api_new_id(fresh);
    if (dialect->format->short_ids)
      snprintf(id, SHORT_ID + 1, "%.*s", SHORT_ID, fresh);
    else
      snprintf(id, sizeof answer->calls[i - 1].id, "call_%s", fresh);
  }
}

bool lls_chat_answer_take(struct lls_choice *choice, bool is_token)
{
  if (choice->parser == NULL)
    return false;
  lls_tool_parser_push(choice->parser, choice->text.data, choice->ready);
  lls_text_consume(&choice->text, choice->ready);
  choice->ready = 0;
  choice->n_reasoning += is_token && lls_tool_parser_in_reasoning(choice->parser);
  choice->generation->incomplete |= lls_tool_answer_lacks(&choice->answer);
  name_calls(choice);
  return lls_tool_parser_is_over(choice->parser);
}

void lls_chat_answer_end(struct lls_choice *choice, bool cut)
{
  if (choice->parser == NULL)
    return;
  lls_tool_parser_finish(choice->parser, cut);
  choice->generation->incomplete |= lls_tool_answer_lacks(&choice->answer);
  name_calls(choice);
}

/* ---- JSON out -------------------------------------------------------------------- */

static json_t *string_of(const struct lls_text *text)
{
  return json_stringn(text->length > 0 ? text->data : "", text->length);
}

/* Adds the reasoning under vLLM's name and under its former name, which llama.cpp and
 * DeepSeek use. */
static void put_reasoning(json_t **object, const struct lls_choice *choice)
{
  const struct lls_tool_answer *answer = &choice->answer;
  if (answer->reasoning.length == 0 || !choice->generation->params.include_reasoning)
    return;
  lls_json_put(object, "reasoning", string_of(&answer->reasoning));
  lls_json_put(object, "reasoning_content", string_of(&answer->reasoning));
}

static json_t *whole_calls(const struct lls_tool_answer *answer)
{
  json_t *calls = json_array();
  for (uint32_t i = 0; i < answer->n_calls; i++) {
    const struct lls_tool_call *call = &answer->calls[i];
    lls_json_add(&calls, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", call->id, "type",
                                   "function", "function", "name", call->name,
                                   "arguments", string_of(&call->arguments)));
  }
  return calls;
}

json_t *lls_chat_answer_message(const struct lls_choice *choice)
{
  if (choice->parser == NULL)
    return json_pack("{s:s, s:o, s:n, s:n}", "role", "assistant", "content",
                     lls_choice_text(choice), "refusal", "reasoning");
  const struct lls_tool_answer *answer = &choice->answer;
  bool silent = answer->n_calls > 0 && answer->content.length == 0;
  json_t *message = json_pack("{s:s, s:o, s:n, s:n}", "role", "assistant", "content",
                              silent ? json_null() : string_of(&answer->content),
                              "refusal", "reasoning");
  put_reasoning(&message, choice);
  if (answer->n_calls > 0)
    lls_json_put(&message, "tool_calls", whole_calls(answer));
  return message;
}

/* Returns the unsent part of a call; the first part has the call's id and name. */
static json_t *call_part(const struct lls_tool_answer *answer, uint32_t index)
{
  const struct lls_tool_call *call = &answer->calls[index];
  json_t *arguments = string_of(&call->arguments);
  if (index < answer->n_announced)
    return json_pack("{s:I, s:{s:o}}", "index", (json_int_t)index, "function",
                     "arguments", arguments);
  return json_pack("{s:I, s:s, s:s, s:{s:s, s:o}}", "index", (json_int_t)index, "id",
                   call->id, "type", "function", "function", "name", call->name,
                   "arguments", arguments);
}

static json_t *call_parts(const struct lls_tool_answer *answer)
{
  json_t *calls = json_array();
  uint32_t first = answer->n_announced > 0 ? answer->n_announced - 1 : 0;
  for (uint32_t i = first; i < answer->n_calls; i++)
    if (i >= answer->n_announced || answer->calls[i].arguments.length > 0)
      lls_json_add(&calls, call_part(answer, i));
  return calls;
}

json_t *lls_chat_answer_delta(const struct lls_choice *choice)
{
  const struct lls_tool_answer *answer = &choice->answer;
  json_t *delta = json_object();
  if (answer->content.length > 0)
    lls_json_put(&delta, "content", string_of(&answer->content));
  put_reasoning(&delta, choice);
  json_t *calls = call_parts(answer);
  if (calls == NULL || json_array_size(calls) > 0)
    lls_json_put(&delta, "tool_calls", json_incref(calls));
  json_decref(calls);
  if (choice->ready > 0) /* without a parser */
    lls_json_put(&delta, "content", lls_choice_text(choice));
  return delta;
}
