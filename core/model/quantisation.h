/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised Hugging Face folders: what "quantization_config" of config.json says, and the
 * matrices that it makes of several tensors. Known are
 *
 *   gptq                4 bits, with and without zero points, desc_act, both versions
 *   awq                 4 bits, version gemm
 *   compressed-tensors  pack-quantized (4 bits), int-quantized (8), float-quantized and
 *                       naive-quantized (e4m3)
 *   fp8, fbgemm_fp8     e4m3, a scale for a tensor, an output or a block
 *
 * Anything else is refused by its name.
 */
#ifndef LLS_MODEL_QUANTISATION_H
#define LLS_MODEL_QUANTISATION_H

#include "core/device/coded.h"
#include "core/model/json.h"

struct lls_quantisation {
  bool is_quantised;
  enum lls_coded_layout layout;
  uint32_t group;      /* inputs; 0: all of an output's */
  uint32_t group_rows; /* outputs; 0: all, or 1: as the scales' shape says */
  uint32_t zeros_lack;
  bool symmetric;   /* zeros, where there are any, are 8 */
  bool int8_inputs; /* of INT8: activations are int8 too */
};

/* Reads what config.json says; -ENOTSUP, -EINVAL with a sentence. */
int lls_quantisation_read(const struct lls_json *, struct lls_quantisation *out,
                          struct lls_error *err);

/* 4 or 8 of a code. */
uint32_t lls_quantisation_bits(const struct lls_quantisation *);

/* A tensor of the folder, as its file has it. */
struct lls_stored {
  const void *data; /* aligned for its type */
  const char *type; /* "I32" */
  uint64_t shape[2];
  uint32_t n_dims;
};

/* Where tensors are found: 0, -ENOENT, or another error with its sentence. */
struct lls_stored_source {
  void *context;
  int (*find)(void *context, const char *name, struct lls_stored *out,
              struct lls_error *err);
};

/*
 * The matrix NAME.weight of (rows, columns), made of NAME.qweight, NAME.scales and so on.
 * -ENOENT: it is not quantised in this folder, which says nothing; -EINVAL: of tensors
 * that do not fit each other, with their names.
 */
int lls_quantisation_matrix(const struct lls_quantisation *, const char *name,
                            size_t rows, size_t columns, const struct lls_stored_source *,
                            struct lls_coded *out, struct lls_error *err);

#endif
