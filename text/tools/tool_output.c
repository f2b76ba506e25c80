/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parser's files: examining text, and reporting its parts. */
#include <string.h>

#include "text/tools/tool_parser_internal.h"

const json_t *lls_tool_find(const json_t *tools, const char *name, size_t length)
{
  size_t i;
  const json_t *tool;
  json_array_foreach((json_t *)tools, i, tool)
  {
    const json_t *function = json_object_get(tool, "function");
    const json_t *value = json_object_get(function, "name");
    if (json_string_length(value) == length && length > 0 &&
        memcmp(json_string_value(value), name, length) == 0)
      return function;
  }
  return NULL;
}

static bool is_name_byte(char byte)
{
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == '-' || byte == '.';
}

size_t lls_tool_name_length(const char *text, size_t n)
{
  size_t length = 0;
  while (length < n && is_name_byte(text[length]))
    length++;
  return length;
}

bool lls_tool_is_space(char byte)
{
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

int lls_tool_begins(const char *text, size_t n, const char *with)
{
  size_t length = strlen(with), shorter = n < length ? n : length;
  if (memcmp(text, with, shorter) != 0)
    return -1;
  return n >= length;
}

int lls_tool_find_near(const char *text, size_t n, const char *mark, size_t most,
                       const char **place)
{
  *place = memmem(text, n, mark, strlen(mark));
  if (*place == NULL)
    return n >= most ? -1 : 0;
  return (size_t)(*place - text) + strlen(mark) > most ? -1 : 1;
}

void lls_tool_take(struct lls_tool_parser *parser)
{
  lls_text_consume(&parser->held, parser->at);
  parser->at = 0;
}

void lls_tool_emit_content(struct lls_tool_parser *parser, const char *bytes, size_t n)
{
  while (parser->trimming && n > 0 && lls_tool_is_space(*bytes)) {
    bytes++;
    n--;
  }
  if (n == 0 || parser->options.only_calls)
    return;
  parser->trimming = false;
  parser->begun = parser->has_content = true;
  lls_text_append(&parser->answer->content, bytes, n);
}

bool lls_tool_give_up(struct lls_tool_parser *parser)
{
  if (parser->calling)
    lls_tool_end_call(parser);
  parser->begun = true;
  parser->in_list = false;
  lls_tool_emit_content(parser, parser->held.data, parser->at);
  lls_tool_take(parser);
  if (parser->mode != LLS_TOOL_OVER)
    parser->mode = LLS_TOOL_IN_CONTENT;
  return true;
}

/* ---- reporting ------------------------------------------------------------------- */

bool lls_tool_begin_call(struct lls_tool_parser *parser, const char *name, size_t n)
{
  if (n == 0 || (parser->bare && lls_tool_find(parser->options.tools, name, n) == NULL))
    return false;
  lls_tool_answer_call(parser->answer, name, n);
  parser->calling = true;
  parser->has_arguments = false;
  parser->repair = (struct lls_json_repair){0};
  return true;
}

void lls_tool_emit_arguments(struct lls_tool_parser *parser, const char *bytes, size_t n)
{
  struct lls_text *repaired = &parser->repaired;
  parser->has_arguments = parser->has_arguments || n > 0;
  lls_json_repair(&parser->repair, bytes, n, repaired);
  if (repaired->length > 0)
    lls_tool_answer_arguments(parser->answer, repaired->data, repaired->length);
  parser->answer->failed |= repaired->failed;
  lls_text_clear(repaired);
}

void lls_tool_end_call(struct lls_tool_parser *parser)
{
  if (!parser->has_arguments)
    lls_tool_emit_arguments(parser, "{}", 2);
  parser->answer->n_whole += lls_json_repair_is_whole(&parser->repair);
  parser->calling = false;
  parser->begun = true;
  parser->trimming = true;
  parser->mode = parser->options.one_call ? LLS_TOOL_OVER : LLS_TOOL_AFTER_CALL;
}
