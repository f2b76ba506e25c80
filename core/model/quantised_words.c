/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the descriptions of codes in words of 32 bits: gptq, awq, and auto-round, which
 * packs as either. Single modules may differ from the whole: gptqmodel's "dynamic" has
 * them by pattern, auto-round's "extra_config" by name.
 */
#include "core/model/quantisation_methods.h"

#include <string.h>

/* Reads bits, group and symmetry; `whole` has what a module's object does not say. */
static int read_codes(const struct lls_json *j, const struct lls_scheme *whole,
                      struct lls_scheme *out, struct lls_error *err)
{
  *out = *whole;
  int rc = lls_quantisation_code_bits(j, "bits", whole->bits, 2, &out->bits, err);
  if (rc == 0 && lls_json_get(j, "group_size") != NULL)
    rc = lls_quantisation_group(j, &out->group, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "sym", whole->symmetric, &out->symmetric, err);
  return rc;
}

/* Adds the schemes of modules that differ; those with 16 bits or more, or with a "-" at
 * the beginning of their pattern, are not quantised. */
static int read_modules(const struct lls_json *j, const char *key,
                        const struct lls_scheme *whole, struct lls_quantisation *out,
                        struct lls_error *err)
{
  const char *name;
  json_t *value;
  int rc = 0;
  json_object_foreach(lls_json_get(j, key), name, value)
  {
    struct lls_json inner = lls_json_inside(j, value);
    struct lls_scheme scheme;
    bool plain = json_integer_value(json_object_get(value, "bits")) >= 16;
    if (!json_is_object(value) || name[0] == '-' || plain)
      continue;
    rc = read_codes(&inner, whole, &scheme, err);
    if (rc == 0)
      rc = lls_quantisation_add(j, out, &scheme, err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

static int add(const struct lls_json *j, const char *modules,
               const struct lls_scheme *whole, struct lls_quantisation *out,
               struct lls_error *err)
{
  struct lls_scheme scheme;
  int rc = read_codes(j, whole, &scheme, err);
  if (rc == 0)
    rc = lls_quantisation_add(j, out, &scheme, err);
  return rc == 0 ? read_modules(j, modules, &scheme, out, err) : rc;
}

int lls_quantisation_gptq(const struct lls_json *j, struct lls_quantisation *out,
                          struct lls_error *err)
{
  struct lls_scheme scheme = {
      .layout = LLS_CODED_GPTQ, .bits = 4, .group_rows = 1, .symmetric = true};
  const char *version;
  int rc = lls_json_string_or(j, "checkpoint_format", "gptq", &version, err);
  if (rc < 0)
    return rc;
  if (strcmp(version, "gptq") != 0 && strcmp(version, "gptq_v2") != 0)
    return lls_quantisation_refuse(j, "checkpoint_format", version, err);
  scheme.zeros_lack = strcmp(version, "gptq") == 0;
  return add(j, "dynamic", &scheme, out, err);
}

/* AWQ's words have 8 outputs of 4 bits. */
static int check_awq_bits(const struct lls_json *j, const struct lls_quantisation *q,
                          struct lls_error *err)
{
  char text[16];
  for (uint32_t i = 0; i < q->n_schemes; i++) {
    if (q->scheme[i].bits == 4)
      continue;
    snprintf(text, sizeof text, "%u", q->scheme[i].bits);
    return lls_quantisation_refuse(j, "awq with bits", text, err);
  }
  return 0;
}

int lls_quantisation_awq(const struct lls_json *j, struct lls_quantisation *out,
                         struct lls_error *err)
{
  struct lls_scheme scheme = {.layout = LLS_CODED_AWQ, .group_rows = 1};
  const char *version;
  bool zero_point;
  int rc = lls_quantisation_code_bits(j, "bits", 4, 1, &scheme.bits, err);
  if (rc == 0)
    rc = lls_quantisation_group(j, &scheme.group, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "zero_point", true, &zero_point, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "version", "gemm", &version, err);
  if (rc < 0)
    return rc;
  scheme.symmetric = !zero_point;
  if (strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
    return lls_quantisation_refuse(j, "version", version, err);
  rc = lls_quantisation_add(j, out, &scheme, err);
  return rc == 0 ? check_awq_bits(j, out, err) : rc;
}

/* "packing_format" is the backend's, after "auto_round:"; a plain "auto_round" packs as
 * gptq's second version. */
int lls_quantisation_auto_round(const struct lls_json *j, struct lls_quantisation *out,
                                struct lls_error *err)
{
  struct lls_scheme scheme = {.bits = 4, .group_rows = 1, .symmetric = true};
  const char *packing, *type;
  int rc = lls_json_string_or(j, "packing_format", "auto_round:auto_gptq", &packing, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "data_type", "int", &type, err);
  if (rc < 0)
    return rc;
  if (strcmp(type, "int") != 0)
    return lls_quantisation_refuse(j, "data_type", type, err);
  const char *format = strncmp(packing, "auto_round:", 11) == 0 ? packing + 11 : packing;
  if (strcmp(format, "auto_gptq") == 0 || strcmp(format, "gptq") == 0) {
    scheme.layout = LLS_CODED_GPTQ;
    scheme.zeros_lack = 1;
  } else if (strcmp(format, "auto_round") == 0) {
    scheme.layout = LLS_CODED_GPTQ;
  } else if (strcmp(format, "auto_awq") == 0 || strcmp(format, "awq") == 0) {
    scheme.layout = LLS_CODED_AWQ;
  } else {
    return lls_quantisation_refuse(j, "packing_format", packing, err);
  }
  rc = add(j, "extra_config", &scheme, out, err);
  if (rc < 0 || scheme.layout != LLS_CODED_AWQ)
    return rc;
  for (uint32_t i = 0; i < out->n_schemes; i++)
    out->scheme[i].symmetric = false; /* zeros are stored always */
  return check_awq_bits(j, out, err);
}
