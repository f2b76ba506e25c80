/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls and reasoning in models' answers: each answer is parsed at once, byte by
 * byte and in pieces, with the same result; text that is no call stays text. */
#include "t/tool_outcome.h"

#include "text/tools/tool_format.h"

#include <string.h>

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
    {"hunyuan", "<think:opensource>hm</think:opensource>yes", "yes|hm|"},
    {"hy3",
     "<think>hm</think>Look.<tool_calls>\n<tool_call>weather<tool_sep>\n<arg_key>place</"
     "arg_key>\n<arg_value>Bern</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</"
     "arg_value>\n</tool_call>\n<tool_call>now<tool_sep></tool_call></tool_calls>",
     "Look.|hm|weather({\"place\": \"Bern\", \"days\": 3})now({})"},
    {"hunyuan", "</think:opensource>yes", "yes||"},
/* MiniMax M3 */
#define NS "]<]minimax[>["
    {"minimax_m3",
     "<mm:think>hm</mm:think>Look.\n" NS "<tool_call>\n" NS "<invoke name=\"weather\">" NS
     "<place>Z<a>" NS "</place>" NS "<days>3" NS "</days>" NS "</invoke>\n" NS
     "<invoke name=\"now\">" NS "</invoke>\n" NS "</tool_call>",
     "Look.|hm|weather({\"place\": \"Z<a>\", \"days\": 3})now({})"},
    {"minimax_m3",
     NS "<tool_call>\n" NS "<invoke name=\"weather\">" NS "<l>" NS "<item>" NS "<a>1" NS
        "</a>" NS "<b>x" NS "</b>" NS "</item>" NS "<item>" NS "<item>2" NS "</item>" NS
        "</item>" NS "</l>" NS "<o>" NS "<p>" NS "<p>y" NS "</p>" NS "</p>" NS "</o>" NS
        "</invoke>\n" NS "</tool_call>done",
     "done||weather({\"l\": [{\"a\": 1, \"b\": \"x\"}, [2]], \"o\": {\"p\": {\"p\": "
     "\"y\"}}})"},
    /* thoughts are switched off by the closing mark alone */
    {"minimax_m3", "</mm:think>yes", "yes||"},
    {"minimax_m3",
     "\n</mm:think>" NS "<tool_call>" NS "<invoke name=\"now\">" NS "</invoke>" NS
     "</tool_call>",
     "||now({})"},
    {"minimax_m3", "</mm:thin", "</mm:thin||"},
    /* an argument without an end, and a call without one */
    {"minimax_m3", NS "<tool_call>" NS "<invoke name=\"weather\">" NS "<days>3",
     "||weather({\"days\": 3})"},
    {"minimax_m3",
     NS "<tool_call>" NS "<invoke name=\"weather\">" NS "<days>3" NS "</days>" NS
        "</tool_call>",
     "||weather({\"days\": 3})"},
    /* Kimi K3 */
    {"kimi_k3",
     "<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>yes<|close|>"
     "response<|sep|><|close|>message<|sep|>",
     "yes|hm|"},
    {"kimi_k3",
     "<|open|>response<|sep|>Look.<|close|>response<|sep|><|open|>tools<|sep|>"
     "<|open|>call tool=\"weather\" index=\"1\"<|sep|><|open|>argument key=\"place\" "
     "type=\"string\"<|sep|>\nBern\n<|close|>argument<|sep|><|open|>argument "
     "key=\"days\" type=\"number\"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|>"
     "<|open|>call tool=\"now\" index=\"12\"<|sep|><|close|>call<|sep|><|close|>tools"
     "<|sep|><|close|>message<|sep|>",
     "Look.||weather({\"place\": \"\\nBern\\n\", \"days\": 3})now({})"},
    {"kimi_k3",
     "<|open|>tools<|sep|><|open|>call tool=\"weather\" "
     "index=\"1\"<|sep|><|open|>argument"
     " key=\"extra\" type=\"object\"<|sep|>{\"a\":[1,null]}<|close|>argument<|sep|>"
     "<|close|>call<|sep|><|close|>tools<|sep|>",
     "||weather({\"extra\": {\"a\":[1,null]}})"},
    {"kimi_k3",
     "<|open|>call tool=\"weather\" index=\"1\"<|sep|><|open|>argument "
     "key=\"&quot;a&quot; "
     "&amp;lt; &\" "
     "type=\"string\"<|sep|>&amp;<|close|>argument<|sep|><|close|>call<|sep|>",
     "||weather({\"\\\"a\\\" &lt; &\": \"&amp;\"})"},
    /* Apertus */
    {"apertus",
     "before<|tools_prefix|>[{\"weather\": {\"place\": \"Bern\"}}, {\"now\": "
     "{}}]<|tools_suffix|>after",
     "beforeafter||weather({\"place\": \"Bern\"})now({})"},
    {"apertus", "<|tools_prefix|>[{\"now\": null}]<|tools_suffix|>", "||now({})"},
    {"apertus", "<|inner_prefix|>hm<|inner_suffix|>yes", "yes|hm|"},
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

/* Returns the reasoning format of the same name; that of most models if there is none. */
static const struct lls_reasoning_format *reasoning_of(const char *format)
{
  const struct lls_reasoning_format *own = lls_reasoning_format_find(format);
  bool same = own != NULL && strcmp(format, "mistral") != 0;
  return same ? own : lls_reasoning_format_find("think");
}

/* Kimi K3's answers are between marks also if no tools were given. */
static void test_a_frame_is_not_content(void **state)
{
  (void)state;
  const struct lls_tool_parser_options options = {
      .format = lls_tool_format_find("kimi_k3"),
      .reasoning = lls_reasoning_format_find("kimi_k3"),
      .in_reasoning = true};
  for (size_t piece = 0; piece < 3; piece++) {
    char *outcome =
        parse(&options,
              "hm<|close|>think<|sep|><|open|>response<|sep|>yes<|close|>response<|sep|>"
              "<|close|>message<|sep|>",
              piece);
    assert_string_equal(outcome, "yes|hm|");
    free(outcome);
  }
}

static void test_answers_in_any_pieces(void **state)
{
  (void)state;
  json_t *tools = read_tools();
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    const struct answer *a = &answers[i];
    const struct lls_tool_parser_options options = {.format =
                                                        lls_tool_format_find(a->format),
                                                    .reasoning = reasoning_of(a->format),
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
      {"minimax_m3",
       NS "<tool_call>\n" NS "<invoke name=\"weather\">" NS "<place>Oslo" NS "</place>" NS
          "</invoke>\n" NS "<invoke name=\"now\">" NS "</invoke>\n" NS "</tool_call>"},
      {"kimi_k3",
       "<|open|>tools<|sep|><|open|>call tool=\"weather\" "
       "index=\"1\"<|sep|><|open|>argument "
       "key=\"place\" "
       "type=\"string\"<|sep|>Oslo<|close|>argument<|sep|><|close|>call<|sep|>"
       "<|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools"
       "<|sep|>"},
      {"apertus", "<|tools_prefix|>[{\"weather\": {\"city\": \"Oslo\"}}, {\"now\": "
                  "{}}]<|tools_suffix|>"},
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
      cmocka_unit_test(test_what_is_held_back_is_bounded),
      cmocka_unit_test(test_answers_in_any_pieces),
      cmocka_unit_test(test_a_frame_is_not_content),
      cmocka_unit_test(test_calls_are_cut_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
