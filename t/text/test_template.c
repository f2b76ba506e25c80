/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates compared with Jinja, refusals, and hostile templates. */
#include "t/folder.h"
#include "t/tap.h"

#include "text/template/template.h"

#include <errno.h>
#include <pthread.h>

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
        chat_template, json_object_get(vector, "messages"),
        json_object_get(vector, "variables"),
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
  const char *sentence; /* part of the error message */
} refusals[] = {
    {"a\n {% nope %}", "line 2, column 5: the statement \"nope\" is not supported here"},
    {"{% break %}", "break or continue outside a for"},
    {"{% for a in b %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}",
     "break or continue outside a for"},
    {"{% if x %}", "the template ends before \"elif\""},
    {"{% macro f(a b) %}{% endmacro %}", "expected \")\" instead of \"b\""},
    {"{% macro f() %}", "the template ends before \"endmacro\""},
    {"{% call x %}{% endcall %}", "expected a call"},
    {"{% endif %}", "the statement \"endif\" is not supported here"},
    {"{% raw %} {% endif %}", "line 1, column 1: this raw block is not closed"},
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
    {"{% set 1 = 2 %}", "expected \"name\""},
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

/* Renders without messages; returns the error message, or "". */
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

/* An unknown construct fails when it is reached, and is reported when the template is
 * loaded. */
static void test_unknown_constructs_fail_when_reached(void **state)
{
  (void)state;
  static const struct {
    const char *source;
    const char *sentence;
  } unknown[] = {
      {"{{ x | wordwrap }}",
       "line 1, column 8: the filter \"wordwrap\" is not supported"},
      {"{{ x is what }}", "line 1, column 9: the test \"what\" is not supported"},
      {"{% include 'x' %}",
       "line 1, column 4: the statement \"include\" is not supported"},
      {"{{ 'x'.encode() }}", "line 1, column 8: the method \"encode\" is not supported"},
      {"{{ lipsum() }}", "line 1, column 4: the function \"lipsum\" is not supported"},
  };
  char source[256];
  struct lls_error err;
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    const char *said = failure_of(unknown[i].source, &err);
    if (strstr(said, unknown[i].sentence) == NULL)
      fail_msg("\"%s\" does not hold \"%s\"", said, unknown[i].sentence);
    snprintf(source, sizeof source, "{%% if false %%}%s{%% endif %%}ok",
             unknown[i].source);
    assert_string_equal(failure_of(source, &err), "");
    struct lls_chat_template *chat_template = compile(source);
    const char *warning = lls_chat_template_warning(chat_template);
    assert_null(lls_chat_template_problem(chat_template));
    if (i < 3) /* the others may be variables, or keys of a mapping */
      assert_non_null(strstr(warning, "is not supported"));
    else
      assert_null(warning);
    lls_chat_template_free(chat_template);
  }
}

/* Transformers' sandbox refuses these, so no vector of Jinja can hold them. */
static void test_lists_and_mappings_change(void **state)
{
  (void)state;
  struct lls_chat_template *chat_template = compile(
      "{% set l = [3, 1] %}{% do l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}"
      "{% do l.extend([5, 4]) %}{% do l.insert(0, 9) %}{% do l.sort() %}{{ l }}"
      "{% do l.remove(4) %}{% do l.reverse() %}{{ l }}{% do l.clear() %}{{ l }}"
      "{% set d = {'a': 1} %}{% do d.update({'b': 2}, c=3) %}{{ d.pop('a') }}{{ d }}"
      "{{ d.setdefault('z', 7) }}{{ d.pop('q', 8) }}{{ d.keys() | list }}"
      "{{ '[1, {\"a\": null}]' | from_json }}");
  char *text = render(chat_template);
  assert_string_equal(text, "[3, 1, 2]23[1][1, 4, 5, 9][9, 5, 1][]1{'b': 2, 'c': 3}78"
                            "['b', 'c', 'z'][1, {'a': None}]");
  free(text);
  lls_chat_template_free(chat_template);
}

/* Each of these would take forever, or all memory, without limits. */
static const struct bomb {
  const char *source;
  const char *sentence;
} bombs[] = {
    {"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
     "does not come to an end within"},
    {"{{ range(0, 99999999999) | length }}", "a range of more than"},
    {"{% set n = namespace(s='0123456789abcdef') %}{% for a in range(60) %}"
     "{% set n.s = n.s + n.s %}{% endfor %}",
     "longer than"},
    {"{% set n = namespace(l=[1]) %}{% for a in range(60) %}{% set n.l = n.l + n.l %}"
     "{% endfor %}",
     "does not come to an end"},
    {"{% for a in range(99999) * 9 %}{{ 'x' | replace('x', "
     "'0123456789abcdef0123456789abcdef') "
     "| replace('0', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') * 1 }}{% endfor %}",
     "does not come to an end"},
    {"{% set s = 'a ' * 9999999 %}{{ s.split(' ') | length }}",
     "does not come to an end"},
    {"{% set s = 'a ' * 9999999 %}{{ s | list | length }}", "does not come to an end"},
    {"{% set s = ('a' * 99 + ' ') * 99999 %}{% for i in range(99) %}"
     "{% set x = s | list %}{% endfor %}",
     "does not come to an end"},
    {"{% set s = '\n' * 9999999 %}{{ s | indent(999) }}", "does not come to an end"},
    {"{% set s = '\n' * 9999999 %}{{ s.splitlines() | length }}",
     "does not come to an end"},
    {"{{ '%1000000000s' % 'x' }}", "too large"},
    {"{{ '%.1000000000f' % 1.5 }}", "too large"},
    {"{{ '%*d' % (1000000000, 1) }}", "too large"},
    {"{{ '{:1000000000}'.format('x') }}", "too large"},
    {"{{ '{:>{}}'.format('x', 99999999) }}", "too large"},
    {"{{ 'x'.center(1000000000) }}", "longer than"},
    {"{{ 'x'.zfill(1000000000) }}", "longer than"},
    {"{{ 'x' | center(1000000000) }}", "longer than"},
    {"{{ 'x' | indent(1000000000, true) }}", "longer than"},
    {"{{ [1, [2]] | tojson(indent=1000000000) }}", "longer than"},
    {"{{ 9 ** 99 }}", "too large a number"},
    {"{{ 9.5 ** 9999 }}", "the power is no number"},
    {"{{ 'x' * 9223372036854775807 }}", "longer than"},
    {"{{ [1] * 9223372036854775807 }}", "does not come to an end"},
    {"{{ [1] | batch(9223372036854775807, 'x') | list }}", "does not come to an end"},
    {"{{ [1] | slice(9223372036854775807) | list }}", "does not come to an end"},
    {"{% set l = [1] %}{% for x in l %}{% do l.append(x) %}{% endfor %}",
     "does not come to an end"},
    {"{% set l = [1] %}{% for x in range(60) %}{% do l.extend(l) %}{% endfor %}",
     "does not come to an end"},
    {"{% set x = range(99999) | list %}{% for i in range(999) %}{% set y = x | sort %}"
     "{% endfor %}",
     "does not come to an end"},
    {"{% set x = range(99999) | list %}{% for i in range(999) %}"
     "{% set y = x | unique | list %}{% endfor %}",
     "does not come to an end"},
    {"{% set x = range(99999) | list %}{% for i in range(9999) %}{{ 'x' in x }}{% endfor "
     "%}",
     "does not come to an end"},
    {"{% set x = 'ab' * 99999 %}{% for i in range(99999) %}{{ x | join('--') | length }}"
     "{% endfor %}",
     "does not come to an end"},
    {"{% set x = '{\"a\": 1}' * 9 %}{% for i in range(99999) %}"
     "{% set y = '[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3]' | from_json %}{% "
     "endfor %}",
     "does not come to an end"},
    {"{% set n = namespace(s='a') %}{% for i in range(22) %}{% set n.s = n.s + n.s %}"
     "{% endfor %}{% for i in range(99) %}{% set x = n.s ~ i %}{% endfor %}",
     "MiB of memory"},
    {"{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "nested too deeply"},
    {"{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}",
     "nested too deeply"},
    {"{% macro f(n) %}{{ f(n - 1) ~ f(n - 1) if n }}{% endmacro %}{{ f(60) }}",
     "does not come to an end"},
    {"{% set l = [] %}{% do l.append(l) %}{% for x in l recursive %}{{ loop(x) }}"
     "{% endfor %}",
     "nested too deeply"},
    {"{% set l = [] %}{% do l.append(l) %}{{ l }}", "nested too deeply"},
    {"{% set l = [] %}{% do l.append(l) %}{{ l | tojson }}", "nested too deeply"},
    {"{% set l = [] %}{% do l.append(l) %}{% set m = [] %}{% do m.append(m) %}{{ l == m "
     "}}",
     "nested too deeply"},
    {"{% set l = [] %}{% do l.append(l) %}{% set m = [] %}{% do m.append(m) %}{{ l < m "
     "}}",
     "nested too deeply"},
    {"{% set n = namespace() %}{% set n.n = n %}{{ n }}", "nested too deeply"},
    {"{% set n = namespace(l=[]) %}{% for a in range(500) %}{% set n.l = [n.l] %}{% "
     "endfor %}"
     "{{ n.l }}",
     "nested too deeply"},
    {"{{ ('[' * 300 + ']' * 300) | from_json }}", "nested too deeply"},
};

static void test_bombs_do_not_go_off(void **state)
{
  (void)state;
  struct lls_error err;
  for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
    const char *said = failure_of(bombs[i].source, &err);
    if (strstr(said, bombs[i].sentence) == NULL)
      fail_msg("%s\nsaid \"%s\"", bombs[i].source, said);
  }
}

/* Values that a client sends are charged like those that a template makes. */
static void test_bombs_in_messages(void **state)
{
  (void)state;
  const size_t length = 16 << 20;
  static const char *const sources[] = {
      "{% for p in messages[0].content.split(' ') %}{% endfor %}",
      "{{ messages[0].content | list | length }}",
      "{{ messages[0].content | join('-') | length }}",
  };
  char *content = malloc(length);
  assert_non_null(content);
  for (size_t i = 0; i < length; i++)
    content[i] = i % 2 == 0 ? 'a' : ' ';
  json_t *messages =
      json_pack("[{s:s, s:s#}]", "role", "user", "content", content, length);
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    struct lls_chat_template *chat_template = compile(sources[i]);
    struct lls_error err = {0};
    char *text = NULL;
    size_t out;
    assert_int_equal(lls_chat_template_render(chat_template, messages, NULL, true, NOW,
                                              &text, &out, &err),
                     -EINVAL);
    lls_chat_template_free(chat_template);
  }
  json_decref(messages);
  free(content);
}

/* A mapping whose keys are removed and added again, more often than it holds keys at
 * once. */
static void test_mappings_grow(void **state)
{
  (void)state;
  struct lls_chat_template *chat_template = compile(
      "{% set d = {} %}{% for i in range(1000) %}{% do d.update({i: i, 'k' ~ i: 1}) %}"
      "{% if i > 20 %}{% do d.pop(i - 20) %}{% do d.pop('k' ~ (i - 20)) %}{% endif %}"
      "{% endfor %}{{ d | length }} {{ d[999] }} {{ d[980] }} {{ d.k990 }} "
      "{{ 979 in d }} {{ d.keys() | first }} {{ d.keys() | list | last }}");
  char *text = render(chat_template);
  assert_string_equal(text, "42 999 980 1 False 0 k999");
  free(text);
  lls_chat_template_free(chat_template);
}

static void test_nesting_is_bounded(void **state)
{
  (void)state;
  struct lls_error err;
  char source[8192] = "{{ ";
  for (int i = 0; i < 190; i++)
    strcat(source, "-");
  strcat(source, "1 }}");
  assert_string_equal(failure_of(source, &err), "");
  strcpy(source, "{{ ");
  for (int i = 0; i < 250; i++)
    strcat(source, "not ");
  strcat(source, "1 }}");
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

static void assert_folder_renders(const struct folder *folder, const char *expected)
{
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  if (lls_chat_template_load(folder->path, NULL, &chat_template, &err) < 0)
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
  folder_write_text(folder, "tokenizer_config.json",
                    "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}]}");
  assert_folder_renders(folder, "R");
  folder_write_text(folder, "tokenizer_config.json", "{\"pad_token\": \"<p>\"}");
  folder_write_text(folder, "chat_template.json",
                    "{\"chat_template\": \"J{{ pad_token }}{{ eos_token }}\"}");
  assert_folder_renders(folder, "J<p>");
  folder_write_text(folder, "chat_template.jinja", "{{ messages[0].content }}!\n");
  assert_folder_renders(folder, "Hi!");
}

static void assert_tools_render(const struct folder *folder, const char *expected)
{
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  json_t *messages = json_array(), *tools = json_pack("{s:[{}]}", "tools");
  char *text = NULL;
  size_t length;
  assert_int_equal(lls_chat_template_load(folder->path, "", &chat_template, &err), 0);
  assert_int_equal(lls_chat_template_render(chat_template, messages, tools, true, NOW,
                                            &text, &length, &err),
                   0);
  assert_string_equal(text, expected);
  free(text);
  json_decref(tools);
  json_decref(messages);
  lls_chat_template_free(chat_template);
}

static void test_tools_have_a_template_of_their_own(void **state)
{
  const struct folder *folder = *state;
  folder_write_text(folder, "tokenizer_config.json",
                    "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"},"
                    "{\"name\": \"tool_use\", \"template\": \"T\"}]}");
  assert_tools_render(folder, "T");
  assert_folder_renders(folder, "D");
  folder_write_text(folder, "tokenizer_config.json", "{\"chat_template\": \"D\"}");
  assert_tools_render(folder, "D");
}

/* An unusable template is reported, and does not affect requests that need none. */
static void assert_problem(const struct folder *folder, const char *file,
                           const char *expected)
{
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  json_t *messages = json_array();
  char *text = NULL;
  size_t length;
  assert_int_equal(lls_chat_template_load(folder->path, file, &chat_template, &err), 0);
  assert_non_null(lls_chat_template_problem(chat_template));
  assert_non_null(strstr(lls_chat_template_problem(chat_template), expected));
  assert_int_equal(lls_chat_template_render(chat_template, messages, NULL, true, NOW,
                                            &text, &length, &err),
                   -ENOTSUP);
  assert_string_equal(err.text, lls_chat_template_problem(chat_template));
  json_decref(messages);
  lls_chat_template_free(chat_template);
}

static void test_a_problem_names_the_file(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  char expected[256], path[256];
  folder_write_text(folder, "tokenizer_config.json",
                    "{\"chat_template\": \"{% nope %}\"}");
  snprintf(expected, sizeof expected,
           "%s/tokenizer_config.json: chat template: line 1, column 4: the statement "
           "\"nope\" is not supported here",
           folder->path);
  assert_problem(folder, NULL, expected);
  folder_write_text(folder, "mine.jinja", "mine{% if %}");
  snprintf(path, sizeof path, "%s/mine.jinja", folder->path);
  assert_problem(folder, path, "/mine.jinja: chat template: line 1, column 11");
  folder_write_text(folder, "mine.jinja", "mine");
  assert_int_equal(lls_chat_template_load(folder->path, path, &chat_template, &err), 0);
  assert_null(lls_chat_template_problem(chat_template));
  assert_null(lls_chat_template_warning(chat_template));
  lls_chat_template_free(chat_template);
  assert_int_equal(
      lls_chat_template_load(folder->path, "/nowhere.jinja", &chat_template, &err),
      -ENOENT);
  assert_non_null(strstr(err.text, "/nowhere.jinja: cannot open"));
  folder_write(folder, "chat_template.jinja", "a\0b", 3);
  assert_true(lls_chat_template_load(folder->path, NULL, &chat_template, &err) < 0);
}

static void test_a_warning_names_the_file(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  folder_write_text(folder, "chat_template.jinja", "a\n{{ x | what }}");
  assert_int_equal(lls_chat_template_load(folder->path, NULL, &chat_template, &err), 0);
  assert_null(lls_chat_template_problem(chat_template));
  assert_non_null(strstr(lls_chat_template_warning(chat_template),
                         "/chat_template.jinja: chat template: line 2, column 8: the "
                         "filter \"what\" is not supported"));
  lls_chat_template_free(chat_template);
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

#define THREADS 4

struct renderer {
  const struct lls_chat_template *chat_template;
  char *texts[50];
};

static void *render_often(void *context)
{
  struct renderer *renderer = context;
  for (size_t i = 0; i < sizeof renderer->texts / sizeof *renderer->texts; i++)
    renderer->texts[i] = render(renderer->chat_template);
  return NULL;
}

static void test_threads_share_a_template(void **state)
{
  (void)state;
  struct lls_chat_template *chat_template = compile(
      "{% macro f(x, y='d') %}{% set n = namespace(l=[]) %}{% for c in x %}"
      "{% do n.l.append(c ~ y) %}{% endfor %}{{ n.l | sort | tojson }}{% endmacro %}"
      "{% for m in messages %}{{ f(m.content) }}{{ m }}{% endfor %}");
  struct renderer renderers[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    renderers[i].chat_template = chat_template;
    assert_int_equal(pthread_create(&threads[i], NULL, render_often, &renderers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    for (size_t j = 0; j < sizeof renderers->texts / sizeof *renderers->texts; j++) {
      assert_string_equal(renderers[i].texts[j],
                          "[\"Hd\", \"id\"]{'role': 'user', 'content': 'Hi'}");
      free(renderers[i].texts[j]);
    }
  }
  lls_chat_template_free(chat_template);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_unknown_constructs_fail_when_reached),
      cmocka_unit_test(test_lists_and_mappings_change),
      cmocka_unit_test(test_mappings_grow),
      cmocka_unit_test(test_bombs_do_not_go_off),
      cmocka_unit_test(test_bombs_in_messages),
      cmocka_unit_test(test_nesting_is_bounded),
      cmocka_unit_test(test_rejection_is_told),
      IN_FOLDER(test_where_the_template_comes_from),
      IN_FOLDER(test_tools_have_a_template_of_their_own),
      IN_FOLDER(test_a_problem_names_the_file),
      IN_FOLDER(test_a_warning_names_the_file),
      cmocka_unit_test(test_time_is_the_callers),
      cmocka_unit_test(test_threads_share_a_template),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
