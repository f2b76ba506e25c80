/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parsing of tool calls: the result does not depend on the pieces of an
 * answer, and an answer without calls is unchanged content. The first byte selects the
 * format, the second the options. */
#include "text/tools/tool_parser.h"
#include "t/fuzz/fuzz.h"

static const char tools_text[] =
    "[{\"function\": {\"name\": \"weather\", \"parameters\": {\"properties\": {\"place\":"
    " {\"type\": \"string\"}}}}}, {\"function\": {\"name\": \"now\"}}]";

/* The format of that number, modulo their count. */
static const struct lls_tool_format *format_of(uint8_t number)
{
  char names[] = LLS_TOOL_FORMAT_NAMES, *list[64], *rest = names;
  size_t n = 0;
  for (char *name; (name = strtok_r(rest, ", ", &rest)) != NULL; n++)
    list[n] = name;
  const struct lls_tool_format *format = lls_tool_format_find(list[number % n]);
  assert(format != NULL);
  return format;
}

static void parse(const struct lls_tool_parser_options *options, const char *text,
                  size_t n, size_t piece, struct lls_tool_answer *answer)
{
  struct lls_tool_parser *parser = lls_tool_parser_create(options, answer);
  assert(parser != NULL);
  for (size_t at = 0; at < n; at += piece)
    lls_tool_parser_push(parser, text + at, piece < n - at ? piece : n - at);
  lls_tool_parser_finish(parser, false);
  lls_tool_parser_destroy(parser);
}

static void same(const struct lls_text *a, const struct lls_text *b)
{
  assert(a->length == b->length);
  assert(a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}

static void compare(const struct lls_tool_answer *a, const struct lls_tool_answer *b)
{
  same(&a->content, &b->content);
  same(&a->reasoning, &b->reasoning);
  assert(a->n_calls == b->n_calls);
  for (uint32_t i = 0; i < a->n_calls; i++) {
    assert(strcmp(a->calls[i].name, b->calls[i].name) == 0);
    same(&a->calls[i].arguments, &b->calls[i].arguments);
  }
}

/* Returns true if the format removes no marks from content. */
static bool keeps_all(const struct lls_tool_parser_options *options)
{
  const struct lls_tool_format *format = options->format;
  return options->reasoning == NULL && format->shape != LLS_TOOL_CHANNEL &&
         format->around[0] == NULL && format->not_a_name == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static json_t *tools;
  if (tools == NULL)
    tools = json_loads(tools_text, 0, NULL);
  assert(tools != NULL);
  if (size < 2)
    return 0;
  const char *text = (const char *)data + 2;
  const struct lls_tool_parser_options options = {
      .format = format_of(data[0]),
      .reasoning = data[1] & 1 ? lls_reasoning_format_find("think") : NULL,
      .tools = data[1] & 2 ? NULL : tools,
      .in_reasoning = (data[1] & 4) != 0,
      .one_call = (data[1] & 8) != 0};
  struct lls_tool_answer whole = {0}, pieces = {0};
  parse(&options, text, size - 2, size, &whole);
  parse(&options, text, size - 2, 1 + (data[1] >> 5), &pieces);
  compare(&whole, &pieces);
  if (whole.n_calls == 0 && keeps_all(&options)) {
    const struct lls_text given = {.data = (char *)text, .length = size - 2};
    same(&whole.content, &given);
  }
  lls_tool_answer_free(&whole);
  lls_tool_answer_free(&pieces);
  return 0;
}
