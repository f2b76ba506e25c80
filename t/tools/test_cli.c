/* SPDX-License-Identifier: Apache-2.0 */
/* The tools' options: tables work as for llmserve.ini, and each error is one
 * sentence. */
#include "t/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "tools/workload/options.h"

struct values {
  int64_t count;
  bool fast;
  const char *words;
  int64_t pause;
};

static const struct lls_param params[] = {
    LLS_PARAM_INT(struct values, count, "3", 1, 10, "things", "how many things"),
    LLS_PARAM_BOOL(struct values, fast, "true", "be quick"),
    {.name = "words",
     .type = LLS_TYPE_STRING,
     .flags = LLS_OPTION_LIST,
     .offset = offsetof(struct values, words),
     .default_value = "",
     .unit = "",
     .sentence = "some words"},
    LLS_PARAM_DURATION(struct values, pause, "1s", 0, 1e12, "a rest"),
};
static const struct lls_option_group group = {
    "Test", {params, sizeof params / sizeof *params, sizeof(struct values)}};

static int parse(struct values *values, struct lls_error *err, char *const *argv)
{
  struct lls_bound_options bound = {&group, values};
  int argc = 0;
  while (argv[argc] != NULL)
    argc++;
  *err = (struct lls_error){0};
  assert_int_equal(lls_options_default(&bound, 1, err), 0);
  return lls_options_parse(&bound, 1, argc, argv, err);
}

static void release(struct values *values)
{
  lls_options_release(&(struct lls_bound_options){&group, values}, 1);
}

#define PARSE(...) parse(&v, &err, (char *const[]){"test", __VA_ARGS__, NULL})

static void test_options_are_bound(void **state)
{
  (void)state;
  struct values v;
  struct lls_error err;
  assert_int_equal(PARSE("--count", "7", "--no-fast", "--pause=20ms"), 0);
  assert_int_equal(v.count, 7);
  assert_false(v.fast);
  assert_int_equal(v.pause, 20000000);
  release(&v);
  assert_int_equal(PARSE("--fast"), 0);
  assert_true(v.fast);
  assert_int_equal(v.count, 3);
  release(&v);
}

static void test_lists_take_what_follows(void **state)
{
  (void)state;
  struct values v;
  struct lls_error err;
  assert_int_equal(PARSE("--words", "a", "b c", "--count", "2", "--words=d"), 0);
  assert_string_equal(v.words, "a\nb c\nd");
  const char *at = v.words, *line;
  size_t length, n = 0;
  while ((line = lls_option_next(&at, &length)) != NULL)
    n += length;
  assert_int_equal(n, 5);
  release(&v);
}

static void test_bad_usage_names_the_option(void **state)
{
  (void)state;
  struct values v;
  struct lls_error err;
  assert_int_equal(PARSE("--cuont", "7"), -EINVAL);
  assert_non_null(strstr(err.text, "--cuont; did you mean --count"));
  release(&v);
  assert_int_equal(PARSE("--count"), -EINVAL);
  assert_string_equal(err.text, "--count: expects a value");
  release(&v);
  assert_int_equal(PARSE("--words", "--fast"), -EINVAL);
  assert_string_equal(err.text, "--words: expects a value");
  release(&v);
  assert_int_equal(PARSE("--count", "11"), -ERANGE);
  assert_non_null(strstr(err.text, "--count: expected a whole number of things, from 1"));
  release(&v);
  assert_int_equal(PARSE("stray"), -EINVAL);
  assert_non_null(strstr(err.text, "'stray'"));
  release(&v);
  assert_int_equal(PARSE("--no-count"), -EINVAL);
  release(&v);
}

static void test_help_names_every_option(void **state)
{
  (void)state;
  static char text[65536];
  struct lls_workload_options options;
  struct lls_bound_options bound = {&lls_workload_option_group, &options};
  FILE *out = fmemopen(text, sizeof text, "w");
  lls_options_help(&bound, 1, out);
  fclose(out);
  for (size_t i = 0; i < lls_workload_option_group.table.n; i++) {
    char name[128];
    snprintf(name, sizeof name, "  --%s", lls_workload_option_group.table.params[i].name);
    for (char *c = name; *c != '\0'; c++)
      *c = *c == '_' ? '-' : *c;
    if (strstr(text, name) == NULL)
      fail_msg("no %s in the help", name);
  }
}

/* "--count N", and below it what it is, its bounds and its default. */
static void test_help_says_the_kind_behind_the_name(void **state)
{
  (void)state;
  static char text[65536];
  static const char *const words[] = {
      "\n  --trace FILE\n      a trace with times",
      "\n  --num-prompts N\n      how many; auto",
      "\n      random: prompt length (tokens; from 1 to 16777216; default 1024)\n",
      "\n  --disable-shuffle\n",
      "\n  --arrivals auto|trace|gamma|uniform|once\n",
      "\n  --duration TIME\n",
      "\n  --burstiness X\n",
      "\n  --slo-class STRING...\n",
      "\n  --request-rate STRING\n",
  };
  struct lls_workload_options options;
  struct lls_bound_options bound = {&lls_workload_option_group, &options};
  FILE *out = fmemopen(text, sizeof text, "w");
  lls_options_help(&bound, 1, out);
  fclose(out);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(text, words[i]) == NULL)
      fail_msg("no '%s' in the help:\n%s", words[i], text);
}

static void test_the_workload_table_is_sound(void **state)
{
  (void)state;
  struct lls_error err = {0};
  if (lls_param_table_check(&lls_workload_option_group.table, &err) != 0)
    fail_msg("%s", err.text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options_are_bound),
      cmocka_unit_test(test_lists_take_what_follows),
      cmocka_unit_test(test_bad_usage_names_the_option),
      cmocka_unit_test(test_help_names_every_option),
      cmocka_unit_test(test_help_says_the_kind_behind_the_name),
      cmocka_unit_test(test_the_workload_table_is_sound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
