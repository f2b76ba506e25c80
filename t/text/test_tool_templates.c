/* SPDX-License-Identifier: Apache-2.0 */
/* The format of a model's tool calls is found in its template: what the template writes
 * of calls is read as these calls. */
#include "t/tool_outcome.h"

#include "text/template/template.h"
#include "text/tools/tool_dialect.h"

#include <dirent.h>
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
    {"hermes", false, /* whose prompt has a phrase of LFM2's */
     "{# List of tools: #}" EACH("\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
                                 "\"arguments\": {{ c.function.arguments | tojson }}}"
                                 "\n</tool_call>")},
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
    {"kimi_k3", false,
     EACH("{% if loop.first %}<|open|>tools<|sep|>{% endif %}<|open|>call tool=\"{{ "
          "c.function.name }}\" index=\"{{ loop.index }}\"<|sep|>{% for k, v in "
          "c.function.arguments | items %}<|open|>argument key=\"{{ k }}\" type=\"{{ "
          "'string' if v is string else 'number' }}\"<|sep|>{{ v "
          "}}<|close|>argument<|sep|>{% endfor %}<|close|>call<|sep|>{% if loop.last "
          "%}<|close|>tools<|sep|><|close|>message<|sep|>{% endif %}")},
    {"minimax_m3", false,
     EACH("{% set ns = ']<]minimax[>[' %}{% if loop.first %}{{ ns ~ '<tool_call>' }}\n{% "
          "endif %}{{ ns ~ '<invoke name=\"' ~ c.function.name ~ '\">' }}{% for k, v in "
          "c.function.arguments | items %}{{ ns ~ '<' ~ k ~ '>' ~ v ~ ns ~ '</' ~ k ~ "
          "'>' }}{% endfor %}{{ ns ~ '</invoke>' }}\n{% if loop.last %}{{ ns ~ "
          "'</tool_call>' }}{% endif %}")},
    {"hunyuan", false,
     EACH("{% set s = ':opensource' %}{% if loop.first %}{{ '<tool_calls{}>'.format(s) "
          "}}\n{% endif %}{{ '<tool_call{}>'.format(s) ~ c.function.name ~ "
          "'<tool_sep{}>'.format(s) }}\n{% for k, v in c.function.arguments | items %}{{ "
          "'<arg_key{}>'.format(s) ~ k ~ '</arg_key{}>'.format(s) }}\n{{ "
          "'<arg_value{}>'.format(s) ~ v ~ '</arg_value{}>'.format(s) }}\n{% endfor %}{{ "
          "'</tool_call{}>'.format(s) }}\n{% if loop.last %}{{ "
          "'</tool_calls{}>'.format(s) }}{% endif %}")},
    {"apertus", false,
     EACH("{{ '<|tools_prefix|>[' if loop.first else ', ' }}{\"{{ c.function.name }}\": "
          "{{ c.function.arguments | tojson }}}{{ ']<|tools_suffix|>' if loop.last }}")},
    {"lfm2", false,
     "{# List of tools: #}" EACH(
         "{{ '<|tool_call_start|>[' if loop.first else ', ' }}{{ c.function.name }}({% "
         "for "
         "k, v in c.function.arguments | items %}{{ k }}={{ \"'\" ~ v ~ \"'\" if v is "
         "string else v }}{{ ', ' if not loop.last }}{% endfor %}){{ "
         "']<|tool_call_end|>' if loop.last }}")},
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

/* ---- published templates --------------------------------------------------------- */

/* Adds the assistant's message, with calls if there are any, and their results. */
static void add_answer(json_t *messages, json_t *call, size_t n_calls, bool results)
{
  json_t *said = json_pack("{s:s, s:s}", "role", "assistant", "content", "Look.");
  json_array_append_new(messages, said);
  if (n_calls > 0)
    json_object_set_new(said, "tool_calls", json_array());
  for (size_t i = 0; i < n_calls; i++)
    json_array_append(json_object_get(said, "tool_calls"), call);
  for (size_t i = 0; i < n_calls && results; i++)
    json_array_append_new(messages, json_pack("{s:s, s:s, s:s, s:s}", "role", "tool",
                                              "tool_call_id", "call00001", "name",
                                              "weather", "content", "Rain."));
  if (n_calls > 0 && results)
    json_array_append_new(
        messages, json_pack("{s:s, s:s}", "role", "assistant", "content", "Rain."));
}

/* Renders a question; with `answered` also an answer and what the user says then.
 * Returns NULL if the template rejects it. */
static char *render_talk(const struct lls_chat_template *chat_template, bool answered,
                         json_t *call, size_t n_calls, const json_t *tools)
{
  char *text = NULL;
  for (int results = 1; results >= 0 && text == NULL; results--) {
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "x");
    if (answered) {
      add_answer(messages, call, n_calls, results != 0);
      json_array_append_new(messages,
                            json_pack("{s:s, s:s}", "role", "user", "content", "y"));
    }
    json_t *variables = json_pack("{s:O}", "tools", tools);
    struct lls_error err = {0};
    size_t length;
    if (lls_chat_template_render(chat_template, messages, variables, !answered, 0, &text,
                                 &length, &err) != 0)
      text = NULL;
    json_decref(messages);
    json_decref(variables);
  }
  return text;
}

/* Removes what both texts end with: what follows the answer. */
static void cut_end(char *text, const char *other)
{
  size_t n = strlen(text), m = strlen(other);
  while (n > 0 && m > 0 && text[n - 1] == other[m - 1])
    n--, m--;
  text[n] = '\0';
}

static const char weather[] = "{\"place\": \"the \\\"Alps\\\"\", \"days\": 3}";

/* Returns how an answer with calls in a published template is parsed; NULL if the
 * template rejects calls, or does not write them. */
static char *read_answer(const struct lls_chat_template *chat_template,
                         const struct lls_tool_dialect *dialect, size_t n_calls,
                         const json_t *tools)
{
  json_t *value =
      dialect->text_arguments ? json_string(weather) : json_loads(weather, 0, NULL);
  json_t *call = json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", "call00001", "type",
                           "function", "function", "name", "weather", "arguments", value);
  char *prompt = render_talk(chat_template, false, NULL, 0, tools), *outcome = NULL;
  char *talk = render_talk(chat_template, true, call, n_calls, tools);
  char *without = render_talk(chat_template, true, call, 0, tools);
  if (prompt != NULL && talk != NULL && without != NULL) {
    size_t same = 0;
    while (prompt[same] != '\0' && prompt[same] == talk[same])
      same++;
    size_t mark = same; /* which is not cut */
    while (prompt[same] != '\0' && mark > 0 && strchr("<>", prompt[mark - 1]) == NULL)
      mark--;
    if (prompt[same] != '\0' && mark > 0 && prompt[mark - 1] == '<')
      same = mark - 1;
    cut_end(talk, without);
    const struct lls_tool_parser_options options = {
        .format = dialect->format,
        .reasoning = dialect->reasoning,
        .tools = tools,
        .in_reasoning = prompt[same] == '\0' && lls_tool_dialect_opens_reasoning(
                                                    dialect, prompt, strlen(prompt))};
    if (same < strlen(talk) && strstr(talk + same, "days") != NULL)
      outcome = parse(&options, talk + same, 0);
  }
  free(prompt);
  free(talk);
  free(without);
  json_decref(call);
  return outcome;
}

static char *read_text(const char *folder, const char *name)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 18);
  assert_non_null(text);
  size_t n = fread(text, 1, (1 << 18) - 1, file);
  fclose(file);
  if (n > 0 && text[n - 1] == '\n')
    text[n - 1] = '\0';
  return text;
}

/* Returns false if the calls of a published template are not read, or are read beside
 * marks of reasoning. */
static bool reads_published(const char *folder, const char *name, const json_t *tools)
{
  struct lls_chat_template *chat_template = NULL;
  struct lls_tool_dialect dialect = {0};
  struct lls_error err = {0};
  char *source = read_text(folder, name), *outcome = NULL;
  if (lls_chat_template_compile(source, "", "", &chat_template, &err) != 0)
    fail_msg("%s: %s", name, err.text);
  lls_tool_dialect_complete(&dialect, chat_template);
  for (size_t n_calls = 2; n_calls > 0 && outcome == NULL; n_calls--)
    outcome = read_answer(chat_template, &dialect, n_calls, tools);
  bool good =
      outcome == NULL || (strstr(outcome, "|weather({") != NULL &&
                          strstr(outcome, "\"place\": \"the \\\"Alps\\\"\"") != NULL &&
                          strstr(outcome, "\"days\": 3") != NULL);
  const struct lls_reasoning_format *thoughts = dialect.reasoning;
  const char *look = good && outcome != NULL ? strstr(outcome, "Look.") : NULL;
  const char *mark =
      look != NULL && thoughts != NULL ? strstr(outcome, thoughts->close) : NULL;
  good &= mark == NULL || mark > look;
  good |= strcmp(dialect.format->name, "generic") == 0; /* its own format is unknown */
  if (!good)
    print_message("%s, %s, %s: %s\n", name, dialect.format->name,
                  thoughts != NULL ? thoughts->name : "no reasoning", outcome);
  free(source);
  free(outcome);
  lls_chat_template_free(chat_template);
  return good;
}

/* Checks each published template of the folder $LLS_CHAT_TEMPLATES, for example of
 * llama.cpp's models/templates. */
static void test_what_published_templates_write_is_read(void **state)
{
  (void)state;
  const char *folder = getenv("LLS_CHAT_TEMPLATES");
  if (folder == NULL)
    skip();
  DIR *files = opendir(folder);
  assert_non_null(files);
  json_t *tools = read_quoted(
      "[{'type': 'function', 'function': {'name': 'weather', 'description': 'Looks.', "
      "'parameters': {'type': 'object', 'properties': {'place': {'type': 'string', "
      "'description': 'Where.'}, 'days': {'type': 'integer', 'description': 'When.'}}, "
      "'required': ['place']}}}]");
  size_t wrong = 0;
  for (struct dirent *entry; (entry = readdir(files)) != NULL;)
    wrong += strstr(entry->d_name, ".jinja") != NULL &&
             !reads_published(folder, entry->d_name, tools);
  closedir(files);
  json_decref(tools);
  assert_int_equal(wrong, 0);
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
      cmocka_unit_test(test_what_published_templates_write_is_read),
      cmocka_unit_test(test_a_prompt_may_open_the_reasoning),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_names_of_formats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
