/* SPDX-License-Identifier: Apache-2.0 */
/* The shared parts of the readers of quantisation methods; see quantisation_methods.h. */
#include "core/model/quantisation_methods.h"

#include <errno.h>

int lls_quantisation_refuse(const struct lls_json *j, const char *what, const char *value,
                            struct lls_error *err)
{
  return lls_fail(err, -ENOTSUP,
                  "%s: \"quantization_config\": %s \"%.64s\" is not supported: gptq and "
                  "auto-round (2 to 8 bits), awq (gemm), compressed-tensors, modelopt "
                  "(FP8, NVFP4), fp8 (e4m3) and bitsandbytes are",
                  j->file, what, value);
}

static bool is_same(const struct lls_scheme *a, const struct lls_scheme *b)
{
  return a->layout == b->layout && a->bits == b->bits && a->group == b->group &&
         a->group_rows == b->group_rows && a->zeros_lack == b->zeros_lack &&
         a->symmetric == b->symmetric && a->mx == b->mx && a->modelopt == b->modelopt &&
         a->bitsandbytes == b->bitsandbytes;
}

int lls_quantisation_add(const struct lls_json *j, struct lls_quantisation *q,
                         const struct lls_scheme *scheme, struct lls_error *err)
{
  for (uint32_t i = 0; i < q->n_schemes; i++) {
    if (is_same(&q->scheme[i], scheme)) {
      q->scheme[i].int8_inputs &= scheme->int8_inputs;
      return 0;
    }
  }
  if (q->n_schemes == LLS_MAX_SCHEMES)
    return lls_fail(err, -ENOTSUP,
                    "%s: \"quantization_config\" stores matrices in more than %d ways",
                    j->file, LLS_MAX_SCHEMES);
  q->scheme[q->n_schemes++] = *scheme;
  return 0;
}

int lls_quantisation_group(const struct lls_json *j, uint32_t *out, struct lls_error *err)
{
  json_t *value = lls_json_get(j, "group_size");
  *out = 0;
  if (value == NULL || (json_is_integer(value) && json_integer_value(value) == -1))
    return 0;
  return lls_json_size(j, "group_size", out, err);
}

int lls_quantisation_code_bits(const struct lls_json *j, const char *key,
                               uint32_t fallback, uint32_t least, uint32_t *out,
                               struct lls_error *err)
{
  char text[16];
  int rc = lls_json_size_or(j, key, fallback, out, err);
  if (rc < 0 || (*out >= least && *out <= 8))
    return rc;
  snprintf(text, sizeof text, "%u", *out);
  return lls_quantisation_refuse(j, key, text, err);
}

int lls_quantisation_block(const struct lls_json *j, const char *key,
                           struct lls_scheme *out, struct lls_error *err)
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
