/* SPDX-License-Identifier: Apache-2.0 */
/* Predictors that use at most a file: none and fixed. */
#include "t/folder.h"
#include "t/plugin/bed.h"

#include <string.h>

static int open_fixed(struct bed *bed, const char *key, const char *value)
{
  const char *const parameters[] = {key, value, NULL};
  struct bed_options o = {
      .scheduler = {"null", NULL},
      .cache = {"null", NULL},
      .predictor = {"fixed", key != NULL ? parameters : NULL},
      .block_tokens = 16,
      .device_units = 40,
      .max_tokens = 64,
      .max_sequences = 4,
      .max_context = 64,
      .max_requests = 4,
  };
  return bed_open(bed, &o);
}

static int predict(struct bed *bed, const char *label, uint32_t max_new_tokens,
                   struct lls_prediction *out)
{
  int32_t token = 1;
  struct lls_prompt prompt = {.size = sizeof prompt,
                              .n_tokens = 1,
                              .tokens = &token,
                              .max_new_tokens = max_new_tokens,
                              .label = label};
  return bed->p->predict(bed->predictor_self, 1, &prompt, out);
}

static void test_none(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = {.scheduler = {"null", NULL},
                          .cache = {"null", NULL},
                          .block_tokens = 16,
                          .device_units = 40,
                          .max_tokens = 64,
                          .max_sequences = 4,
                          .max_context = 64,
                          .max_requests = 4};
  assert_int_equal(bed_open(&bed, &o), 0);
  struct lls_prediction p;
  assert_int_equal(predict(&bed, "", 100, &p), -ENOENT);
  assert_int_equal(bed.p->flags(bed.predictor_self) & LLS_PREDICTOR_PREDICTS, 0);
  bed_close(&bed);
}

static void test_max_tokens(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(open_fixed(&bed, NULL, NULL), 0);
  struct lls_prediction p;
  assert_int_equal(predict(&bed, "x", 77, &p), 0);
  assert_int_equal(p.length, 77);
  assert_int_equal(p.source, LLS_PREDICTED_PRIOR);
  assert_int_equal(p.made_ns, bed.now_ns);
  bed_close(&bed);
}

static void test_one_number(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(open_fixed(&bed, "length", "50"), 0);
  struct lls_prediction p;
  assert_int_equal(predict(&bed, "x", 77, &p), 0);
  assert_int_equal(p.length, 50);
  assert_int_equal(predict(&bed, "x", 20, &p), 0);
  assert_int_equal(p.length, 20);
  bed_close(&bed);
}

static void test_number_is_checked(void **state)
{
  (void)state;
  static const char *const bad[] = {"0", "-1", "max", "3x", "4294967296", ""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct bed bed;
    assert_int_equal(open_fixed(&bed, "length", bad[i]), -EINVAL);
    assert_non_null(strstr(bed.failure, "expected max_tokens or a whole number"));
    bed_close(&bed);
  }
}

static void open_oracle(struct bed *bed, const struct folder *folder, const char *text,
                        int expected)
{
  char path[128];
  snprintf(path, sizeof path, "%s/lengths.csv", folder->path);
  folder_write_text(folder, "lengths.csv", text);
  assert_int_equal(open_fixed(bed, "file", path), expected);
}

static void test_oracle(void **state)
{
  struct bed bed;
  open_oracle(&bed, *state, "# label,length\nb,20\r\n\na,10\nwith,comma,30", 0);
  struct lls_prediction p;
  assert_int_equal(predict(&bed, "a", 77, &p), 0);
  assert_int_equal(p.length, 10);
  assert_int_equal(p.source, LLS_PREDICTED_ORACLE);
  assert_int_equal(predict(&bed, "b", 77, &p), 0);
  assert_int_equal(p.length, 20);
  assert_int_equal(predict(&bed, "with,comma", 25, &p), 0);
  assert_int_equal(p.length, 25);
  assert_int_equal(predict(&bed, "c", 77, &p), -ENOENT);
  assert_int_equal(predict(&bed, "", 77, &p), -ENOENT);
  bed_close(&bed);
}

static void test_file_is_checked(void **state)
{
  static const struct {
    const char *text, *sentence;
  } bad[] = {
      {"a,1\nb\n", "lengths.csv:2: expected label,length"},
      {"a,0\n", "lengths.csv:1: expected label,length"},
      {"a,1x\n", "lengths.csv:1: expected label,length"},
      {",1\n", "lengths.csv:1: expected label,length"},
      {"a,99999999999\n", "lengths.csv:1: expected label,length"},
      {"a,1\nb,2\n\na,3\n", "lengths.csv:4: label \"a\" stands in line 1 too"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct bed bed;
    open_oracle(&bed, *state, bad[i].text, -EINVAL);
    assert_non_null(strstr(bed.failure, bad[i].sentence));
    bed_close(&bed);
  }
  struct bed bed;
  assert_int_equal(open_fixed(&bed, "file", "/nonexistent/x.csv"), -ENOENT);
  assert_non_null(strstr(bed.failure, "/nonexistent/x.csv: No such file or directory"));
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_none),
      cmocka_unit_test(test_max_tokens),
      cmocka_unit_test(test_one_number),
      cmocka_unit_test(test_number_is_checked),
      IN_FOLDER(test_oracle),
      IN_FOLDER(test_file_is_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
