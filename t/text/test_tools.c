/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls and reasoning in models' answers: each answer is parsed at once, byte by
 * byte and in pieces, with the same result; text that is no call stays text. */
#include "t/tap.h"

#include "text/template/template.h"
#include "text/tools/tool_dialect.h"
#include "text/tools/tool_parser.h"

#include <errno.h>
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
    {"mistral", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}] so", "so||now({})"},
    {"command_r_plus",
     "Action: ```json\n[\n    {\n        \"tool_name\": \"now\",\n        "
     "\"parameters\": {}\n    }\n]```",
     "||now({})"},
    {"gigachat3", "<|function_call|>{\"name\": \"now\", \"arguments\": {}}", "||now({})"},
    {"nemotron_v2", "<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
     "||now({})"},
    {"apriel", "<tool_calls>[{\"name\": \"now\", \"arguments\": {}}]</tool_calls>",
     "||now({})"},
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
    {"minicpm5", "<function name=\"weather\"><param name=\"days\">3</param></function>",
     "||weather({\"days\": 3})"},
    {"hunyuan",
     "<tool_calls:opensource>\n<tool_call:opensource>weather<tool_sep:opensource>\n<arg_"
     "key:opensource>days</arg_key:opensource>\n"
     "<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>\n</"
     "tool_calls:opensource>",
     "||weather({\"days\": 3})"},
    {"deepseek_v3.2",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter "
     "name=\"place\" string=\"true\">3</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n<｜DSML｜invoke "
     "name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "||weather({\"place\": \"3\"})now({})"},
    {"solar_open",
     "<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>now<|tool_call:args|>{}<|tool_"
     "call:end|><|calls|>",
     "||now({})"},
    /* nearly JSON */
    {"gemma4",
     "<|tool_call>call:weather{place:<|\"|>a \"b\"\n{c}<|\"|>,days:3}<tool_call|>",
     "||weather({\"place\": \"a \\\"b\\\"\\n{c}\", \"days\": 3})"},
    {"gemma4",
     "Look.<|tool_call>call:now{}<tool_call|><|tool_call>call:weather{list:[1,<|\"|>x<|"
     "\"|>,{a:true}],days:-2.5}<tool_call|>",
     "Look.||now({})weather({\"list\": [1, \"x\", {\"a\": true}], \"days\": -2.5})"},
    {"gemma4", "<|channel>thought\nhm<channel|>yes", "yes|hm|"},
    {"gemma4", "<|tool_call>call:weather{place:Bern}<tool_call|>",
     "||weather({\"place\": \"Bern\"})"},
    {"lfm2",
     "<|tool_call_start|>[weather(place=\"Bern\", days=2), now()]<|tool_call_end|>",
     "||weather({\"place\": \"Bern\", \"days\": 2})now({})"},
    {"lfm2", "<|tool_call_start|>[weather(place='it\\'s', ok=True, l=['a', (1, None)])]",
     "||weather({\"place\": \"it's\", \"ok\": true, \"l\": [\"a\", [1, null]]})"},
    {"lfm2",
     "<|tool_call_start|>[{\"name\": \"now\", \"arguments\": {}}]<|tool_call_end|>so",
     "so||now({})"},
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

/* Parses in pieces of this many bytes; 0: of varying sizes. *whole: all calls are
 * complete. The caller frees the result. */
static char *parse_until(const struct lls_tool_parser_options *options, const char *text,
                         size_t piece, bool cut, bool *whole)
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

static char *parse(const struct lls_tool_parser_options *options, const char *text,
                   size_t piece)
{
  bool whole;
  return parse_until(options, text, piece, false, &whole);
}

static void test_answers_in_any_pieces(void **state)
{
  (void)state;
  json_t *tools = read_tools();
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    const struct answer *a = &answers[i];
    const struct lls_tool_parser_options options = {
        .format = lls_tool_format_find(a->format),
        .reasoning = lls_reasoning_format_find(
            strcmp(a->format, "gemma4") == 0 ? "gemma4" : "think"),
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

/* Copies the first n bytes, with U+FFFD for a truncated character, as answers end. */
static void cut_off(char *out, const char *text, size_t n)
{
  bool within = ((unsigned char)text[n] & 0xC0) == 0x80;
  while (((unsigned char)text[n] & 0xC0) == 0x80)
    n--;
  sprintf(out, "%.*s%s", (int)n, text, within ? "\xEF\xBF\xBD" : "");
}

/* A text that must be a call never becomes content, wherever it is truncated: the
 * recognised part of the calls is a prefix of the complete ones. */
static void test_calls_are_cut_off(void **state)
{
  static const struct {
    const char *format, *text;
  } cases[] = {
      {"hermes", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
                 "\"Oslo\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", "
                 "\"arguments\": {}}\n</tool_call>"},
      {"llama3_json", "{\"name\": \"weather\", \"parameters\": {\"city\": "
                      "\"Oslo\"}}; {\"name\": \"now\", \"parameters\": {}}"},
      {"mistral", "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": "
                  "\"Oslo\"}}, {\"name\": \"now\", \"arguments\": {}}]"},
      {"mistral_v11", "[TOOL_CALLS]weather[ARGS]{\"city\": \"Oslo\"}"
                      "[TOOL_CALLS]now[ARGS]{}"},
      {"qwen3_coder", "<tool_call>\n<function=weather>\n<parameter=place>\nOslo\n"
                      "</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
                      "<function=now>\n</function>\n</tool_call>"},
      {"deepseek_v3.1",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": "
       "\"Oslo\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
  };
  json_t *tools = read_tools();
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct lls_tool_parser_options options = {
        .format = lls_tool_format_find(cases[i].format),
        .tools = tools,
        .only_calls = true};
    assert_non_null(options.format);
    size_t length = strlen(cases[i].text);
    char *whole = parse(&options, cases[i].text, 0), *text = malloc(length + 4);
    assert_non_null(strstr(whole, "now({})"));
    for (size_t n = length; n-- > 0;) {
      cut_off(text, cases[i].text, n);
      bool all;
      char *cut = parse_until(&options, text, 0, true, &all);
      if (strncmp(cut, "||", 2) != 0 || strncmp(cut, whole, strlen(cut) - 1) != 0)
        fail_msg("%s: '%s' gave %s", cases[i].format, text, cut);
      free(cut);
    }
    free(whole);
    free(text);
  }
  json_decref(tools);
}

/* ---- arguments as they are meant ------------------------------------------------- */

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

static json_t *read_typed_tools(void)
{
  char copy[sizeof typed_text];
  for (size_t i = 0; i < sizeof copy; i++)
    copy[i] = typed_text[i] == '\'' ? '"' : typed_text[i];
  json_t *tools = json_loads(copy, 0, NULL);
  assert_non_null(tools);
  return tools;
}

static void check_text(const char *format, const char *text, bool cut,
                       const char *outcome, bool whole)
{
  json_t *tools = read_typed_tools();
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

/* ---- templates ------------------------------------------------------------------- */

#define EACH(BODY)                                                                       \
  "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or "   \
  "[] "                                                                                  \
  "%}" BODY                                                                              \
  "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"

/* Modelled on the formats of published templates, whose detection depends on such
 * texts. */
static const struct shape {
  const char *format;
  bool text_arguments;
  const char *source;
} shapes[] = {
    {"hermes", false,
     EACH("\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
          "{{ c.function.arguments | tojson }}}\n</tool_call>")},
    {"llama3_json", false,
     "{# <|eot_id|> #}" EACH("{\"name\": \"{{ c.function.name }}\", \"parameters\": "
                             "{{ c.function.arguments | tojson }}}")},
    {"mistral", false,
     EACH("{% if loop.first %}[TOOL_CALLS][{% endif %}{{ (c.function | tojson)[:-1] }}, "
          "\"id\": \"{{ c.id }}\"}{{ ']' if loop.last else ', ' }}")},
    {"deepseek_r1", true,
     EACH("{% if loop.first %}<｜tool▁calls▁begin｜>{% endif %}<｜tool▁call▁begin｜>{{ "
          "c.type "
          "}}<｜tool▁sep｜>{{ c.function.name + '\\n```json\\n' + c.function.arguments + "
          "'\\n```' }}<｜tool▁call▁end｜>{% if loop.last %}<｜tool▁calls▁end｜>{% endif "
          "%}")},
    {"qwen3_coder", false,
     EACH("\n<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in "
          "c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% "
          "endfor %}</function>\n</tool_call>")},
    {"gemma4", false,
     EACH(
         "<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in "
         "c.function.arguments | items %}{{ k }}:{% if v is string %}<|\"|>{{ v "
         "}}<|\"|>{% "
         "else %}{{ v }}{% endif %}{{ ',' if not loop.last }}{% endfor %}}<tool_call|>")},
};

static char *render(const struct lls_chat_template *chat_template, const json_t *messages,
                    bool prompt)
{
  struct lls_error err = {0};
  char *text = NULL;
  size_t length;
  if (lls_chat_template_render(chat_template, messages, NULL, prompt, 0, &text, &length,
                               &err) != 0)
    fail_msg("%s", err.text);
  return text;
}

/* A message written by a template is parsed, and written again. */
static void check_round_trip(const struct shape *shape, const json_t *tools)
{
  static const char arguments[] = "{\"place\": \"Z\\\"\u00fcrich\", \"days\": 3}";
  struct lls_chat_template *chat_template = NULL;
  struct lls_tool_dialect dialect = {0};
  struct lls_error err = {0};
  if (lls_chat_template_compile(shape->source, NULL, NULL, &chat_template, &err) != 0)
    fail_msg("%s", err.text);
  lls_tool_dialect_complete(&dialect, chat_template);
  assert_string_equal(dialect.format->name, shape->format);
  assert_int_equal(dialect.text_arguments, shape->text_arguments);
  json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "x");
  char *prompt = render(chat_template, messages, true);
  json_t *value =
      shape->text_arguments ? json_string(arguments) : json_loads(arguments, 0, NULL);
  json_t *function = json_pack("{s:s, s:o}", "name", "weather", "arguments", value);
  json_t *call = json_pack("{s:s, s:s, s:o}", "id", "call00001", "type", "function",
                           "function", function);
  json_array_append_new(messages,
                        json_pack("{s:s, s:s, s:[O, O]}", "role", "assistant", "content",
                                  "Look.", "tool_calls", call, call));
  char *whole = render(chat_template, messages, false);
  const struct lls_tool_parser_options options = {.format = dialect.format,
                                                  .tools = tools};
  /* without content where calls need no mark */
  size_t content = dialect.format->bare ? strlen("Look.") : 0;
  assert_int_equal(strncmp(whole, prompt, strlen(prompt)), 0);
  char *outcome = parse(&options, whole + strlen(prompt) + content, 0);
  char want[512];
  snprintf(want, sizeof want, "%s||weather(%s)weather(%s)", content > 0 ? "" : "Look.",
           arguments, arguments);
  if (strcmp(outcome, want) != 0)
    fail_msg("%s: %s\ngave %s\nnot  %s", shape->format, whole, outcome, want);
  free(prompt);
  free(whole);
  free(outcome);
  json_decref(messages);
  json_decref(call);
  lls_chat_template_free(chat_template);
}

static void test_what_templates_write_is_read(void **state)
{
  (void)state;
  json_t *tools = read_tools();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check_round_trip(&shapes[i], tools);
  json_decref(tools);
}

static void test_a_prompt_may_open_the_reasoning(void **state)
{
  (void)state;
  const struct lls_tool_dialect dialect = {.reasoning =
                                               lls_reasoning_format_find("think")};
  assert_true(lls_tool_dialect_opens_reasoning(&dialect, "user <think>\n", 13));
  assert_false(lls_tool_dialect_opens_reasoning(&dialect, "<think>\n\n</think>\n\n", 19));
  assert_false(lls_tool_dialect_opens_reasoning(&dialect, "think>", 6));
  assert_false(lls_tool_dialect_opens_reasoning(&(struct lls_tool_dialect){0}, "", 0));
}

/* Special tokens that the parser gets as text, although others are removed. */
static void test_marks(void **state)
{
  (void)state;
  const struct lls_reasoning_format *think = lls_reasoning_format_find("think");
  const struct lls_tool_format *hermes = lls_tool_format_find("hermes");
  const struct lls_tool_format *harmony = lls_tool_format_find("harmony");
  assert_true(lls_tool_mark(hermes, think, "<tool_call>"));
  assert_true(lls_tool_mark(hermes, think, "</think>"));
  assert_false(lls_tool_mark(hermes, NULL, "</think>"));
  assert_false(lls_tool_mark(hermes, think, "<|im_end|>"));
  assert_true(lls_tool_mark(harmony, NULL, "<|channel|>"));
  assert_true(lls_tool_mark(harmony, NULL, "<|end|>"));
  assert_false(lls_tool_mark(harmony, NULL, "<|startoftext|>"));
  assert_true(lls_tool_mark(lls_tool_format_find("mistral"), NULL, "[TOOL_CALLS]"));
  assert_true(
      lls_tool_mark(lls_tool_format_find("kimi_k2"), NULL, "<|tool_calls_section_end|>"));
  assert_false(lls_tool_mark(NULL, NULL, "<s>"));
}

static void test_names_of_formats(void **state)
{
  (void)state;
  struct lls_tool_dialect dialect;
  struct lls_error err = {0};
  const char *key;
  char names[] = LLS_TOOL_FORMAT_NAMES, *rest = names;
  for (char *name; (name = strtok_r(rest, ", ", &rest)) != NULL;)
    assert_int_equal(lls_tool_dialect_read(name, "auto", &dialect, &key, &err), 0);
  assert_string_equal(dialect.format->name, "generic"); /* the table's last */
  char marks[] = LLS_REASONING_FORMAT_NAMES;
  rest = marks;
  for (char *name; (name = strtok_r(rest, ", ", &rest)) != NULL;)
    assert_int_equal(lls_tool_dialect_read("auto", name, &dialect, &key, &err), 0);
  assert_int_equal(lls_tool_dialect_read("auto", "some", &dialect, &key, &err), -EINVAL);
  assert_string_equal(key, "reasoning_format");
}

/* A name that never ends, a call that never begins: the text held back is limited. */
static void test_what_is_held_back_is_bounded(void **state)
{
  (void)state;
  json_t *tools = read_tools();
  const struct lls_tool_parser_options options = {
      .format = lls_tool_format_find("hermes"), .tools = tools};
  struct lls_tool_answer answer = {0};
  struct lls_tool_parser *parser = lls_tool_parser_create(&options, &answer);
  char piece[1024];
  memset(piece, 'x', sizeof piece);
  lls_tool_parser_push(parser, "<tool_call>{\"arguments\": \"", 27);
  size_t n = 27;
  for (; n < LLS_TOOL_HELD_BYTES; n += sizeof piece) {
    assert_int_equal(answer.content.length, 0);
    lls_tool_parser_push(parser, piece, sizeof piece);
  }
  assert_int_equal(answer.content.length, n);
  lls_tool_parser_finish(parser, false);
  assert_int_equal(answer.content.length, n);
  lls_tool_parser_destroy(parser);
  lls_tool_answer_free(&answer);
  json_decref(tools);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_templates_write_is_read),
      cmocka_unit_test(test_a_prompt_may_open_the_reasoning),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_names_of_formats),
      cmocka_unit_test(test_what_is_held_back_is_bounded),
      cmocka_unit_test(test_answers_in_any_pieces),
      cmocka_unit_test(test_calls_are_cut_off),
      cmocka_unit_test(test_types_of_arguments),
      cmocka_unit_test(test_marks_of_arguments),
      cmocka_unit_test(test_arguments_become_json),
      cmocka_unit_test(test_broken_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
