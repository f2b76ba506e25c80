/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpt-oss' messages ("harmony"): a header with the channel and perhaps the recipient,
 * <|message|>, the message, and an end mark. The prompt has opened the first header.
 *
 *   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary
 *   to=functions.NAME <|constrain|>json<|message|>{...}<|call|>
 */
#include <string.h>

#include "text/tools/tool_parser_internal.h"

#define MAX_HEADER 1024 /* bytes */

static const char message_mark[] = LLS_TOOL_MESSAGE;

static const char *find(const char *text, size_t n, const char *what)
{
  return memmem(text, n, what, strlen(what));
}

/* Returns the message's role from its header; begins a call if the header names a
 * function. */
static enum lls_tool_role read_header(struct lls_tool_parser *parser, const char *header,
                                      size_t n)
{
  static const char recipient[] = "to=functions.";
  const char *to = find(header, n, recipient);
  if (to != NULL && parser->options.tools != NULL) {
    const char *name = to + strlen(recipient);
    size_t length = lls_tool_name_length(name, n - (size_t)(name - header));
    if (lls_tool_begin_call(parser, name, length))
      return LLS_TOOL_ARGUMENTS;
  }
  bool analysis = find(header, n, LLS_TOOL_ANALYSIS) != NULL;
  return analysis ? LLS_TOOL_WRAPPER : LLS_TOOL_OTHER;
}

static void emit(struct lls_tool_parser *parser, size_t n)
{
  const char *bytes = parser->held.data;
  if (parser->message == LLS_TOOL_ARGUMENTS)
    lls_tool_emit_arguments(parser, bytes, n);
  else if (parser->message == LLS_TOOL_WRAPPER)
    lls_text_append(&parser->answer->reasoning, bytes, n);
  else
    lls_tool_emit_content(parser, bytes, n);
  parser->at = n;
  lls_tool_take(parser);
}

static bool step_message(struct lls_tool_parser *parser)
{
  struct lls_text *held = &parser->held;
  size_t at, which;
  bool found = lls_stop_find(&parser->marks, held->data, held->length, &at, &which);
  if (!found)
    at = held->length - lls_stop_hold(&parser->marks, held->data, held->length);
  emit(parser, at);
  if (!found)
    return false;
  const struct lls_stop_string *mark = &parser->marks.strings[which];
  bool opens =
      strcmp(mark->text, "<|start|>") == 0 || strcmp(mark->text, "<|channel|>") == 0;
  parser->at = opens ? 0 : mark->length;
  lls_tool_take(parser);
  if (parser->message == LLS_TOOL_ARGUMENTS)
    lls_tool_end_call(parser);
  parser->trimming = false;
  if (parser->mode != LLS_TOOL_OVER)
    parser->mode = LLS_TOOL_AT_MESSAGE;
  return true;
}

static bool step_header(struct lls_tool_parser *parser)
{
  const struct lls_text *held = &parser->held;
  const char *mark;
  int near =
      lls_tool_find_near(held->data, held->length, message_mark, MAX_HEADER, &mark);
  if (near == 0)
    return false;
  parser->message = LLS_TOOL_OTHER;
  if (near > 0) {
    size_t n = (size_t)(mark - held->data);
    parser->message = read_header(parser, held->data, n);
    parser->at = n + strlen(message_mark);
    lls_tool_take(parser);
  } else {
    emit(parser, MAX_HEADER);
  }
  parser->mode = LLS_TOOL_IN_MESSAGE;
  return true;
}

/* Before a header. Text without one is content. */
static bool step_before(struct lls_tool_parser *parser)
{
  const struct lls_text *held = &parser->held;
  int start = lls_tool_begins(held->data, held->length, "<|start|>");
  int channel = lls_tool_begins(held->data, held->length, "<|channel|>");
  int recipient = lls_tool_begins(held->data, held->length, " to=functions.");
  if (start > 0 || channel > 0 || recipient > 0) {
    parser->mode = LLS_TOOL_IN_HEADER;
    return true;
  }
  if (start == 0 || channel == 0 || recipient == 0)
    return false;
  parser->message = LLS_TOOL_OTHER;
  parser->mode = LLS_TOOL_IN_MESSAGE;
  return true;
}

bool lls_tool_step_message(struct lls_tool_parser *parser)
{
  if (parser->mode == LLS_TOOL_AT_MESSAGE)
    return step_before(parser);
  return parser->mode == LLS_TOOL_IN_HEADER ? step_header(parser) : step_message(parser);
}
