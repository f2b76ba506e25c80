/* SPDX-License-Identifier: Apache-2.0 */
/* Good files are read correctly; each kind of malformed file has its message. */
#include "t/folder.h"

#include "core/model/safetensors.h"

#include <errno.h>

#define SINGLE "model.safetensors"
#define INDEX  "model.safetensors.index.json"

static struct lls_safetensors *open_good(const struct folder *folder)
{
  struct lls_error err = {0};
  struct lls_safetensors *st = NULL;
  int rc = lls_safetensors_open(folder->path, &st, &err);
  if (rc != 0)
    fail_msg("%s", lls_error_text(&err, rc));
  return st;
}

static void expect_refusal(const struct folder *folder, int code, const char *sentence)
{
  struct lls_error err = {0};
  struct lls_safetensors *st = NULL;
  assert_int_equal(lls_safetensors_open(folder->path, &st, &err), code);
  assert_null(st);
  if (strstr(err.text, sentence) == NULL)
    fail_msg("\"%s\" should contain \"%s\"", err.text, sentence);
}

static void test_reads_matrices_and_vectors(void **state)
{
  folder_write_tensors(
      *state, SINGLE,
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"m\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
      "\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}}",
      20);
  struct lls_safetensors *st = open_good(*state);
  struct lls_tensor_view view;
  assert_int_equal(lls_safetensors_view(st, "m", 2, 3, &view, NULL), 0);
  assert_int_equal(view.dtype, LLS_BF16);
  assert_int_equal(view.rows, 2);
  assert_int_equal(view.row_stride, 3);
  assert_int_equal(((const unsigned char *)view.data)[11], 11);
  assert_int_equal(lls_safetensors_view(st, "v", 1, 2, &view, NULL), 0);
  assert_int_equal(((const unsigned char *)view.data)[0], 12);
  assert_true(lls_safetensors_has(st, "v"));
  assert_false(lls_safetensors_has(st, "w"));
  lls_safetensors_drop_pages(st);
  assert_int_equal(((const unsigned char *)view.data)[0], 12);
  lls_safetensors_close(st);
}

/* The 54 byte header puts the data at byte 62, which no float may start at. */
static void test_unaligned_data_is_copied(void **state)
{
  const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  assert_int_not_equal((8 + strlen(header)) % 4, 0);
  folder_write_tensors(*state, SINGLE, header, 4);
  struct lls_safetensors *st = open_good(*state);
  struct lls_tensor_view view;
  assert_int_equal(lls_safetensors_view(st, "a", 1, 1, &view, NULL), 0);
  assert_int_equal((uintptr_t)view.data % 4, 0);
  assert_memory_equal(view.data, "\0\1\2\3", 4);
  lls_safetensors_close(st);
}

static void test_views_are_checked(void **state)
{
  folder_write_tensors(
      *state, SINGLE,
      "{\"m\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
      "\"b\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[12,16]}}",
      16);
  struct lls_safetensors *st = open_good(*state);
  struct lls_tensor_view view;
  struct lls_error err = {0};
  assert_int_equal(lls_safetensors_view(st, "m", 3, 2, &view, &err), -EINVAL);
  assert_non_null(strstr(err.text, "tensor m has shape [2, 3], but config.json makes it "
                                   "[3, 2]"));
  assert_int_equal(lls_safetensors_view(st, "m", 1, 6, &view, &err), -EINVAL);
  assert_int_equal(lls_safetensors_view(st, "b", 1, 4, &view, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "tensor b is of type BOOL"));
  assert_int_equal(lls_safetensors_view(st, "none", 1, 4, &view, &err), -ENOENT);
  assert_non_null(strstr(err.text, "tensor none is missing"));
  lls_safetensors_close(st);
}

#define A(shape, offsets)                                                                \
  "\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Each header is wrong in one way, for a file with 16 bytes of data. */
static void test_lying_headers_are_refused(void **state)
{
  static const struct {
    const char *header, *sentence;
  } cases[] = {
      {"{" A("[4]", "[0,20]") "}",
       "tensor a ends at byte 20 of the data but the file has"},
      {"{" A("[5]", "[0,16]") "}",
       "tensor a has 16 bytes but its shape and type make 20"},
      {"{" A("[2]", "[0,8]") "}", "8 bytes at the end belong to no tensor"},
      {"{" A("[2]", "[8,16]") "}", "8 bytes before tensor a belong to none"},
      {"{" A("[4]", "[16,0]") "}", "not in order"},
      {"{" A("[4]", "[-4,16]") "}", "not in order"},
      {"{" A("[4]", "[0]") "}", "data_offsets should be two numbers"},
      {"{" A("4", "[0,16]") "}", "shape should be a list"},
      {"{" A("[-4]", "[0,16]") "}", "list of whole numbers"},
      {"{" A("[4294967296,4294967296,4]", "[0,16]") "}", "more bytes than any file"},
      {"{" A("[1,1,1,1,1,1,1,1,4]", "[0,16]") "}", "at most 8"},
      {"{" A("[4]", "[0,16]") "," A("[4]", "[0,16]") "}", "duplicate object key"},
      {"{" A("[4]", "[0,16]") ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
                              "\"data_offsets\":[4,12]}}",
       "overlap"},
      {"{\"a\":{\"dtype\":\"Q4\",\"shape\":[4],\"data_offsets\":[0,16]}}",
       "tensor a: unknown type \"Q4\""},
      {"{\"a\":{\"shape\":[4],\"data_offsets\":[0,16]}}", "unknown type \"\""},
      {"{\"a\":7}", "tensor a"},
      {"[]", "not a JSON object"},
      {"{\"a\"", "not a JSON object"},
      {"", "not a JSON object"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    folder_write_tensors(*state, SINGLE, cases[i].header, 16);
    expect_refusal(*state, -EINVAL, cases[i].sentence);
  }
}

static void test_impossible_lengths_are_refused(void **state)
{
  uint64_t lengths[] = {9, 1000, UINT64_C(1) << 40, UINT64_MAX, UINT64_MAX - 7};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    unsigned char bytes[16] = {0};
    memcpy(bytes, &lengths[i], 8);
    folder_write(*state, SINGLE, bytes, sizeof bytes);
    expect_refusal(*state, -EINVAL, "its header claims");
  }
  folder_write(*state, SINGLE, "short", 5);
  expect_refusal(*state, -EINVAL, "too short for a safetensors file (5 bytes)");
  folder_write(*state, SINGLE, "", 0);
  expect_refusal(*state, -EINVAL, "empty");
}

/* A good file, truncated to every length. */
static void test_truncation_is_always_seen(void **state)
{
  unsigned char bytes[8 + 57 + 16] = {57};
  memcpy(bytes + 8, "{" A("[4]", "[0,16]") "}  ", 57);
  folder_write(*state, SINGLE, bytes, sizeof bytes);
  lls_safetensors_close(open_good(*state));
  for (size_t n = 0; n < sizeof bytes; n++) {
    folder_write(*state, SINGLE, bytes, n);
    expect_refusal(*state, -EINVAL, "model.safetensors: ");
  }
}

/* Reads both ends of a tensor, if it still exists; returns more than 0 if so. */
static unsigned touch(struct lls_safetensors *st, const char *name, size_t rows,
                      size_t columns)
{
  struct lls_tensor_view view;
  if (lls_safetensors_view(st, name, rows, columns, &view, NULL) != 0)
    return 0;
  const unsigned char *data = view.data;
  return 1u + data[0] + data[rows * columns * lls_dtype_bytes(view.dtype) - 1];
}

/* One to three random bytes of the length or the header are changed. */
static void test_damage_never_crashes(void **state)
{
  const char *header = "{\"m\":{\"dtype\":\"BF16\",\"shape\":[2,3],"
                       "\"data_offsets\":[0,12]},"
                       "\"v\":{\"dtype\":\"F32\",\"shape\":[2],"
                       "\"data_offsets\":[12,20]}}";
  static const char alphabet[] = "0123456789-,:[]{}\"F vm\377";
  unsigned char bytes[8 + 256] = {(unsigned char)strlen(header)};
  size_t n = 8 + strlen(header) + 20;
  assert_true(n <= sizeof bytes);
  memcpy(bytes + 8, header, strlen(header));
  unsigned read = 0;
  srand(1);
  for (int i = 0; i < 3000; i++) {
    unsigned char damaged[sizeof bytes];
    memcpy(damaged, bytes, n);
    for (int j = rand() % 3; j >= 0; j--)
      damaged[(size_t)rand() % (n - 20)] =
          (unsigned char)alphabet[(size_t)rand() % (sizeof alphabet - 1)];
    folder_write(*state, SINGLE, damaged, n);
    struct lls_safetensors *st = NULL;
    struct lls_error err = {0};
    if (lls_safetensors_open(((struct folder *)*state)->path, &st, &err) != 0) {
      assert_non_null(strstr(err.text, SINGLE ": "));
      continue;
    }
    read += touch(st, "m", 2, 3) + touch(st, "v", 1, 2);
    lls_safetensors_close(st);
  }
  assert_true(read > 0); /* some damage is harmless */
}

static void test_missing_files_are_named(void **state)
{
  expect_refusal(*state, -ENOENT, "neither model.safetensors nor");
  folder_write_text(*state, INDEX, "{\"weight_map\":{\"a\":\"one.safetensors\"}}");
  expect_refusal(*state, -ENOENT, "one.safetensors: cannot be opened");
}

#define ONE(name)                                                                        \
  "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"

static void test_shards_are_one_model(void **state)
{
  folder_write_text(*state, INDEX,
                    "{\"metadata\":{},\"weight_map\":{\"a\":\"one.safetensors\","
                    "\"b\":\"two.safetensors\"}}");
  folder_write_tensors(*state, "one.safetensors", ONE("a"), 4);
  folder_write_tensors(*state, "two.safetensors", ONE("b"), 4);
  struct lls_safetensors *st = open_good(*state);
  struct lls_tensor_view view;
  assert_int_equal(lls_safetensors_view(st, "a", 1, 1, &view, NULL), 0);
  assert_int_equal(lls_safetensors_view(st, "b", 1, 1, &view, NULL), 0);
  lls_safetensors_close(st);

  folder_write_tensors(*state, "two.safetensors", ONE("a"), 4);
  expect_refusal(*state, -EINVAL, "tensor a is in one.safetensors too");
  folder_write_tensors(*state, "two.safetensors", ONE("c"), 4);
  expect_refusal(*state, -EINVAL, "b is not in two.safetensors as it says");
}

static void test_broken_indexes_are_refused(void **state)
{
  static const struct {
    const char *text, *sentence;
  } cases[] = {
      {"{", "not valid JSON"},
      {"[]", "should hold one JSON object"},
      {"{}", "\"weight_map\" should map"},
      {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}",
       "should name a file of the folder"},
      {"{\"weight_map\":{\"a\":1}}", "should name a file of the folder"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    folder_write_text(*state, INDEX, cases[i].text);
    expect_refusal(*state, -EINVAL, cases[i].sentence);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_reads_matrices_and_vectors),
      IN_FOLDER(test_unaligned_data_is_copied),
      IN_FOLDER(test_views_are_checked),
      IN_FOLDER(test_lying_headers_are_refused),
      IN_FOLDER(test_impossible_lengths_are_refused),
      IN_FOLDER(test_truncation_is_always_seen),
      IN_FOLDER(test_damage_never_crashes),
      IN_FOLDER(test_missing_files_are_named),
      IN_FOLDER(test_shards_are_one_model),
      IN_FOLDER(test_broken_indexes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
