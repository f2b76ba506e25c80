/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter tables: texts become members, and error messages say what is expected. */
#include "t/tap.h"

#include "core/params/params.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct values {
  bool eager;
  int64_t budget;
  double weight;
  const char *label;
  const char *file;
  int64_t order;
  int64_t delay;
  int64_t memory;
};

static const struct lls_param params[] = {
    LLS_PARAM_BOOL(struct values, eager, "true", "start at once"),
    LLS_PARAM_INT(struct values, budget, "512", 1, 4096, "tokens", "most at once",
                  .flags = LLS_PARAM_AUTO),
    LLS_PARAM_FLOAT(struct values, weight, "0.5", -1, 1, "", "of age",
                    .flags = LLS_PARAM_AUTO),
    LLS_PARAM_STRING(struct values, label, "plain", "for the log"),
    LLS_PARAM_PATH(struct values, file, "lengths.csv", "known lengths"),
    LLS_PARAM_CHOICE(struct values, order, "length", "arrival|length", "first"),
    LLS_PARAM_DURATION(struct values, delay, "10ms", 0, 60e9, "before the first"),
    LLS_PARAM_BYTES(struct values, memory, "1KiB", 0, 0, "for tables"),
};
static const struct lls_param_table table = {params, sizeof params / sizeof *params,
                                             sizeof(struct values)};

static void test_table_is_sound(void **state)
{
  (void)state;
  struct lls_error err = {0};
  assert_int_equal(lls_param_table_check(&table, &err), 0);
}

/* Tables with one good parameter, `budget`, and a bad one. */
static void test_bad_tables_are_refused(void **state)
{
  (void)state;
  const size_t budget = offsetof(struct values, budget);
  const struct lls_param whole = {.name = "other",
                                  .type = LLS_TYPE_INT,
                                  .offset = offsetof(struct values, order),
                                  .default_value = "1",
                                  .unit = "",
                                  .sentence = "of them"};
  struct lls_param bad[10];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    bad[i] = whole;
  bad[0].name = "budget";
  bad[1].type = LLS_TYPE_BOOL, bad[1].default_value = "on", bad[1].offset = budget + 3;
  bad[2].offset = budget + 12;
  bad[3].name = "Other";
  bad[4].type = 99;
  bad[5].choices = "a|b";
  bad[6].min = 2, bad[6].max = 1;
  bad[7].unit = NULL;
  bad[8].default_value = "none";
  bad[9].flags = LLS_PARAM_REQUIRED | LLS_PARAM_EXPERIMENTAL;
  static const char *const sentences[] = {
      "two parameters are called 'budget'",
      "parameters 'budget' and 'other' overlap at offset 11",
      "parameter 'other': offset: expected a multiple of 8, found 20",
      "parameter 1: name: expected [a-z][a-z0-9_]*, found Other",
      "parameter 'other': type: expected 1 to 8, found 99",
      "parameter 'other': choices: expected NULL, since it is no CHOICE, found a|b",
      "parameter 'other': bounds: expected min <= max, found 2 and 1",
      "parameter 'other': unit: expected a text, found NULL",
      "default of 'other': expected a whole number; found 'none'",
      "parameter 'other': flags: expected REQUIRED or EXPERIMENTAL, found both: what "
      "must "
      "be set can't be hidden",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const struct lls_param both[] = {params[1], bad[i]};
    const struct lls_param_table t = {both, 2, sizeof(struct values)};
    struct lls_error err = {0};
    assert_int_equal(lls_param_table_check(&t, &err), -EINVAL);
    assert_string_equal(err.text, sentences[i]);
  }
}

static void test_defaults_are_bound(void **state)
{
  (void)state;
  struct values v;
  assert_int_equal(lls_params_default(&table, "/etc/x", &v, NULL), 0);
  assert_true(v.eager);
  assert_int_equal(v.budget, 512);
  assert_true(v.weight == 0.5);
  assert_string_equal(v.label, "plain");
  assert_string_equal(v.file, "/etc/x/lengths.csv");
  assert_int_equal(v.order, 1);
  assert_int_equal(v.delay, 10000000);
  assert_int_equal(v.memory, 1024);
  lls_params_release(&table, &v);
  assert_null(v.label);
}

/* The values of good texts: numbers as double, texts unchanged. */
static void test_good_texts(void **state)
{
  (void)state;
  const struct {
    const char *name, *text;
    double number;
    const char *string;
  } cases[] = {
      {"eager", "off", 0, NULL},
      {"eager", "YES", 1, NULL},
      {"budget", "4096", 4096, NULL},
      {"budget", "auto", LLS_NEVER, NULL},
      {"weight", "-1", -1, NULL},
      {"weight", "1e-3", 0.001, NULL},
      {"label", "a b = c", 0, "a b = c"},
      {"label", "", 0, ""},
      {"file", "/abs", 0, "/abs"},
      {"file", "sub/x", 0, "/etc/x/sub/x"},
      {"file", "./sub/x", 0, "/etc/x/sub/x"},
      {"file", "", 0, ""},
      {"order", "arrival", 0, NULL},
      {"delay", "2", 2e9, NULL},
      {"delay", "1.5s", 1.5e9, NULL},
      {"delay", "250 us", 250e3, NULL},
      {"delay", "7ns", 7, NULL},
      {"delay", "1min", 60e9, NULL},
      {"memory", "1000", 1000, NULL},
      {"memory", "1.5GiB", 1.5 * (1 << 30), NULL},
      {"memory", "3TiB", 3.0 * (INT64_C(1) << 40), NULL},
  };
  struct values v;
  lls_params_default(&table, NULL, &v, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct lls_param *p = lls_param_find(&table, cases[i].name);
    struct lls_error err = {0};
    if (lls_param_bind(p, cases[i].text, "/etc/x", &v, &err) != 0)
      fail_msg("%s = %s: %s", cases[i].name, cases[i].text, err.text);
    const char *member = (const char *)&v + p->offset;
    if (cases[i].string != NULL)
      assert_string_equal(*(const char *const *)member, cases[i].string);
    else if (p->type == LLS_TYPE_BOOL)
      assert_int_equal(*(const bool *)member, cases[i].number);
    else if (p->type == LLS_TYPE_FLOAT)
      assert_true(*(const double *)member == cases[i].number);
    else
      assert_int_equal(*(const int64_t *)member, cases[i].number);
  }
  lls_params_release(&table, &v);
}

static void test_auto_of_a_float_is_nan(void **state)
{
  (void)state;
  struct values v = {0};
  assert_int_equal(lls_param_bind(&params[2], "auto", NULL, &v, NULL), 0);
  assert_true(isnan(v.weight));
}

static void test_bad_texts_are_refused_and_bind_nothing(void **state)
{
  (void)state;
  const struct {
    const char *name, *text;
    int code;
    const char *sentence;
  } cases[] = {
      {"eager", "maybe", -EINVAL, "expected true or false; found 'maybe'"},
      {"budget", "0", -ERANGE,
       "expected a whole number of tokens, from 1 to 4096, or auto; found '0'"},
      {"budget", "4097", -ERANGE,
       "expected a whole number of tokens, from 1 to 4096, or auto; found '4097'"},
      {"budget", "1.5", -EINVAL,
       "expected a whole number of tokens, from 1 to 4096, or auto; found '1.5'"},
      {"budget", "99999999999999999999", -ERANGE, NULL},
      {"budget", "", -EINVAL, NULL},
      {"weight", "nan", -EINVAL, "expected a number, from -1 to 1, or auto; found 'nan'"},
      {"weight", "inf", -EINVAL, NULL},
      {"weight", "0.5x", -EINVAL, NULL},
      {"order", "len", -EINVAL, "expected one of arrival, length; found 'len'"},
      {"order", "auto", -EINVAL, NULL},
      {"order", "arrival|length", -EINVAL, NULL},
      {"delay", "10 parsecs", -EINVAL,
       "expected a duration like 10ms, 1.5s or 2min, from 0 to 1min; found '10 parsecs'"},
      {"delay", "2min", -ERANGE, NULL},
      {"delay", "-1s", -ERANGE, NULL},
      {"memory", "2GB", -EINVAL, "expected bytes like 1000, 512MiB or 2GiB; found '2GB'"},
      {"memory", "9e30", -ERANGE, NULL},
  };
  struct values v, before;
  memset(&before, 0, sizeof before);
  lls_params_default(&table, NULL, &before, NULL);
  memcpy(&v, &before, sizeof v);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct lls_error err = {0};
    const struct lls_param *p = lls_param_find(&table, cases[i].name);
    assert_int_equal(lls_param_bind(p, cases[i].text, NULL, &v, &err), cases[i].code);
    if (cases[i].sentence != NULL)
      assert_string_equal(err.text, cases[i].sentence);
    assert_memory_equal(&v, &before, sizeof v);
  }
  lls_params_release(&table, &v);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table_is_sound),
      cmocka_unit_test(test_bad_tables_are_refused),
      cmocka_unit_test(test_defaults_are_bound),
      cmocka_unit_test(test_good_texts),
      cmocka_unit_test(test_auto_of_a_float_is_nan),
      cmocka_unit_test(test_bad_texts_are_refused_and_bind_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
