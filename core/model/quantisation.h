/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised Hugging Face folders: reads "quantization_config" of config.json, and
 * assembles each matrix from its several tensors. Supported are
 *
 *   gptq                4 bits, with and without zero points, desc_act, both versions
 *   awq                 4 bits, version gemm
 *   compressed-tensors  pack-quantized (4 bits), int-quantized (8), float-quantized and
 *                       naive-quantized (e4m3)
 *   fp8, fbgemm_fp8     e4m3, with a scale per tensor, output or block
 *
 * Other methods are refused by name.
 */
#ifndef LLS_MODEL_QUANTISATION_H
#define LLS_MODEL_QUANTISATION_H

#include "core/device/coded.h"
#include "core/model/json.h"

struct lls_quantisation {
  bool is_quantised;
  enum lls_coded_layout layout;
  uint32_t group;      /* inputs per scale; 0: all inputs of an output */
  uint32_t group_rows; /* outputs per scale; 0: all, or 1, depending on the shape of
                        * the scales */
  uint32_t zeros_lack;
  bool symmetric;   /* all zeros, if stored, are 8 */
  bool int8_inputs; /* INT8: activations are int8 too */
};

/* Reads config.json. Returns 0; or -ENOTSUP or -EINVAL with a sentence. */
int lls_quantisation_read(const struct lls_json *, struct lls_quantisation *out,
                          struct lls_error *err);

/* Returns the bits of a code: 4 or 8. */
uint32_t lls_quantisation_bits(const struct lls_quantisation *);

/* A tensor of the folder as it is stored. */
struct lls_stored {
  const void *data; /* aligned for its type */
  const char *type; /* "I32" */
  uint64_t shape[2];
  uint32_t n_dims;
};

/* Finds tensors by name. Returns 0; -ENOENT; or another error with its sentence. */
struct lls_stored_source {
  void *context;
  int (*find)(void *context, const char *name, struct lls_stored *out,
              struct lls_error *err);
};

/*
 * Assembles the matrix NAME.weight of (rows, columns) from NAME.qweight, NAME.scales
 * and so on. Returns 0; -ENOENT, without a sentence, if it is not quantised in this
 * folder; or -EINVAL, naming them, if tensors do not fit together.
 */
int lls_quantisation_matrix(const struct lls_quantisation *, const char *name,
                            size_t rows, size_t columns, const struct lls_stored_source *,
                            struct lls_coded *out, struct lls_error *err);

#endif
