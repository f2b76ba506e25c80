/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the descriptions of compressed-tensors and of modelopt, which both list groups of
 * modules. Only W8A8 quantises activations; scales for them (input_scale,
 * input_global_scale) and for the cache of keys and values (k_scale, v_scale) are not
 * needed, since this server's caches in fewer bits compute their own scales.
 */
#include "core/model/quantisation_methods.h"

#include <errno.h>
#include <string.h>

/* Finds the scheme of a format, without its group. */
static int scheme_of(const struct lls_json *j, const char *format, struct lls_scheme *out,
                     struct lls_error *err)
{
  if (strcmp(format, "pack-quantized") == 0)
    out->layout = LLS_CODED_PACKED;
  else if (strcmp(format, "int-quantized") == 0)
    out->layout = LLS_CODED_INT8;
  else if (strcmp(format, "float-quantized") == 0 ||
           strcmp(format, "naive-quantized") == 0) /* activations have more bits */
    out->layout = LLS_CODED_FP8;
  else if (strcmp(format, "nvfp4-pack-quantized") == 0)
    out->layout = LLS_CODED_FP4;
  else if (strcmp(format, "mxfp4-pack-quantized") == 0)
    *out = (struct lls_scheme){.layout = LLS_CODED_FP4, .mx = true};
  else if (strcmp(format, "mxfp8-quantized") == 0)
    *out = (struct lls_scheme){.layout = LLS_CODED_FP8, .mx = true};
  else
    return lls_quantisation_refuse(j, "compressed-tensors' format", format, err);
  return 0;
}

/* Reads "weights" of a group of modules. */
static int read_weights(const struct lls_json *j, const char *format,
                        struct lls_scheme *out, struct lls_error *err)
{
  const char *type;
  int rc = scheme_of(j, format, out, err);
  bool floats = out->layout == LLS_CODED_FP8 || out->layout == LLS_CODED_FP4;
  if (rc == 0)
    rc = lls_json_string_or(j, "type", floats ? "float" : "int", &type, err);
  if (rc < 0)
    return rc;
  if (strcmp(format, "naive-quantized") == 0 && strcmp(type, "int") == 0) {
    out->layout = LLS_CODED_INT8;
    floats = false;
  }
  uint32_t usual =
      out->layout == LLS_CODED_FP4 || out->layout == LLS_CODED_PACKED ? 4 : 8;
  if (strcmp(type, floats ? "float" : "int") != 0)
    return lls_quantisation_refuse(j, format, type, err);
  rc = lls_quantisation_code_bits(j, "num_bits", usual, 2, &out->bits, err);
  char text[16];
  snprintf(text, sizeof text, "%u", out->bits);
  if (rc == 0 && out->layout != LLS_CODED_PACKED && out->bits != usual)
    return lls_quantisation_refuse(j, "num_bits", text, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "symmetric", true, &out->symmetric, err);
  if (rc == 0 && !out->symmetric && out->layout != LLS_CODED_PACKED)
    return lls_quantisation_refuse(j, format, "symmetric: false", err);
  if (rc == 0)
    rc = lls_quantisation_group(j, &out->group, err);
  if (rc == 0 && out->layout == LLS_CODED_FP4 && out->group == 0)
    out->group = out->mx ? 32 : 16;
  if (rc == 0 && out->mx && out->group == 0)
    out->group = 32;
  return rc == 0 ? lls_quantisation_block(j, "block_structure", out, err) : rc;
}

/* W8A8: activations must be symmetric 8-bit integers. */
static int read_inputs(const struct lls_json *j, struct lls_scheme *out,
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

/* Reads a group; its format, if it has one, is the group's own. */
static int read_group(const struct lls_json *j, const char *format,
                      struct lls_quantisation *out, struct lls_error *err)
{
  struct lls_scheme scheme = {0};
  json_t *weights = lls_json_get(j, "weights");
  int rc = lls_json_string_or(j, "format", format, &format, err);
  if (rc < 0)
    return rc;
  if (!json_is_object(weights))
    return lls_fail(err, -EINVAL, "%s: \"config_groups\" should say what \"weights\" are",
                    j->file);
  struct lls_json inner = lls_json_inside(j, weights);
  rc = read_weights(&inner, format, &scheme, err);
  json_t *inputs = lls_json_get(j, "input_activations");
  if (rc == 0 && json_is_object(inputs) && scheme.layout == LLS_CODED_INT8) {
    inner = lls_json_inside(j, inputs);
    rc = read_inputs(&inner, &scheme, err);
  }
  return rc == 0 ? lls_quantisation_add(j, out, &scheme, err) : rc;
}

int lls_quantisation_compressed(const struct lls_json *j, struct lls_quantisation *out,
                                struct lls_error *err)
{
  const char *format, *name;
  json_t *group, *groups = lls_json_get(j, "config_groups");
  struct lls_scheme known = {0};
  int rc = lls_json_string_or(j, "format", "none", &format, err);
  if (rc == 0 && strcmp(format, "mixed-precision") != 0)
    rc = scheme_of(j, format, &known, err);
  if (rc == 0 && json_object_size(groups) == 0)
    rc = lls_fail(err, -EINVAL, "%s: \"config_groups\" should have a group of modules",
                  j->file);
  json_object_foreach(groups, name, group)
  {
    struct lls_json inner = lls_json_inside(j, group);
    if (rc == 0 && !json_is_object(group))
      rc = lls_fail(err, -EINVAL, "%s: \"config_groups\": %.64s should be an object",
                    j->file, name);
    if (rc == 0)
      rc = read_group(&inner, format, out, err);
  }
  return rc;
}

/* ---- modelopt --------------------------------------------------------------------- */

/* Adds what one of modelopt's names stands for. Activations are not quantised here, so
 * names that differ in them only are one. */
static int add_algorithm(const struct lls_json *j, const char *name, uint32_t group,
                         struct lls_quantisation *out, struct lls_error *err)
{
  static const struct {
    const char *name;
    struct lls_scheme scheme;
  } known[] = {
      {"FP8", {.layout = LLS_CODED_FP8, .bits = 8}},
      {"FP8_PER_CHANNEL_PER_TOKEN", {.layout = LLS_CODED_FP8, .bits = 8}},
      {"FP8_PB_WO",
       {.layout = LLS_CODED_FP8, .bits = 8, .group = 128, .group_rows = 128}},
      {"FP8_PB_REAL",
       {.layout = LLS_CODED_FP8, .bits = 8, .group = 128, .group_rows = 128}},
      {"MXFP8", {.layout = LLS_CODED_FP8, .bits = 8, .group = 32, .mx = true}},
      {"NVFP4", {.layout = LLS_CODED_FP4, .bits = 4, .group = 16}},
      {"NVFP4_AWQ", {.layout = LLS_CODED_FP4, .bits = 4, .group = 16}},
      {"W4A16_NVFP4", {.layout = LLS_CODED_FP4, .bits = 4, .group = 16}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct lls_scheme scheme = known[i].scheme;
    if (strcmp(known[i].name, name) != 0)
      continue;
    scheme.symmetric = scheme.modelopt = true;
    if (scheme.layout == LLS_CODED_FP4 && group != 0)
      scheme.group = group;
    return lls_quantisation_add(j, out, &scheme, err);
  }
  return lls_quantisation_refuse(j, "modelopt's quant_algo", name, err);
}

static int read_algorithm(const struct lls_json *j, struct lls_quantisation *out,
                          struct lls_error *err)
{
  const char *name;
  uint32_t group;
  int rc = lls_json_string_or(j, "quant_algo", "none", &name, err);
  if (rc == 0)
    rc = lls_quantisation_group(j, &group, err);
  if (rc == 0 && strcmp(name, "MIXED_PRECISION") != 0)
    return add_algorithm(j, name, group, out, err);
  return rc;
}

int lls_quantisation_modelopt(const struct lls_json *j, struct lls_quantisation *out,
                              struct lls_error *err)
{
  const char *name;
  json_t *layer, *layers = lls_json_get(j, "quantized_layers");
  int rc = read_algorithm(j, out, err);
  json_object_foreach(layers, name, layer)
  {
    struct lls_json inner = lls_json_inside(j, layer);
    if (rc == 0 && json_is_object(layer))
      rc = read_algorithm(&inner, out, err);
  }
  if (rc == 0 && out->n_schemes == 0)
    rc = lls_fail(err, -EINVAL,
                  "%s: \"quantization_config\": \"quantized_layers\" should say how each "
                  "layer is stored",
                  j->file);
  return rc;
}
