/* SPDX-License-Identifier: Apache-2.0 */
/* A format's syntax around the tools' names and schemas; see tool_grammar.h. */
#include "core/tools/tool_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "core/grammar/grammar_marks.h"
#include "core/grammar/json_schema.h"

#define LINE_ENDS 2 /* after the reasoning, at most */

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

/* Arguments are an object, whatever the schema leaves open. */
static uint32_t arguments(struct lls_grammar_tree *tree, const json_t *function)
{
  json_t *schema = json_copy(json_object_get(function, "parameters"));
  bool strict = json_is_true(json_object_get(function, "strict"));
  if (!json_is_object(schema) || json_object_size(schema) == 0) {
    json_decref(schema);
    return lls_grammar_json_object(tree);
  }
  if (json_object_get(schema, "type") == NULL)
    json_object_set_new(schema, "type", json_string("object"));
  uint32_t node = lls_grammar_json_schema(tree, schema, strict);
  json_decref(schema);
  return node;
}

static uint32_t one_call(struct lls_grammar_tree *tree,
                         const struct lls_tool_syntax *syntax, const json_t *function)
{
  const char *name = json_string_value(json_object_get(function, "name"));
  const uint32_t parts[] = {text(tree, syntax->before),
                            lls_grammar_literal(tree, name != NULL ? name : "",
                                                name != NULL ? strlen(name) : 0),
                            text(tree, syntax->middle), arguments(tree, function),
                            text(tree, syntax->after)};
  return lls_grammar_sequence(tree, parts, sizeof parts / sizeof *parts);
}

/* A call of any of the tools. */
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

/* Reasoning up to its end, which is told by the first byte of the mark: the text before
 * has none. */
static uint32_t thought(struct lls_grammar_tree *tree, const char *close)
{
  const struct lls_grammar_range first = {(unsigned char)*close, (unsigned char)*close};
  const struct lls_grammar_range line = {'\n', '\n'};
  const uint32_t parts[] = {
      lls_grammar_repeat(tree, lls_grammar_class_but(tree, &first, 1), 0,
                         LLS_GRAMMAR_UNBOUNDED),
      text(tree, close),
      lls_grammar_repeat(tree, lls_grammar_class(tree, &line, 1), 0, LINE_ENDS)};
  return lls_grammar_sequence(tree, parts, sizeof parts / sizeof *parts);
}

static uint32_t before_calls(struct lls_grammar_tree *tree,
                             const struct lls_tool_constraint *constraint)
{
  const struct lls_reasoning_format *reasoning = constraint->reasoning;
  if (constraint->format->shape == LLS_TOOL_CHANNEL)
    return maybe(tree, row(tree, text(tree, "<|channel|>analysis<|message|>"),
                           thought(tree, "<|end|><|start|>assistant")));
  if (reasoning == NULL)
    return text(tree, "");
  uint32_t rest = thought(tree, reasoning->close);
  return constraint->in_reasoning
             ? rest
             : maybe(tree, row(tree, text(tree, reasoning->open), rest));
}

uint32_t lls_tool_grammar(struct lls_grammar_tree *tree,
                          const struct lls_tool_constraint *constraint)
{
  const struct lls_tool_syntax *syntax = &constraint->format->syntax;
  uint32_t call = any_call(tree, constraint), more = text(tree, "");
  if (constraint->parallel && syntax->between != NULL)
    more = lls_grammar_repeat(tree, row(tree, text(tree, syntax->between), call), 0,
                              LLS_GRAMMAR_UNBOUNDED);
  const uint32_t parts[] = {before_calls(tree, constraint), text(tree, syntax->begin),
                            call, more, text(tree, syntax->end)};
  return lls_grammar_sequence(tree, parts, sizeof parts / sizeof *parts);
}

json_t *lls_tool_constraint_json(const struct lls_tool_constraint *constraint)
{
  const struct lls_reasoning_format *reasoning = constraint->reasoning;
  return json_pack("{s:s, s:s?, s:b, s:b, s:O}", "format", constraint->format->name,
                   "reasoning", reasoning != NULL ? reasoning->name : NULL,
                   "in_reasoning", constraint->in_reasoning, "parallel",
                   constraint->parallel, "tools", (json_t *)constraint->tools);
}

uint32_t lls_tool_grammar_of_json(struct lls_grammar_tree *tree, const json_t *json)
{
  const char *format = json_string_value(json_object_get(json, "format"));
  const char *reasoning = json_string_value(json_object_get(json, "reasoning"));
  const struct lls_tool_constraint constraint = {
      .format = lls_tool_format_find(format),
      .reasoning = reasoning != NULL ? lls_reasoning_format_find(reasoning) : NULL,
      .tools = json_object_get(json, "tools"),
      .parallel = json_is_true(json_object_get(json, "parallel")),
      .in_reasoning = json_is_true(json_object_get(json, "in_reasoning"))};
  return lls_tool_grammar(tree, &constraint);
}
