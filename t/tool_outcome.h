/* SPDX-License-Identifier: Apache-2.0 */
/* Two tools, and the whole outcome of a parser of tool calls as one text:
 * "content|reasoning|name(arguments)name(arguments)". */
#ifndef T_TOOL_OUTCOME_H
#define T_TOOL_OUTCOME_H

#include "t/tap.h"

#include "text/tools/tool_parser.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Reads JSON with ' in place of ". */
static inline json_t *read_quoted(const char *text)
{
  char *copy = strdup(text);
  assert_non_null(copy);
  for (char *at = copy; *at != '\0'; at++)
    *at = *at == '\'' ? '"' : *at;
  json_t *tools = json_loads(copy, 0, NULL);
  assert_non_null(tools);
  free(copy);
  return tools;
}

/* Returns the tools "weather", with a place and days, and "now". */
static inline json_t *read_tools(void)
{
  return read_quoted(
      "[{'type': 'function', 'function': {'name': 'weather', 'parameters': {'type': "
      "'object',"
      " 'properties': {'place': {'type': 'string'}, 'days': {'type': 'integer'}}}}},"
      " {'type': 'function', 'function': {'name': 'now'}}]");
}

/* Parses in pieces of this many bytes; 0: of varying sizes. *whole: all calls are
 * complete. The caller frees the result. */
static inline char *parse_until(const struct lls_tool_parser_options *options,
                                const char *text, size_t piece, bool cut, bool *whole)
{
  struct lls_tool_answer answer = {0};
  struct lls_text out = {0};
  struct lls_tool_parser *parser = lls_tool_parser_create(options, &answer);
  assert_non_null(parser);
  size_t length = strlen(text), at = 0;
  for (unsigned i = 1; at < length; i++) {
    size_t n = piece > 0 ? piece : i * 7 % 5 + 1;
    n = n < length - at ? n : length - at;
    lls_tool_parser_push(parser, text + at, n);
    at += n;
  }
  lls_tool_parser_finish(parser, cut);
  *whole = lls_tool_answer_calls(&answer);
  lls_text_append(&out, answer.content.data, answer.content.length);
  lls_text_puts(&out, "|");
  lls_text_append(&out, answer.reasoning.data, answer.reasoning.length);
  lls_text_puts(&out, "|");
  for (uint32_t i = 0; i < answer.n_calls; i++) {
    lls_text_printf(&out, "%s(", answer.calls[i].name);
    lls_text_append(&out, answer.calls[i].arguments.data,
                    answer.calls[i].arguments.length);
    lls_text_puts(&out, ")");
  }
  lls_tool_parser_destroy(parser);
  lls_tool_answer_free(&answer);
  return out.data;
}

static inline char *parse(const struct lls_tool_parser_options *options, const char *text,
                          size_t piece)
{
  bool whole;
  return parse_until(options, text, piece, false, &whole);
}

#endif
