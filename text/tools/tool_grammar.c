/* SPDX-License-Identifier: Apache-2.0 */
/* A format's syntax with the tools' names and schemas; see tool_grammar.h. */
#include "text/tools/tool_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar_marks.h"
#include "text/grammar/json_schema.h"

#define LINE_ENDS 2 /* most line breaks after the reasoning */

static uint32_t text(struct lls_grammar_tree *tree, const char *bytes)
{
  return lls_grammar_marks(tree, bytes, strlen(bytes));
}

static uint32_t row(struct lls_grammar_tree *tree, uint32_t first, uint32_t second)
{
  const uint32_t parts[] = {first, second};
  return lls_grammar_sequence(tree, parts, 2);
}

static uint32_t maybe(struct lls_grammar_tree *tree, uint32_t part)
{
  return lls_grammar_repeat(tree, part, 0, 1);
}

static uint32_t one_call(struct lls_grammar_tree *tree,
                         const struct lls_tool_syntax *syntax, const json_t *function)
{
  const char *name = json_string_value(json_object_get(function, "name"));
  const json_t *parameters = json_object_get(function, "parameters");
  bool strict = json_is_true(json_object_get(function, "strict"));
  const uint32_t parts[] = {text(tree, syntax->before),
                            lls_grammar_literal(tree, name != NULL ? name : "",
                                                name != NULL ? strlen(name) : 0),
                            text(tree, syntax->middle),
                            lls_grammar_json_arguments(tree, parameters, strict),
                            text(tree, syntax->after)};
  return lls_grammar_sequence(tree, parts, sizeof parts / sizeof *parts);
}

/* A call of any one of the tools. */
static uint32_t any_call(struct lls_grammar_tree *tree,
                         const struct lls_tool_constraint *constraint)
{
  size_t n = json_array_size(constraint->tools);
  uint32_t *calls = malloc((n + 1) * sizeof *calls);
  if (calls == NULL)
    return lls_grammar_fail(tree, "no memory for the tools");
  for (size_t i = 0; i < n; i++)
    calls[i] =
        one_call(tree, &constraint->format->syntax,
                 json_object_get(json_array_get(constraint->tools, i), "function"));
  uint32_t node = lls_grammar_choice(tree, calls, (uint32_t)n);
  free(calls);
  return node;
}

/* ---- texts up to a mark ---------------------------------------------------------- */

/* Returns true if the mark's first byte does not occur in it again, and all bytes are
 * ASCII: an occurrence can then only begin at that byte. */
static bool is_plain(const char *mark)
{
  for (const char *at = mark; *at != '\0'; at++)
    if ((unsigned char)*at >= 0x80 || (at > mark && *at == *mark))
      return false;
  return *mark != '\0';
}

/* One character except these two. */
static uint32_t other(struct lls_grammar_tree *tree, char one, char two)
{
  const struct lls_grammar_range both[] = {{(unsigned char)one, (unsigned char)one},
                                           {(unsigned char)two, (unsigned char)two}};
  return lls_grammar_class_but(tree, both, 2);
}

static uint32_t any_times(struct lls_grammar_tree *tree, uint32_t part)
{
  return lls_grammar_repeat(tree, part, 0, LLS_GRAMMAR_UNBOUNDED);
}

/* Texts without a mark for which is_plain holds. After each first byte of the mark the
 * text leaves the mark: `part` is a proper beginning of the mark's remainder, `broken`
 * a text that deviates from it. */
static uint32_t text_without(struct lls_grammar_tree *tree, const char *mark)
{
  size_t n = strlen(mark);
  uint32_t first = lls_grammar_literal(tree, mark, 1);
  uint32_t plain = any_times(tree, other(tree, *mark, *mark));
  if (n == 1)
    return plain;
  uint32_t broken = other(tree, *mark, mark[n - 1]);
  uint32_t part = lls_grammar_literal(tree, "", 0);
  for (size_t i = n - 1; i-- > 1;) {
    uint32_t byte = lls_grammar_literal(tree, mark + i, 1);
    const uint32_t ways[] = {other(tree, *mark, mark[i]), row(tree, byte, broken)};
    broken = lls_grammar_choice(tree, ways, 2);
    part = maybe(tree, row(tree, byte, part));
  }
  uint32_t begun = row(tree, first, any_times(tree, row(tree, part, first)));
  uint32_t again = any_times(tree, row(tree, row(tree, begun, broken), plain));
  return row(tree, row(tree, plain, again), maybe(tree, row(tree, begun, part)));
}

/* Reasoning and its end mark. If the mark is not plain, its first byte is not allowed
 * inside. */
static uint32_t thought(struct lls_grammar_tree *tree, const char *close)
{
  const struct lls_grammar_range line = {'\n', '\n'};
  const uint32_t parts[] = {
      is_plain(close) ? text_without(tree, close)
                      : any_times(tree, other(tree, *close, *close)),
      text(tree, close),
      lls_grammar_repeat(tree, lls_grammar_class(tree, &line, 1), 0, LINE_ENDS)};
  return lls_grammar_sequence(tree, parts, sizeof parts / sizeof *parts);
}

/* The reasoning before calls or a form. It is required if the prompt began it, else
 * optional. */
static uint32_t before(struct lls_grammar_tree *tree,
                       const struct lls_tool_constraint *constraint)
{
  bool channel = constraint->format->shape == LLS_TOOL_CHANNEL;
  if (!channel && constraint->reasoning == NULL)
    return text(tree, "");
  const char *open =
      channel ? LLS_TOOL_ANALYSIS LLS_TOOL_MESSAGE : constraint->reasoning->open;
  const char *close =
      channel ? "<|end|><|start|>assistant" : constraint->reasoning->close;
  uint32_t rest = thought(tree, close);
  return constraint->in_reasoning ? rest : maybe(tree, row(tree, text(tree, open), rest));
}

/* The form, with the text that the format puts before content. */
static uint32_t framed(struct lls_grammar_tree *tree,
                       const struct lls_tool_format *format, uint32_t form)
{
  if (format->shape == LLS_TOOL_CHANNEL) {
    const uint32_t parts[] = {text(tree, LLS_TOOL_FINAL),
                              maybe(tree, text(tree, " <|constrain|>json")),
                              text(tree, LLS_TOOL_MESSAGE), form};
    return lls_grammar_sequence(tree, parts, sizeof parts / sizeof *parts);
  }
  if (format->not_a_name == NULL)
    return form;
  uint32_t to_all =
      row(tree, text(tree, format->not_a_name), text(tree, format->name_end));
  return row(tree, maybe(tree, to_all), form);
}

static uint32_t any_calls(struct lls_grammar_tree *tree,
                          const struct lls_tool_constraint *constraint)
{
  const struct lls_tool_syntax *syntax = &constraint->format->syntax;
  uint32_t call = any_call(tree, constraint), more = text(tree, "");
  if (constraint->parallel && syntax->between != NULL)
    more = lls_grammar_repeat(tree, row(tree, text(tree, syntax->between), call), 0,
                              LLS_GRAMMAR_UNBOUNDED);
  const uint32_t parts[] = {text(tree, syntax->begin), call, more,
                            text(tree, syntax->end)};
  return lls_grammar_sequence(tree, parts, sizeof parts / sizeof *parts);
}

uint32_t lls_tool_grammar(struct lls_grammar_tree *tree,
                          const struct lls_tool_constraint *constraint, uint32_t form)
{
  bool has_form = form != LLS_GRAMMAR_NONE;
  uint32_t ways[2], n = 0;
  if (constraint->tools != NULL)
    ways[n++] = any_calls(tree, constraint);
  if (constraint->optional && !has_form)
    ways[0] =
        row(tree, text_without(tree, constraint->format->open[0]), maybe(tree, ways[0]));
  if (has_form)
    ways[n++] = framed(tree, constraint->format, form);
  return row(tree, before(tree, constraint), lls_grammar_choice(tree, ways, n));
}

bool lls_tool_grammar_may_be_optional(const struct lls_tool_format *format)
{
  const struct lls_tool_syntax *syntax = &format->syntax;
  const char *mark = format->open[0];
  if (mark == NULL || format->open[1] != NULL || format->bare || syntax->begin == NULL ||
      !is_plain(mark))
    return false;
  const char *begins = *syntax->begin != '\0' ? syntax->begin : syntax->before;
  return strncmp(begins, mark, strlen(mark)) == 0;
}

json_t *lls_tool_constraint_json(const struct lls_tool_constraint *constraint)
{
  const struct lls_reasoning_format *reasoning = constraint->reasoning;
  return json_pack("{s:s, s:s?, s:b, s:b, s:b, s:O?}", "format", constraint->format->name,
                   "reasoning", reasoning != NULL ? reasoning->name : NULL,
                   "in_reasoning", constraint->in_reasoning, "parallel",
                   constraint->parallel, "optional", constraint->optional, "tools",
                   (json_t *)constraint->tools);
}

uint32_t lls_tool_grammar_of_json(struct lls_grammar_tree *tree, const json_t *json,
                                  uint32_t form)
{
  const json_t *tools = json_object_get(json, "tools");
  const char *format = json_string_value(json_object_get(json, "format"));
  const char *reasoning = json_string_value(json_object_get(json, "reasoning"));
  const struct lls_tool_constraint constraint = {
      .format = lls_tool_format_find(format),
      .reasoning = reasoning != NULL ? lls_reasoning_format_find(reasoning) : NULL,
      .tools = json_is_array(tools) ? tools : NULL,
      .parallel = json_is_true(json_object_get(json, "parallel")),
      .in_reasoning = json_is_true(json_object_get(json, "in_reasoning")),
      .optional = json_is_true(json_object_get(json, "optional"))};
  return lls_tool_grammar(tree, &constraint, form);
}
