/* SPDX-License-Identifier: Apache-2.0 */
/* The format of a model's tool calls is found in its template: what the template writes
 * of calls is read as these calls. */
#include "t/tool_outcome.h"

#include "text/template/template.h"
#include "text/tools/tool_dialect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_templates_write_is_read),
      cmocka_unit_test(test_a_prompt_may_open_the_reasoning),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_names_of_formats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
