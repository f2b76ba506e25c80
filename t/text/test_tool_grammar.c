/* SPDX-License-Identifier: Apache-2.0 */
/* Required tool calls: each format's grammar accepts exactly the answers that its
 * parser reads as calls. */
#include "t/recogniser.h"
#include "t/tap.h"

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/grammar_marks.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tools/tool_dialect.h"
#include "text/tools/tool_grammar.h"
#include "text/tools/tool_parser.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tools_text[] = "[{'type': 'function', 'function': {'name': 'weather', "
                                 "'parameters': {'type': 'object',"
                                 " 'properties': {'place': {'type': 'string'}, 'days': "
                                 "{'type': 'integer'}}, 'required':"
                                 " ['place'], 'additionalProperties': false}}},"
                                 " {'type': 'function', 'function': {'name': 'now'}}]";

static json_t *read_json(const char *text)
{
  char copy[1024];
  size_t n = strlen(text);
  assert_true(n < sizeof copy);
  for (size_t i = 0; i <= n; i++)
    copy[i] = text[i] == '\'' ? '"' : text[i];
  json_t *value = json_loads(copy, 0, NULL);
  assert_non_null(value);
  return value;
}

static struct lls_grammar_tree *make_tree(const struct lls_tool_constraint *constraint)
{
  struct lls_error err = {0};
  struct lls_grammar_tree *tree =
      lls_grammar_tree_create(&(struct lls_grammar_bounds){100000, 4000000, 10000});
  assert_non_null(tree);
  lls_grammar_set_root(tree, lls_tool_grammar(tree, constraint, LLS_GRAMMAR_NONE));
  if (lls_grammar_tree_check(tree, &err) != 0)
    fail_msg("%s", err.text);
  return tree;
}

static bool has(const struct lls_grammar_tree *tree, const struct lls_text *text)
{
  return recognises(tree, text->data, text->length);
}

static void put_call(struct lls_text *out, const struct lls_tool_syntax *syntax,
                     const char *name, const char *arguments)
{
  lls_text_printf(out, "%s%s%s%s%s", syntax->before, name, syntax->middle, arguments,
                  syntax->after);
}

/* The parser must find the calls, and nothing else. */
static void check_parsed(const struct lls_tool_constraint *constraint,
                         const struct lls_text *text, uint32_t n_calls)
{
  const struct lls_tool_parser_options options = {.format = constraint->format,
                                                  .reasoning = constraint->reasoning,
                                                  .in_reasoning =
                                                      constraint->in_reasoning,
                                                  .tools = constraint->tools};
  struct lls_tool_answer answer = {0};
  struct lls_tool_parser *parser = lls_tool_parser_create(&options, &answer);
  lls_tool_parser_push(parser, text->data, text->length);
  lls_tool_parser_finish(parser, false);
  if (answer.n_calls != n_calls || answer.content.length > 0)
    fail_msg("%s: %u calls and content \"%.*s\" in %s", options.format->name,
             answer.n_calls, (int)answer.content.length,
             answer.content.length > 0 ? answer.content.data : "", text->data);
  for (uint32_t i = 0; i < n_calls; i++)
    assert_string_equal(answer.calls[i].arguments.data,
                        i % 2 == 0 ? "{\"place\": \"Bern\", \"days\": 3}" : "{}");
  lls_tool_parser_destroy(parser);
  lls_tool_answer_free(&answer);
}

static void check_format(const struct lls_tool_constraint *constraint, const char *before)
{
  const struct lls_tool_syntax *syntax = &constraint->format->syntax;
  struct lls_grammar_tree *tree = make_tree(constraint);
  struct lls_text text = {0};
  for (uint32_t n = 1; n <= (syntax->between != NULL ? 3 : 1); n++) {
    lls_text_clear(&text);
    lls_text_printf(&text, "%s%s", before, syntax->begin);
    for (uint32_t i = 0; i < n; i++) {
      if (i > 0)
        lls_text_puts(&text, syntax->between);
      put_call(&text, syntax, i % 2 == 0 ? "weather" : "now",
               i % 2 == 0 ? "{\"place\": \"Bern\", \"days\": 3}" : "{}");
    }
    lls_text_puts(&text, syntax->end);
    if (!has(tree, &text))
      fail_msg("%s: not in the grammar: %s", constraint->format->name, text.data);
    check_parsed(constraint, &text, n);
  }
  lls_text_clear(&text);
  lls_text_printf(&text, "%s%s", before, syntax->begin);
  put_call(&text, syntax, "weather", "{\"days\": 3}");
  lls_text_puts(&text, syntax->end);
  if (has(tree, &text))
    fail_msg("%s: an argument is missing in %s", constraint->format->name, text.data);
  lls_text_free(&text);
  lls_grammar_tree_destroy(tree);
}

static void test_each_format(void **state)
{
  (void)state;
  json_t *tools = read_json(tools_text);
  char names[] = LLS_TOOL_FORMAT_NAMES, *rest = names;
  for (char *name; (name = strtok_r(rest, ", ", &rest)) != NULL;) {
    struct lls_tool_constraint constraint = {
        .format = lls_tool_format_written(lls_tool_format_find(name)),
        .tools = tools,
        .parallel = true};
    assert_non_null(constraint.format);
    check_format(&constraint, "");
    bool channel = constraint.format->shape == LLS_TOOL_CHANNEL;
    constraint.reasoning = lls_reasoning_format_find("think");
    check_format(&constraint, "");
    check_format(&constraint,
                 channel ? "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
                         : "<think>\nHm.\n</think>\n\n");
    constraint.in_reasoning = !channel;
    check_format(&constraint, channel ? "" : "Hm.\n</think>\n\n");
  }
  json_decref(tools);
}

static void test_nothing_but_calls(void **state)
{
  (void)state;
  json_t *tools = read_json(tools_text);
  struct lls_tool_constraint constraint = {.format = lls_tool_format_find("hermes"),
                                           .tools = tools};
  static const char call[] =
      "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  struct lls_grammar_tree *tree = make_tree(&constraint);
  static const char *const refused[] = {
      "", "Hello", "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"now\", \"arguments\": []}\n</tool_call>",
      "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}"};
  assert_true(recognises(tree, call, strlen(call)));
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    assert_false(recognises(tree, refused[i], strlen(refused[i])));
  char two[256];
  snprintf(two, sizeof two, "%s\n%s", call, call);
  assert_false(recognises(tree, two, strlen(two)));
  lls_grammar_tree_destroy(tree);
  constraint.parallel = true;
  tree = make_tree(&constraint);
  assert_true(recognises(tree, two, strlen(two)));
  lls_grammar_tree_destroy(tree);
  json_decref(tools);
}

/* With "auto": any text, and calls in the required form from their mark on. */
static void test_optional_calls(void **state)
{
  (void)state;
  json_t *tools = read_json(tools_text);
  const struct lls_tool_constraint constraint = {
      .format = lls_tool_format_find("hermes"), .tools = tools, .optional = true};
  static const char *const taken[] = {
      "",
      "Hello",
      "a < b, <tool>, <<tool_calls",
      "<tool_call",
      "<<tool_cal<",
      "Well.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
      "<<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": "
      "\"B\"}}\n</tool_call>"};
  static const char *const refused[] = {
      "<tool_call>", "a<tool_call>b", "<tool_c<tool_call>\n{}\n</tool_call>",
      "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>"};
  struct lls_grammar_tree *tree = make_tree(&constraint);
  assert_true(lls_tool_grammar_may_be_optional(constraint.format));
  assert_false(lls_tool_grammar_may_be_optional(lls_tool_format_find("llama3_json")));
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (!recognises(tree, taken[i], strlen(taken[i])))
      fail_msg("not in the grammar: %s", taken[i]);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (recognises(tree, refused[i], strlen(refused[i])))
      fail_msg("in the grammar: %s", refused[i]);
  lls_grammar_tree_destroy(tree);
  json_decref(tools);
}

static void test_strict_functions_refuse_what_is_not_kept(void **state)
{
  (void)state;
  struct lls_tool_constraint constraint = {.format = lls_tool_format_find("hermes")};
  for (int strict = 0; strict < 2; strict++) {
    json_t *tools =
        read_json("[{'function': {'name': 'f', 'parameters': {'type': 'object', "
                  "'properties': {'a': {'uniqueItems': true}}}}}]");
    json_t *function = json_object_get(json_array_get(tools, 0), "function");
    json_object_set_new(function, "strict", json_boolean(strict));
    constraint.tools = tools;
    struct lls_error err = {0};
    struct lls_grammar_tree *tree =
        lls_grammar_tree_create(&(struct lls_grammar_bounds){100000, 4000000, 10000});
    lls_grammar_set_root(tree, lls_tool_grammar(tree, &constraint, LLS_GRAMMAR_NONE));
    assert_int_equal(lls_grammar_tree_check(tree, &err) != 0, strict);
    lls_grammar_tree_destroy(tree);
    json_decref(tools);
  }
}

/* ---- special tokens ---------------------------------------------------------------- */

enum { BEGIN = 0, END = 1, EOT = 2 }; /* of the tokeniser; EOT ends texts */

/* A grammar of "<|begin_of_text|>" and a text, as a mark or as letters. */
static struct lls_grammar *grammar_of(const struct lls_vocabulary *v, const char *text,
                                      bool marks)
{
  static const struct lls_grammar_bounds bounds = {.nodes = 9, .bytes = 999, .rules = 1};
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  struct lls_grammar *g = NULL;
  lls_grammar_tree_set_vocabulary(tree, v);
  lls_grammar_set_root(tree, marks ? lls_grammar_marks(tree, text, strlen(text))
                                   : lls_grammar_literal(tree, text, strlen(text)));
  assert_int_equal(lls_grammar_compile(tree, v, &limits, &g, NULL), 0);
  lls_grammar_tree_destroy(tree);
  return g;
}

static bool allows(struct lls_grammar_state *state, const struct lls_vocabulary *v,
                   int32_t token, uint32_t *n)
{
  uint32_t *bits = calloc(lls_vocabulary_words(v), sizeof *bits);
  assert_int_equal(lls_grammar_fill_mask(state, bits), 1);
  *n = 0;
  for (uint32_t i = 0; i < v->size; i++)
    *n += bits[i / 32] >> (i % 32) & 1;
  bool allowed = (bits[token / 32] >> (token % 32) & 1) != 0;
  free(bits);
  return allowed;
}

static void test_marks_are_special_tokens(void **state)
{
  (void)state;
  char path[4096];
  struct lls_tokenizer *tokenizer;
  struct lls_vocabulary *v;
  struct lls_error err = {0};
  const int32_t end = EOT;
  uint32_t n;
  snprintf(path, sizeof path, "%s/t/data/tokenizer/llama3", getenv("LLS_SRCDIR"));
  if (lls_tokenizer_load(path, &tokenizer, &err) < 0)
    fail_msg("%s", err.text);
  assert_int_equal(lls_vocabulary_create(tokenizer,
                                         (uint32_t)lls_tokenizer_size(tokenizer), &end, 1,
                                         &v, NULL),
                   0);
  struct lls_grammar_state *at = malloc(lls_grammar_state_bytes());
  struct lls_grammar *marks = grammar_of(v, "<|begin_of_text|>a<|end_of_text|>", true);
  lls_grammar_state_init(at, marks);
  assert_true(allows(at, v, BEGIN, &n));
  assert_int_equal(n, 1); /* not its letters */
  assert_int_equal(lls_grammar_accept_token(at, BEGIN), 0);
  assert_false(allows(at, v, END, &n));
  assert_int_equal(lls_grammar_accept_bytes(at, "a", 1), 0);
  assert_int_equal(lls_grammar_accept_token(at, END), 0);
  assert_true(lls_grammar_may_end(at));
  /* a text that merely has such letters */
  struct lls_grammar *letters = grammar_of(v, "<|begin_of_text|>", false);
  lls_grammar_state_init(at, letters);
  assert_false(allows(at, v, BEGIN, &n));
  assert_int_equal(lls_grammar_accept_token(at, BEGIN), -EINVAL);
  free(at);
  lls_grammar_unref(marks);
  lls_grammar_unref(letters);
  lls_vocabulary_destroy(v);
  lls_tokenizer_free(tokenizer);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_format),
      cmocka_unit_test(test_marks_are_special_tokens),
      cmocka_unit_test(test_nothing_but_calls),
      cmocka_unit_test(test_optional_calls),
      cmocka_unit_test(test_strict_functions_refuse_what_is_not_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
