/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the description of bitsandbytes: codes of 4 bits that stand for 16 numbers (nf4,
 * fp4), which are stored beside each matrix with its block size; or LLM.int8 (arXiv
 * 2208.07339), read as int8 weights with activations as they are.
 */
#include "core/model/quantisation_methods.h"

#include <errno.h>
#include <string.h>

int lls_quantisation_bitsandbytes(const struct lls_json *j, struct lls_quantisation *out,
                                  struct lls_error *err)
{
  struct lls_scheme scheme = {
      .layout = LLS_CODED_INT8, .bits = 8, .symmetric = true, .bitsandbytes = true};
  bool four, eight;
  const char *type;
  int rc = lls_json_bool_or(j, "load_in_4bit", false, &four, err);
  if (rc == 0)
    rc = lls_json_bool_or(j, "load_in_8bit", false, &eight, err);
  if (rc == 0)
    rc = lls_json_string_or(j, "bnb_4bit_quant_type", "fp4", &type, err);
  if (rc < 0)
    return rc;
  if (!four && !eight)
    return lls_fail(err, -EINVAL,
                    "%s: \"quantization_config\" of bitsandbytes should say "
                    "\"load_in_4bit\" or \"load_in_8bit\"",
                    j->file);
  if (four && strcmp(type, "nf4") != 0 && strcmp(type, "fp4") != 0)
    return lls_quantisation_refuse(j, "bnb_4bit_quant_type", type, err);
  if (four) {
    scheme.layout = LLS_CODED_LIST;
    scheme.bits = 4;
  }
  return lls_quantisation_add(j, out, &scheme, err);
}
