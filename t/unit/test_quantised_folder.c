/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised Hugging Face folders: each matrix has the reference's values, both directly
 * and through the CPU device's codes; and refusals, with the tensor's name. */
#include "t/folder.h"
#include "t/quantised_data.h"

#include "core/device/device.h"
#include "core/device/tensor.h"
#include "core/engine/shard.h"
#include "core/model/quantisation.h"
#include "kernels/cpu/device.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void assert_rows(const struct lls_tensor_view *got,
                        const struct lls_tensor_view *expected)
{
  float a[MATRIX_COLUMNS], b[MATRIX_COLUMNS];
  for (size_t row = 0; row < got->rows; row++) {
    lls_tensor_read_row(got, row, a);
    lls_tensor_read_row(expected, row, b);
    for (size_t i = 0; i < got->columns; i++) {
      if (!(a[i] == b[i]))
        fail_msg("row %zu, column %zu: %.9g, not %.9g", row, i, (double)a[i],
                 (double)b[i]);
    }
  }
}

static void test_a_matrix_is_what_it_stands_for(void **state)
{
  struct lls_safetensors *st = open_matrix(*state);
  struct lls_tensor_view m = matrix_view(st, "m.weight"), e = matrix_view(st, "expected"),
                         plain;
  assert_rows(&m, &e);
  struct lls_tensor_view part = lls_view_rows(&m, 5, 9), same = lls_view_rows(&e, 5, 9);
  part = lls_view_columns(&part, 32, 32);
  same = lls_view_columns(&same, 32, 32);
  assert_rows(&part, &same);
  assert_int_equal(lls_safetensors_view(st, "plain.weight", 2, 8, &plain, NULL), 0);
  assert_int_equal(plain.dtype, LLS_F16);
  lls_safetensors_close(st);
}

/* The product as the device packs it, of two parts; x is 1 in each column in turn. */
static void test_a_product_is_of_its_numbers(void **state)
{
  struct lls_safetensors *st = open_matrix(*state);
  struct lls_tensor_view m = matrix_view(st, "m.weight"), e = matrix_view(st, "expected");
  const struct lls_tensor_view parts[] = {lls_view_rows(&m, 0, 7),
                                          lls_view_rows(&m, 7, m.rows - 7)};
  const struct lls_device_options options = {.threads = 1,
                                             .max_rows = MATRIX_COLUMNS,
                                             .max_columns = MATRIX_COLUMNS,
                                             .max_sequences = 1};
  struct lls_device *device;
  struct lls_weight *w;
  float x[MATRIX_COLUMNS * MATRIX_COLUMNS] = {0}, y[MATRIX_COLUMNS * WRITTEN_ROWS],
                           row[MATRIX_COLUMNS];
  for (size_t i = 0; i < MATRIX_COLUMNS; i++)
    x[i * MATRIX_COLUMNS + i] = 1;
  assert_int_equal(lls_cpu_device_create(&options, &device, NULL), 0);
  assert_int_equal(
      device->ops->weight_create(device, parts, NULL, 2, LLS_WEIGHTS_AUTO, &w, NULL), 0);
  device->ops->linear(device, w, x, MATRIX_COLUMNS, LLS_STORE_SET, y);
  for (size_t o = 0; o < e.rows; o++) {
    lls_tensor_read_row(&e, o, row);
    for (size_t k = 0; k < MATRIX_COLUMNS;
         k++) /* zero points and scales are rounded to 11 or 8 bits */
      assert_true(fabsf(y[k * e.rows + o] - row[k]) <= 0.005f * (fabsf(row[k]) + 0.1f));
  }
  device->ops->weight_destroy(device, w);
  device->ops->destroy(device);
  lls_safetensors_close(st);
}

static void assert_refused(const char *quantisation, const char *sentence)
{
  char text[512];
  snprintf(text, sizeof text, "{\"quantization_config\": %s}", quantisation);
  struct lls_json j = {.file = "config.json", .root = json_loads(text, 0, NULL)};
  struct lls_quantisation q;
  struct lls_error err = {0};
  assert_non_null(j.root);
  assert_true(lls_quantisation_read(&j, &q, &err) < 0);
  if (strstr(err.text, sentence) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", err.text, sentence);
  json_decref(j.root);
}

static void test_others_are_refused_by_name(void **state)
{
  (void)state;
  static const char *const methods[] = {
      "aqlm", "hqq",  "eetq", "quanto", "torchao", "quip",     "spqr",
      "vptq", "exl2", "exl3", "higgs",  "bitnet",  "fp_quant", "quark"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    char object[64], sentence[64];
    snprintf(object, sizeof object, "{\"quant_method\": \"%s\"}", methods[i]);
    snprintf(sentence, sizeof sentence, "quant_method \"%s\" is not", methods[i]);
    assert_refused(object, sentence);
  }
  assert_refused("{\"quant_method\": \"bitsandbytes\"}", "\"load_in_4bit\"");
  assert_refused("{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, "
                 "\"bnb_4bit_quant_type\": \"int4\"}",
                 "bnb_4bit_quant_type \"int4\"");
  assert_refused("{\"bits\": 4, \"group_size\": 64}", "weights of MLX");
  assert_refused("{\"quant_method\": \"gptq\", \"bits\": 16}", "bits \"16\"");
  assert_refused("{\"quant_method\": \"awq\", \"bits\": 8}", "bits \"8\"");
  assert_refused("{\"quant_method\": \"auto-round\", \"packing_format\": "
                 "\"auto_round:marlin\"}",
                 "packing_format \"auto_round:marlin\"");
  assert_refused("{\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8_AWQ\"}",
                 "quant_algo \"W4A8_AWQ\"");
  assert_refused("{\"quant_method\": \"modelopt\", \"quant_algo\": "
                 "\"MIXED_PRECISION\"}",
                 "\"quantized_layers\"");
  assert_refused("{\"quant_method\": \"gptq\", \"checkpoint_format\": \"marlin\"}",
                 "checkpoint_format \"marlin\"");
  assert_refused("{\"quant_method\": \"awq\", \"bits\": 4, \"version\": \"gemv\"}",
                 "version \"gemv\"");
  assert_refused("{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}", "fmt \"e5m2\"");
  assert_refused("{\"quant_method\": \"compressed-tensors\", \"format\": \"nvfp4\"}",
                 "format \"nvfp4\"");
  assert_refused("{\"quant_method\": \"compressed-tensors\", \"format\": "
                 "\"pack-quantized\", \"config_groups\": {}}",
                 "\"config_groups\" should have a group of modules");
  assert_refused("{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 0}",
                 "\"group_size\"");
  assert_refused("7", "should be an object");
}

/* Symmetric int8 is for W8A8 models; all other models have wider activations. */
static void test_activations_are_read(void **state)
{
  (void)state;
  static const struct {
    const char *inputs;
    bool int8;
  } cases[] = {
      {"null", false},
      {"{\"num_bits\": 8, \"type\": \"int\", \"symmetric\": true, \"dynamic\": true}",
       true},
      {"{\"num_bits\": 8, \"type\": \"int\", \"symmetric\": false}", false},
      {"{\"num_bits\": 8, \"type\": \"float\"}", false},
      {"{\"num_bits\": 4, \"type\": \"int\"}", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", "
             "\"format\": \"int-quantized\", \"config_groups\": {\"group_0\": "
             "{\"weights\": {\"num_bits\": 8}, \"input_activations\": %s}}}}",
             cases[i].inputs);
    struct lls_json j = {.file = "config.json", .root = json_loads(text, 0, NULL)};
    struct lls_quantisation q;
    assert_non_null(j.root);
    assert_int_equal(lls_quantisation_read(&j, &q, NULL), 0);
    assert_int_equal(q.scheme[0].int8_inputs, cases[i].int8);
    json_decref(j.root);
  }
}

/* Tensors that do not fit each other. */
static void test_wrong_shapes_are_refused(void **state)
{
  (void)state;
  struct lls_safetensors *st = open_matrix("gptq");
  struct lls_tensor_view view;
  struct lls_error err = {0};
  assert_int_equal(lls_safetensors_view(st, "m.weight", MATRIX_ROWS, 128, &view, &err),
                   -EINVAL);
  assert_non_null(strstr(err.text, "m.qweight should be 16 x 16"));
  assert_int_equal(lls_safetensors_view(st, "m.weight", 20, MATRIX_COLUMNS, &view, &err),
                   -EINVAL);
  assert_int_equal(
      lls_safetensors_view(st, "n.weight", MATRIX_ROWS, MATRIX_COLUMNS, &view, &err),
      -ENOENT);
  lls_safetensors_close(st);
}

int main(void)
{
#define BOTH(name)                                                                       \
  {"test_a_matrix_is_what_it_stands_for " name, test_a_matrix_is_what_it_stands_for,     \
   NULL, NULL, (void *)(name)},                                                          \
  {                                                                                      \
    "test_a_product_is_of_its_numbers " name, test_a_product_is_of_its_numbers, NULL,    \
        NULL, (void *)(name)                                                             \
  }
  const struct CMUnitTest tests[] = {
      BOTH("gptq"),
      BOTH("gptq-zeros"),
      BOTH("gptq-order"),
      BOTH("awq"),
      BOTH("packed"),
      BOTH("packed-zeros"),
      BOTH("int8"),
      BOTH("fp8-tensor"),
      BOTH("fp8-channel"),
      BOTH("fp8-block"),
      BOTH("fp8-inverse"),
      BOTH("fp8-naive"),
      BOTH("packed8"),
      BOTH("packed8-zeros"),
      BOTH("packed3-zeros"),
      BOTH("packed4-channel"),
      BOTH("packed-order"),
      BOTH("packed-mixed"),
      BOTH("nvfp4"),
      BOTH("mxfp4"),
      BOTH("mxfp8"),
      BOTH("bnb-nf4"),
      BOTH("bnb-nf4-double"),
      BOTH("bnb-fp4"),
      BOTH("bnb-int8"),
      BOTH("gptq2"),
      BOTH("gptq3"),
      BOTH("gptq8"),
      BOTH("gptq8-zeros"),
      BOTH("round2"),
      BOTH("round3"),
      BOTH("round5"),
      BOTH("round4-gptq"),
      BOTH("round4-awq"),
      BOTH("modelopt-nvfp4"),
      BOTH("modelopt-fp8"),
      BOTH("modelopt-mixed"),
      cmocka_unit_test(test_activations_are_read),
      cmocka_unit_test(test_others_are_refused_by_name),
      cmocka_unit_test(test_wrong_shapes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
