/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of tools and reasoning in what models write: each answer at once, byte by byte
 * and in pieces, with the same outcome; and what is no call stays text. */
#include "t/tap.h"

#include "core/tools/tool_parser.h"

#include <string.h>

static const char tools_text[] =
    "[{'type': 'function', 'function': {'name': 'weather', 'parameters': {'type': "
    "'object',"
    " 'properties': {'place': {'type': 'string'}, 'days': {'type': 'integer'}}}}},"
    " {'type': 'function', 'function': {'name': 'now'}}]";

/* Outcomes are written "content|reasoning|name(arguments)name(arguments)". */
static const struct answer {
  const char *format;
  const char *text;
  const char *outcome;
} answers[] = {
    /* Hermes and Qwen */
    {"hermes", "Hello", "Hello||"},
    {"hermes",
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": "
     "\"Z\"}}\n</tool_call>",
     "||weather({\"place\": \"Z\"})"},
    {"hermes",
     "Let me see.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n"
     "<tool_call>\n{\"arguments\": {\"days\": 2}, \"name\": \"weather\"}\n</tool_call>",
     "Let me see.||now({})weather({\"days\": 2})"},
    {"hermes", "<tool_call>{\"name\": \"now\"}</tool_call> done", "done||now({})"},
    {"hermes",
     "<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
     "||now({\"a\": 1})"},
    {"hermes",
     "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":{}}}"
     "</tool_call>",
     "||now({})"},
    {"hermes", "a <tool_call> is a tag\n\n", "a <tool_call> is a tag\n\n||"},
    {"hermes", "<tool_call>{\"x\": 1}</tool_call>",
     "<tool_call>{\"x\": 1}</tool_call>||"},
    {"hermes", "<tool_call>{\"name\": 1}", "<tool_call>{\"name\": 1}||"},
    {"hermes", "<tool_call>\n{\"name\": \"now\", \"argu", "<nothing>"},
    {"hermes", "<tool_call>{\"name\": \"weather\", \"arguments\": {\"place\": [}} tail",
     "}} tail||weather({\"place\": [)"},
    {"hermes", "<think>\nhm\n\n</think>\n\nyes", "yes|hm|"},
    {"hermes",
     "<think>a < b</think><tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
     "|a < b|now({})"},
    {"hermes", " <thin ice", " <thin ice||"},
    {"hermes", "<think>cut off ", "|cut off|"},
    /* Llama 3.x */
    {"llama3_json", "{\"name\": \"weather\", \"parameters\": {\"place\": \"Bern\"}}",
     "||weather({\"place\": \"Bern\"})"},
    {"llama3_json",
     "<|python_tag|>{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}; "
     "{\"name\": \"weather\", \"parameters\": {\"days\": 1}}",
     "||now({})weather({\"days\": 1})"},
    {"llama3_json", "{\"name\": \"unknown\", \"parameters\": {}}",
     "{\"name\": \"unknown\", \"parameters\": {}}||"},
    {"llama3_json", "{\"city\": \"Bern\"}", "{\"city\": \"Bern\"}||"},
    {"llama3_json", "Call {\"name\": \"now\"}", "Call {\"name\": \"now\"}||"},
    /* Mistral, older and newer */
    {"mistral",
     "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"days\": 3}}, {\"name\": "
     "\"now\", \"arguments\": {}}]",
     "||weather({\"days\": 3})now({})"},
    {"mistral",
     "[TOOL_CALLS] [{\"arguments\": {\"s\": \"]}\\\"\"}, \"name\": \"now\", \"id\": "
     "\"abcdefghi\"}]",
     "||now({\"s\": \"]}\\\"\"})"},
    {"mistral_v11",
     "[TOOL_CALLS]weather[ARGS]{\"place\": "
     "\"Basel\"}[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}",
     "||weather({\"place\": \"Basel\"})now({})"},
    {"mistral", "[TOOL_CALLS]now[ARGS]{}", "||now({})"},
    {"mistral_v11", "[TOOL_CALLS] none", "[TOOL_CALLS] none||"},
    {"mistral", "[TOOL", "[TOOL||"},
    /* Granite, Phi, firefunction, Command R7B */
    {"granite", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", "||now({})"},
    {"granite", "<tool_call>[{\"name\": \"weather\", \"arguments\": {\"days\": 1}}]",
     "||weather({\"days\": 1})"},
    {"phi4", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>",
     "||now({})"},
    {"phi4", "functools[{\"name\": \"now\", \"arguments\": {}}]", "||now({})"},
    {"functools", " functools[{\"name\": \"now\", \"arguments\": {}}]", "||now({})"},
    {"command_r7b",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", "
     "\"parameters\": {\"days\": 1}}\n]<|END_ACTION|>",
     "||weather({\"days\": 1})"},
    /* names beside their arguments */
    {"functionary_v3.2", "all\nHello there>>>weather\n{\"place\": \"Chur\"}",
     "Hello there||weather({\"place\": \"Chur\"})"},
    {"functionary_v3.2", "now\n{}>>>weather\n{\"days\": 1}",
     "||now({})weather({\"days\": 1})"},
    {"functionary_v3.2", "Hello\nthere", "Hello\nthere||"},
    {"functionary_v3.1", "<function=weather>{\"days\": 4}</function>",
     "||weather({\"days\": 4})"},
    {"kimi_k2",
     "I "
     "look.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_"
     "argument_begin|>"
     "{\"days\": "
     "1}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "I look.||weather({\"days\": 1})now({})"},
    {"deepseek_v3.1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"days\": "
     "1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "||weather({\"days\": 1})"},
    {"deepseek_r1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```"
     "json\n{\"days\": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "||weather({\"days\": 1})"},
    /* argument by argument */
    {"qwen3_coder",
     "<tool_call>\n<function=weather>\n<parameter=place>\n12\n</"
     "parameter>\n<parameter=days>\n3\n</parameter>\n"
     "</function>\n</tool_call>",
     "||weather({\"place\": \"12\", \"days\": 3})"},
    {"qwen3_coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>",
     "||now({})"},
    {"qwen3_coder",
     "<tool_call>\n<function=weather>\n<parameter=place>\na "
     "<b>\n\"c\"\n</parameter>\n</function>\n</tool_call>",
     "||weather({\"place\": \"a <b>\\n\\\"c\\\"\"})"},
    {"glm4",
     "\n<tool_call>weather\n<arg_key>place</arg_key>\n<arg_value>Bern</"
     "arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>2</arg_value>\n</tool_call>",
     "||weather({\"place\": \"Bern\", \"days\": 2})"},
    {"minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter "
     "name=\"days\">2</parameter>\n</invoke>\n"
     "<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
     "||weather({\"days\": 2})now({})"},
    {"seed_oss", "<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
     "||now({})"},
    /* gpt-oss */
    {"harmony",
     "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|"
     "message|>Hello",
     "Hello|Think.|"},
    {"harmony",
     "<|channel|>analysis<|message|>Need "
     "it.<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
     "<|constrain|>json<|message|>{\"place\": \"Bern\"}",
     "|Need it.|weather({\"place\": \"Bern\"})"},
    {"harmony",
     "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
     "||now({})"},
    {"harmony",
     "<|channel|>commentary<|message|>I will "
     "look.<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>{}",
     "I will look.||now({})"},
    {"harmony", "plain", "plain||"},
    /* any */
    {"generic", "[{\"name\": \"now\", \"arguments\": {}}]", "||now({})"},
    {"generic", "[1, 2]", "[1, 2]||"},
};

static json_t *read_tools(void)
{
  char copy[sizeof tools_text];
  for (size_t i = 0; i < sizeof copy; i++)
    copy[i] = tools_text[i] == '\'' ? '"' : tools_text[i];
  json_t *tools = json_loads(copy, 0, NULL);
  assert_non_null(tools);
  return tools;
}

/* Parses in pieces of that many bytes; 0: of different sizes. The caller frees. */
static char *parse(const struct lls_tool_parser_options *options, const char *text,
                   size_t piece)
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
  lls_tool_parser_finish(parser);
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

static void test_answers_in_any_pieces(void **state)
{
  (void)state;
  json_t *tools = read_tools();
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    const struct answer *a = &answers[i];
    const struct lls_tool_parser_options options = {
        .format = lls_tool_format_find(a->format),
        .reasoning = lls_reasoning_format_find("think"),
        .tools = tools};
    assert_non_null(options.format);
    for (size_t piece = 0; piece < 4; piece++) {
      char *outcome = parse(&options, a->text, piece == 3 ? strlen(a->text) : piece);
      if (strcmp(outcome, a->outcome) != 0 && strcmp(a->outcome, "<nothing>") != 0)
        fail_msg("%s, pieces of %zu: %s\ngave %s\nnot  %s", a->format, piece, a->text,
                 outcome, a->outcome);
      free(outcome);
    }
  }
  json_decref(tools);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_answers_in_any_pieces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
