/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of tool calls: values by the types that a tool's parameters have, marks
 * within them, and calls that are broken off. */
#include "t/tool_outcome.h"

#include "text/tools/tool_format.h"

#include <string.h>

static const char typed_text[] =
    "[{'function': {'name': 'f', 'parameters': {'type': 'object', '$defs': {'text': "
    "{'type': 'string'}}, 'properties': {"
    "'any': {}, 's': {'type': 'string'}, 'list': {'type': ['string', 'integer']},"
    "'of': {'anyOf': [{'type': 'string'}, {'type': 'object'}]},"
    "'maybe': {'oneOf': [{'type': 'null'}, {'type': 'string'}]},"
    "'enum': {'enum': ['1', '2']}, 'ref': {'$ref': '#/$defs/text'},"
    "'n': {'type': 'integer'}, 'b': {'type': 'boolean'}, 'o': {'type': 'object'},"
    "'all': {'allOf': [{'$ref': '#/$defs/text'}, {'minLength': 1}]}}}}},"
    "{'function': {'name': 'now'}}]";

static void check_text(const char *format, const char *text, bool cut,
                       const char *outcome, bool whole)
{
  json_t *tools = read_quoted(typed_text);
  const struct lls_tool_parser_options options = {.format = lls_tool_format_find(format),
                                                  .tools = tools};
  for (size_t piece = 0; piece < 4; piece++) {
    bool all;
    char *got = parse_until(&options, text, piece == 3 ? strlen(text) : piece, cut, &all);
    if (strcmp(got, outcome) != 0 || all != whole)
      fail_msg("%s, pieces of %zu: %s\ngave %s (%d)\nnot  %s", format, piece, text, got,
               all, outcome);
    free(got);
  }
  json_decref(tools);
}

static void test_types_of_arguments(void **state)
{
  static const struct {
    const char *key, *text, *json;
  } cases[] = {
      {"s", "12", "\"12\""},
      {"list", "12", "\"12\""},
      {"of", "{\"a\": 1}", "\"{\\\"a\\\": 1}\""},
      {"maybe", "true", "\"true\""},
      {"maybe", "null", "null"},
      {"enum", "1", "\"1\""},
      {"ref", "False", "\"False\""},
      {"all", "1e5", "\"1e5\""},
      {"n", "123456789012345678901234567890", "123456789012345678901234567890"},
      {"n", " 9223372036854775808\n", "9223372036854775808"},
      {"n", "soon", "\"soon\""},
      {"b", "True", "true"},
      {"b", "False", "false"},
      {"any", "None", "null"},
      {"any", "1.10", "1.10"},
      {"any", "Trueish", "\"Trueish\""},
      {"o", "{'a': True, 'b': [1, None,],}", "{\"a\": true, \"b\": [1, null]}"},
      {"o", "{\"a\": 18446744073709551616}", "{\"a\": 18446744073709551616}"},
      {"other", "1", "1"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[400], outcome[200];
    snprintf(outcome, sizeof outcome, "||f({\"%s\": %s})", cases[i].key, cases[i].json);
    snprintf(text, sizeof text,
             "<tool_call>\n<function=f>\n<parameter=%s>\n%s\n</parameter>\n"
             "</function>\n</tool_call>",
             cases[i].key, cases[i].text);
    check_text("qwen3_coder", text, false, outcome, true);
    snprintf(text, sizeof text,
             "<tool_call>f\n<arg_key>%s</arg_key>\n<arg_value>%s</arg_value>\n"
             "</tool_call>",
             cases[i].key, cases[i].text);
    check_text("glm4", text, false, outcome, true);
    snprintf(text, sizeof text,
             "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter "
             "name=\"%s\">%s</parameter>\n</invoke>\n</minimax:tool_call>",
             cases[i].key, cases[i].text);
    check_text("minimax_m2", text, false, outcome, true);
  }
  check_text("deepseek_v3.2",
             "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
             "name=\"any\" string=\"true\">3</｜DSML｜parameter>\n<｜DSML｜parameter "
             "name=\"n\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
             "</｜DSML｜function_calls>",
             false, "||f({\"any\": \"3\", \"n\": 3})", true);
}

/* A mark within a value, marks that are left out, and a call that begins without one. */
static void test_marks_of_arguments(void **state)
{
  (void)state;
  check_text("qwen3_coder",
             "<tool_call>\n<function=f>\n<parameter=s>\nEnd it by </parameter>, then "
             "</function> or <parameter=x>.\n</parameter>\n<parameter=n>\n1\n"
             "</parameter>\n</function>\n</tool_call>\nDone",
             false,
             "Done||f({\"s\": \"End it by </parameter>, then </function> or "
             "<parameter=x>.\", \"n\": 1})",
             true);
  check_text("qwen3_coder",
             "<tool_call>\n<function=f>\n<parameter=s>\na\n<parameter=n>\n1\n"
             "</function>\n</tool_call>",
             false, "||f({\"s\": \"a\", \"n\": 1})", true);
  check_text("qwen3_coder",
             "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</tool_call>",
             false, "||f({\"n\": 1})", true);
  check_text("qwen3_coder",
             "Look: <function=f>\n<parameter=n>\n1\n</parameter>\n</function>\n"
             "</tool_call>",
             false, "Look:||f({\"n\": 1})", true);
  check_text("qwen3_coder", "<function=f>\n<parameter=n>\n1\n</parameter>\n", false,
             "||f({\"n\": 1})", true);
  check_text("qwen3_coder", "Write <function=other> here", false,
             "Write <function=other> here||", false);
  check_text("glm4",
             "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a </arg_value> b\n"
             "<arg_key>n</arg_key>\n<arg_value>1</tool_call>",
             false, "||f({\"s\": \"a </arg_value> b\", \"n\": 1})", true);
  check_text("minimax_m2",
             "<invoke name=\"f\">\n<parameter name=\"n\">2</parameter>\n</invoke>", false,
             "||f({\"n\": 2})", true);
}

static void test_arguments_become_json(void **state)
{
  (void)state;
  check_text("hermes",
             "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"a\nb\tc\", "
             "\"o\": [1, True, ],\n }}</tool_call>",
             false, "||f({\"s\": \"a\\nb\\tc\", \"o\": [1, true ]\n })", true);
  check_text("llama3_json", "{\"name\": \"f\", \"parameters\": {\"s\": \"it\\'s \\d\",}}",
             false, "||f({\"s\": \"it's \\\\d\"})", true);
  check_text("mistral_v11", "[TOOL_CALLS]f[ARGS]{\"s\": \"a\r\nb\", \"b\": None}", false,
             "||f({\"s\": \"a\\r\\nb\", \"b\": null})", true);
  check_text("harmony",
             "<|channel|>commentary to=functions.f<|message|>{\"s\": \"a\nb\",}<|call|>",
             false, "||f({\"s\": \"a\\nb\"})", true);
  check_text("hermes", "<tool_call>{\"arguments\": {\"s\": \"a\nb\"}, \"name\": \"f\"}",
             false, "||f({\"s\": \"a\\nb\"})", true);
}

/* No part of an incomplete call becomes content, and the call is not complete. */
static void test_broken_off(void **state)
{
  static const struct {
    const char *format, *text, *outcome;
    /* whole: the answer ended by itself; at_the_cut: by its length */
    bool whole, at_the_cut;
  } cases[] = {
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"argu", "||f()", false, false},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"a",
       "||f({\"s\": \"a)", false, false},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}",
       "||f({\"n\": 1})", true, true},
      {"llama3_json", "{\"name\": \"f\", \"parameters\": {\"n\": [1, 2",
       "||f({\"n\": [1, )", false, false},
      {"mistral_v11", "[TOOL_CALLS]f[ARGS]{\"s\": \"a", "||f({\"s\": \"a)", false, false},
      {"deepseek_v3.1", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\": ", "||f({\"s\": )",
       false, false},
      {"harmony", "<|channel|>commentary to=functions.f<|message|>{\"s\"", "||f({\"s\")",
       false, false},
      {"harmony", "<|channel|>commentary to=functions.f<|message|>{}", "||f({})", true,
       true},
      {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\nab", "||f()", false,
       false},
      {"glm4", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_va", "||f()", false, false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_text(cases[i].format, cases[i].text, false, cases[i].outcome, cases[i].whole);
    check_text(cases[i].format, cases[i].text, true, cases[i].outcome,
               cases[i].at_the_cut);
  }
  check_text("hermes", "I see. <tool_call>\n{\"na", true, "I see.||", false);
  check_text("kimi_k2",
             "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:", true, "||",
             false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types_of_arguments),
      cmocka_unit_test(test_marks_of_arguments),
      cmocka_unit_test(test_arguments_become_json),
      cmocka_unit_test(test_broken_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
