/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised Hugging Face folders: reads "quantization_config" of config.json, and
 * assembles each matrix from its several tensors. Supported are
 *
 *   gptq                2 to 8 bits, with and without zero points, desc_act, both
 * versions auto-round          as gptq or awq awq                 4 bits, version gemm
 *   compressed-tensors  pack-quantized (2 to 8 bits), int-quantized (8), float-quantized
 *                       and naive-quantized (e4m3), mxfp4- and nvfp4-pack-quantized,
 *                       mxfp8-quantized, mixed-precision
 *   fp8, fbgemm_fp8     e4m3, with a scale per tensor, output or block
 *   modelopt            FP8 of all kinds, NVFP4, mixed
 *   bitsandbytes        nf4, fp4, with and without double quantisation; int8
 *
 * Other methods are refused by name. A folder may store its matrices in several ways
 * (schemes). Which one a matrix has is seen from the types and shapes of its tensors:
 * the names in config.json are those of modules, and fused modules have others.
 */
#ifndef LLS_MODEL_QUANTISATION_H
#define LLS_MODEL_QUANTISATION_H

#include "core/device/coded.h"
#include "core/model/json.h"

/* How matrices are stored. */
struct lls_scheme {
  enum lls_coded_layout layout;
  uint32_t bits;       /* of a code */
  uint32_t group;      /* inputs per scale; 0: all inputs of an output */
  uint32_t group_rows; /* outputs per scale; 0: all, or 1, depending on the shape of
                        * the scales */
  uint32_t zeros_lack;
  bool symmetric;    /* zeros are not stored; of GPTQ they are, and all in the middle */
  bool int8_inputs;  /* INT8: activations are int8 too */
  bool mx;           /* scales are powers of two (e8m0) */
  bool modelopt;     /* tensors have modelopt's names */
  bool bitsandbytes; /* tensors have bitsandbytes' names */
};

#define LLS_MAX_SCHEMES 16

struct lls_quantisation {
  bool is_quantised;
  uint32_t n_schemes;
  struct lls_scheme scheme[LLS_MAX_SCHEMES];
};

/* Puts "quantization_config" into config.json's object, where newer folders have it;
 * older ones have it in "text_config", as "compression_config", or in modelopt's file
 * hf_quant_config.json. Returns 0, -ENOMEM, or the error of that file. */
int lls_quantisation_bring(const char *folder, struct lls_json *config,
                           struct lls_error *err);

/* Reads config.json. Returns 0; or -ENOTSUP or -EINVAL with a sentence. */
int lls_quantisation_read(const struct lls_json *, struct lls_quantisation *out,
                          struct lls_error *err);

/* Returns the most bits that a code of any scheme has: 2 to 8. */
uint32_t lls_quantisation_bits(const struct lls_quantisation *);

/* A tensor of the folder as it is stored; of more than two dimensions those of 1 are left
 * out. */
struct lls_stored {
  const void *data; /* aligned for its type */
  const char *type; /* "I32" */
  uint64_t shape[2];
  uint32_t n_dims;
  size_t bytes;
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
