/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the description of quantised weights in config.json; see quantisation.h. */
#include "core/model/quantisation.h"

#include <errno.h>
#include <string.h>

#include "core/model/config_keys.h"

static int refuse(const struct lls_json *j, const char *what, const char *value,
                  struct lls_error *err)
{
  return lls_fail(err, -ENOTSUP,
                  "%s: \"quantization_config\": %s \"%s\" is not supported: 4 bits of "
                  "gptq, awq (gemm) and compressed-tensors, 8 bits of compressed-tensors "
                  "and fp8 (e4m3) are",
                  j->file, what, value);
}

static int check_bits(const struct lls_json *j, const char *key, uint32_t wanted,
                      struct lls_error *err)
{
  uint32_t bits;
  char text[16];
  int rc = lls_json_size_or(j, key, wanted, &bits, err);
  if (rc < 0 || bits == wanted)
    return rc;
  snprintf(text, sizeof text, "%u", bits);
  return refuse(j, key, text, err);
}

/* Reads a whole number of 1 or more; -1, null or an absent key means 0, all inputs. */
static int read_group(const struct lls_json *j, uint32_t *out, struct lls_error *err)
{
  json_t *value = lls_json_get(j, "group_size");
  *out = 0;
  if (value == NULL || (json_is_integer(value) && json_integer_value(value) == -1))
    return 0;
  return lls_json_size(j, "group_size", out, err);
}

static int read_gptq(const struct lls_json *j, struct lls_quantisation *out,
                     struct lls_error *err)
{
  const char *version;
  out->layout = LLS_CODED_GPTQ;
  int rc = check_bits(j, "bits", 4, err);
  if (rc == 0)
    rc = read_group(j, &out->group, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "sym", true, &out->symmetric, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "checkpoint_format", "gptq", &version, err);
  if (rc < 0)
    return rc;
  if (strcmp(version, "gptq") != 0 && strcmp(version, "gptq_v2") != 0)
    return refuse(j, "checkpoint_format", version, err);
  out->zeros_lack = strcmp(version, "gptq") == 0;
  return 0;
}

static int read_awq(const struct lls_json *j, struct lls_quantisation *out,
                    struct lls_error *err)
{
  const char *version;
  bool zero_point;
  out->layout = LLS_CODED_AWQ;
  int rc = check_bits(j, "bits", 4, err);
  if (rc == 0)
    rc = read_group(j, &out->group, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "zero_point", true, &zero_point, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "version", "gemm", &version, err);
  if (rc < 0)
    return rc;
  out->symmetric = !zero_point;
  return strcmp(version, "gemm") == 0 || strcmp(version, "GEMM") == 0
             ? 0
             : refuse(j, "version", version, err);
}

static int read_block(const struct lls_json *j, const char *key,
                      struct lls_quantisation *out, struct lls_error *err)
{
  json_t *block = lls_json_get(j, key);
  out->group_rows = 0;
  if (block == NULL)
    return 0;
  json_int_t rows = json_integer_value(json_array_get(block, 0)),
             columns = json_integer_value(json_array_get(block, 1));
  if (rows < 1 || columns < 1 || rows > UINT32_MAX || columns > UINT32_MAX)
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be two whole numbers, as [128, 128]",
                    j->file, key);
  out->group_rows = (uint32_t)rows;
  out->group = (uint32_t)columns;
  return 0;
}

static int read_fp8(const struct lls_json *j, struct lls_quantisation *out,
                    struct lls_error *err)
{
  const char *format;
  out->layout = LLS_CODED_FP8;
  int rc = lls_json_string_or(j, "fmt", "e4m3", &format, err);
  if (rc == 0 && strcmp(format, "e4m3") != 0)
    return refuse(j, "fmt", format, err);
  return rc == 0 ? read_block(j, "weight_block_size", out, err) : rc;
}

/* Reads "weights" of the only group of layers. */
static int read_weights(const struct lls_json *j, const char *format,
                        struct lls_quantisation *out, struct lls_error *err)
{
  const char *type, *order;
  bool floats = out->layout == LLS_CODED_FP8;
  int rc = check_bits(j, "num_bits", out->layout == LLS_CODED_PACKED ? 4 : 8, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "type", floats ? "float" : "int", &type, err);
  if (rc == 0 && strcmp(type, floats ? "float" : "int") != 0)
    return refuse(j, format, type, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "actorder", "", &order, err);
  if (rc == 0 && strcmp(order, "group") == 0)
    return refuse(j, "actorder", order, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "symmetric", true, &out->symmetric, err);
  if (rc == 0 && !out->symmetric && out->layout != LLS_CODED_PACKED)
    return refuse(j, format, "symmetric: false", err);
  if (rc == 0)
    rc = read_group(j, &out->group, err);
  return rc == 0 ? read_block(j, "block_structure", out, err) : rc;
}

/* W8A8: activations must be symmetric 8-bit integers. */
static int read_inputs(const struct lls_json *j, struct lls_quantisation *out,
                       struct lls_error *err)
{
  const char *type;
  uint32_t bits = 0;
  bool symmetric = false;
  int rc = lls_json_size_or(j, "num_bits", 8, &bits, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "type", "int", &type, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "symmetric", true, &symmetric, err);
  if (rc == 0)
    out->int8_inputs = bits == 8 && strcmp(type, "int") == 0 && symmetric;
  return rc;
}

/* naive-quantized: e4m3 with activations of more bits. */
static int read_format(const struct lls_json *j, const char *format,
                       struct lls_quantisation *out, struct lls_error *err)
{
  if (strcmp(format, "pack-quantized") == 0)
    out->layout = LLS_CODED_PACKED;
  else if (strcmp(format, "int-quantized") == 0)
    out->layout = LLS_CODED_INT8;
  else if (strcmp(format, "float-quantized") == 0 ||
           strcmp(format, "naive-quantized") == 0)
    out->layout = LLS_CODED_FP8;
  else
    return refuse(j, "compressed-tensors' format", format, err);
  return 0;
}

static int read_compressed(const struct lls_json *j, struct lls_quantisation *out,
                           struct lls_error *err)
{
  const char *format;
  int rc = lls_json_string_or(j, "format", "none", &format, err);
  if (rc == 0)
    rc = read_format(j, format, out, err);
  if (rc < 0)
    return rc;
  json_t *groups = lls_json_get(j, "config_groups");
  if (json_object_size(groups) != 1)
    return lls_fail(err, -ENOTSUP,
                    "%s: \"config_groups\" should have one group of layers, not %zu",
                    j->file, json_object_size(groups));
  json_t *group = json_object_iter_value(json_object_iter(groups));
  json_t *weights = json_object_get(group, "weights");
  if (!json_is_object(weights))
    return lls_fail(err, -EINVAL, "%s: \"config_groups\" should say what \"weights\" are",
                    j->file);
  struct lls_json inner = lls_json_inside(j, weights);
  rc = read_weights(&inner, format, out, err);
  json_t *inputs = json_object_get(group, "input_activations");
  if (rc < 0 || !json_is_object(inputs) || out->layout != LLS_CODED_INT8)
    return rc;
  inner = lls_json_inside(j, inputs);
  return read_inputs(&inner, out, err);
}

static int read_method(const struct lls_json *j, const char *method,
                       struct lls_quantisation *out, struct lls_error *err)
{
  if (strcmp(method, "gptq") == 0)
    return read_gptq(j, out, err);
  if (strcmp(method, "awq") == 0)
    return read_awq(j, out, err);
  if (strcmp(method, "compressed-tensors") == 0)
    return read_compressed(j, out, err);
  if (strcmp(method, "fp8") == 0 || strcmp(method, "fbgemm_fp8") == 0)
    return read_fp8(j, out, err);
  if (strcmp(method, "mxfp4") != 0)
    return refuse(j, "quant_method", method, err);
  /* MXFP4: core/model/gpt_oss.c reads the experts' blocks; all other weights are plain */
  out->is_quantised = false;
  return 0;
}

int lls_quantisation_read(const struct lls_json *config, struct lls_quantisation *out,
                          struct lls_error *err)
{
  json_t *object = lls_json_get(config, "quantization_config");
  const char *method;
  *out = (struct lls_quantisation){.group_rows = 1};
  if (object == NULL)
    return 0;
  if (!json_is_object(object))
    return lls_fail(err, -EINVAL, "%s: \"quantization_config\" should be an object",
                    config->file);
  struct lls_json j = lls_json_inside(config, object);
  out->is_quantised = true;
  int rc = lls_json_string_or(&j, "quant_method", "none", &method, err);
  if (rc == 0)
    rc = read_method(&j, method, out, err);
  return rc == 0 ? lls_config_check_quantisation_keys(&j, err) : rc;
}

uint32_t lls_quantisation_bits(const struct lls_quantisation *q)
{
  return q->layout == LLS_CODED_INT8 || q->layout == LLS_CODED_FP8 ? 8 : 4;
}
