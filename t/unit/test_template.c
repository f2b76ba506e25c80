/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates against Jinja, what is refused, and what a hostile one can do. */
#include "t/folder.h"
#include "t/tap.h"

#include "core/template/template.h"

#include <errno.h>

#define NOW 1700000000 /* 2023-11-14 22:13:20 UTC */

static struct lls_chat_template *compile(const char *source)
{
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  if (lls_chat_template_compile(source, "<s>", "</s>", &chat_template, &err) < 0)
    fail_msg("%s", err.text);
  return chat_template;
}

static void check_vector(const json_t *vector)
{
  const char *source = json_string_value(json_object_get(vector, "source"));
  const json_t *expected = json_object_get(vector, "text");
  struct lls_chat_template *chat_template = NULL;
  struct lls_error err = {0};
  char *text = NULL;
  size_t length = 0;
  int code = lls_chat_template_compile(source, "<s>", "</s>", &chat_template, &err);
  if (code == 0)
    code = lls_chat_template_render(
        chat_template, json_object_get(vector, "messages"), NULL,
        json_is_true(json_object_get(vector, "add_generation_prompt")), NOW, &text,
        &length, &err);
  if (expected == NULL && (code == 0 || err.text[0] == '\0'))
    fail_msg("not rejected: %s", source);
  if (expected != NULL && code < 0)
    fail_msg("rejected: %s\n%s", source, err.text);
  if (expected != NULL && (length != json_string_length(expected) ||
                           memcmp(text, json_string_value(expected), length) != 0))
    fail_msg("%s\nrendered \"%s\"\ninstead of \"%s\"", source, text,
             json_string_value(expected));
  free(text);
  lls_chat_template_free(chat_template);
}

static void test_vectors(void **state)
{
  (void)state;
  json_t *vectors = json_load_file(source_path("t/data/template/vectors.json"), 0, NULL);
  assert_true(json_array_size(vectors) > 100);
  size_t i;
  json_t *vector;
  json_array_foreach(vectors, i, vector) check_vector(vector);
  json_decref(vectors);
}

static const struct refusal {
  const char *source;
  const char *sentence; /* a part of it */
} refusals[] = {
    {"a\n {% macro f() %}{% endmacro %}",
     "line 2, column 5: the statement \"macro\" is not"},
    {"{% include 'x' %}", "the statement \"include\""},
    {"{% raw %}{% endraw %}", "the statement \"raw\""},
    {"{{ x | wordwrap }}", "line 1, column 8: the filter \"wordwrap\" is not supported"},
    {"{{ x is callable }}", "line 1, column 9: the test \"callable\" is not supported"},
    {"{{ x.format(1) }}", "line 1, column 6: the method \"format\" is not supported"},
    {"{{ lipsum() }}", "line 1, column 4: the function \"lipsum\" is not supported"},
    {"{{ x | trim(1, 2) }}", "\"trim\" is not supported with so many arguments"},
    {"{{ x | tojson(depth=2) }}",
     "\"tojson\" is not supported with the argument \"depth\""},
    {"{{ raise_exception() }}", "\"raise_exception\" needs the argument \"message\""},
    {"{{ x | replace }}", "\"replace\" needs an argument"},
    {"{{ 1.5 }}", "numbers with a fraction are not supported"},
    {"{{ 2 ** 3 }}", "this operator is not supported"},
    {"{{ 6 / 3 }}", "this operator is not supported"},
    {"{{ x[0](1) }}", "calling a value is not supported"},
    {"{% for x in y recursive %}{% endfor %}", "a recursive for is not supported"},
    {"{% set a, b = 1, 2 %}", "this form of set is not supported"},
    {"{% break %}", "break or continue outside a for"},
    {"{% if x %}", "the template ends before \"elif\""},
    {"{% endif %}", "the statement \"endif\" is not supported here"},
    {"{{ x ", "line 1, column 1: this tag is not closed"},
    {"{{ 'x }}", "this string is not closed"},
    {"{# x", "this comment is not closed"},
    {"{{ (1 }}", "line 1, column 8: this bracket was not opened"},
    {"{{ 1) }}", "this bracket was not opened"},
    {"{{ 1 2 }}", "expected \"}}\" instead of \"2\""},
    {"{{ }}", "expected an expression instead of \"}}\""},
    {"{{ a ? b }}", "line 1, column 6: this character has no meaning here"},
    {"{{ '\\N{DASH}' }}", "an escape that is not valid"},
    {"{{ '\\ud800' }}", "an escape that is not valid"},
    {"{{ '\\UFFFFFFFF' }}", "an escape that is not valid"},
    {"{{ 99999999999999999999 }}", "this number is too large"},
    {"\xff", "not valid UTF-8"},
};

static void test_refusals(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    struct lls_error err = {0};
    struct lls_chat_template *chat_template = NULL;
    if (lls_chat_template_compile(refusals[i].source, NULL, NULL, &chat_template, &err) ==
        0)
      fail_msg("accepted: %s", refusals[i].source);
    if (strstr(err.text, refusals[i].sentence) == NULL)
      fail_msg("\"%s\" does not hold \"%s\"", err.text, refusals[i].sentence);
  }
}

/* Renders without messages; the sentence of the failure, or "". */
static const char *failure_of(const char *source, struct lls_error *err)
{
  struct lls_chat_template *chat_template = compile(source);
  json_t *messages = json_array();
  char *text = NULL;
  size_t length;
  *err = (struct lls_error){0};
  if (lls_chat_template_render(chat_template, messages, NULL, true, NOW, &text, &length,
                               err) == 0)
    free(text);
  json_decref(messages);
  lls_chat_template_free(chat_template);
  return err->text;
}

static void test_work_is_bounded(void **state)
{
  (void)state;
  struct lls_error err;
  static const char *const sources[] = {
      "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
      "{{ range(0, 99999999999) | length }}",
      "{% set n = namespace(s='0123456789abcdef') %}{% for a in range(60) %}"
      "{% set n.s = n.s + n.s %}{% endfor %}",
      "{% set n = namespace(l=[1]) %}{% for a in range(60) %}{% set n.l = n.l + n.l %}"
      "{% endfor %}",
      "{% for a in range(99999) %}{{ 'x' | replace('x', "
      "'0123456789abcdef0123456789abcdef') "
      "| replace('0', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') * 1 }}{% endfor %}",
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
    assert_string_not_equal(failure_of(sources[i], &err), "");
  assert_non_null(strstr(failure_of(sources[0], &err), "does not come to an end within"));
}

static void test_nesting_is_bounded(void **state)
{
  (void)state;
  struct lls_error err;
  assert_non_null(
      strstr(failure_of("{% set n = namespace(l=[]) %}{% for a in range(500) %}"
                        "{% set n.l = [n.l] %}{% endfor %}",
                        &err),
             "nested too deeply"));
  assert_non_null(strstr(failure_of("{% set n = namespace() %}{% set n.a = [n] %}", &err),
                         "holds a namespace"));
  assert_non_null(strstr(failure_of("{% set n = namespace() %}{% set n.n = n %}", &err),
                         "inside another"));
  char source[8192] = "{{ ";
  for (int i = 0; i < 150; i++)
    strcat(source, "(");
  for (int i = 0; i < 150; i++)
    strcat(source, i == 0 ? "1)" : ")");
  strcat(source, " }}");
  struct lls_chat_template *chat_template = NULL;
  assert_true(lls_chat_template_compile(source, NULL, NULL, &chat_template, &err) < 0);
  assert_non_null(strstr(err.text, "nested too deeply"));
  strcpy(source, "{{ 1");
  for (int i = 0; i < 2000; i++)
    strcat(source, "+1");
  strcat(source, " }}");
  assert_non_null(strstr(failure_of(source, &err), "nested too deeply"));
}

static void test_rejection_is_told(void **state)
{
  (void)state;
  struct lls_error err;
  assert_string_equal(failure_of("{{ raise_exception('no %s here') }}", &err),
                      "chat template: no %s here");
}

static char *render(const struct lls_chat_template *chat_template)
{
  struct lls_error err = {0};
  json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Hi");
  char *text = NULL;
  size_t length;
  if (lls_chat_template_render(chat_template, messages, NULL, true, NOW, &text, &length,
                               &err) < 0)
    fail_msg("%s", err.text);
  assert_int_equal(strlen(text), length);
  json_decref(messages);
  return text;
}

static void assert_folder_renders(const struct folder *folder, const char *expected)
{
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  if (lls_chat_template_load(folder->path, &chat_template, &err) < 0)
    fail_msg("%s", err.text);
  char *text = render(chat_template);
  assert_string_equal(text, expected);
  free(text);
  lls_chat_template_free(chat_template);
}

static void test_where_the_template_comes_from(void **state)
{
  const struct folder *folder = *state;
  const char *chatml = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  assert_folder_renders(folder, chatml);
  folder_write_text(folder, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
  assert_folder_renders(folder, chatml);
  folder_write_text(folder, "tokenizer_config.json",
                    "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\","
                    "\"chat_template\": \"{{ bos_token }}A{{ eos_token }}\"}");
  assert_folder_renders(folder, "<s>A</s>");
  folder_write_text(folder, "tokenizer_config.json",
                    "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"T\"},"
                    "{\"name\": \"default\", \"template\": \"D{{ bos_token }}\"}]}");
  assert_folder_renders(folder, "D");
  folder_write_text(folder, "chat_template.jinja", "{{ messages[0].content }}!\n");
  assert_folder_renders(folder, "Hi!");
}

static void test_a_refusal_names_the_file(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  char expected[256];
  folder_write_text(folder, "tokenizer_config.json",
                    "{\"chat_template\": \"{% call %}\"}");
  assert_true(lls_chat_template_load(folder->path, &chat_template, &err) < 0);
  snprintf(
      expected, sizeof expected,
      "%s/tokenizer_config.json: chat template: line 1, column 4: the statement \"call\" "
      "is not supported here",
      folder->path);
  assert_string_equal(err.text, expected);
  folder_write_text(folder, "chat_template.jinja", "{{ x | what }}");
  assert_true(lls_chat_template_load(folder->path, &chat_template, &err) < 0);
  assert_non_null(
      strstr(err.text, "/chat_template.jinja: chat template: line 1, column 8"));
  folder_write(folder, "chat_template.jinja", "a\0b", 3);
  assert_true(lls_chat_template_load(folder->path, &chat_template, &err) < 0);
}

static void test_time_is_the_callers(void **state)
{
  (void)state;
  setenv("TZ", "UTC", 1);
  struct lls_chat_template *chat_template = compile("{{ strftime_now('%d %b %Y') }}");
  char *text = render(chat_template);
  assert_string_equal(text, "14 Nov 2023");
  free(text);
  lls_chat_template_free(chat_template);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_work_is_bounded),
      cmocka_unit_test(test_nesting_is_bounded),
      cmocka_unit_test(test_rejection_is_told),
      IN_FOLDER(test_where_the_template_comes_from),
      IN_FOLDER(test_a_refusal_names_the_file),
      cmocka_unit_test(test_time_is_the_callers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
