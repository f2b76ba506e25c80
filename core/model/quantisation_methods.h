/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of "quantization_config" by method; used by the files quantis*.c of this
 * folder only. */
#ifndef LLS_MODEL_QUANTISATION_METHODS_H
#define LLS_MODEL_QUANTISATION_METHODS_H

#include "core/model/quantisation.h"

/* Returns -ENOTSUP with a sentence which names the unsupported value. */
int lls_quantisation_refuse(const struct lls_json *, const char *what, const char *value,
                            struct lls_error *err);

/* Adds a scheme, unless the list has an equal one. */
int lls_quantisation_add(const struct lls_json *, struct lls_quantisation *,
                         const struct lls_scheme *, struct lls_error *err);

/* Reads "group_size", a whole number of 1 or more; -1, null or an absent key means 0, all
 * inputs. */
int lls_quantisation_group(const struct lls_json *, uint32_t *out, struct lls_error *err);

/* Reads the bits of a code, `least` to 8. */
int lls_quantisation_code_bits(const struct lls_json *, const char *key,
                               uint32_t fallback, uint32_t least, uint32_t *out,
                               struct lls_error *err);

/* Reads a block of weights that share a scale, as [128, 128], if the key is present. */
int lls_quantisation_block(const struct lls_json *, const char *key, struct lls_scheme *,
                           struct lls_error *err);

/* Methods. */
int lls_quantisation_compressed(const struct lls_json *, struct lls_quantisation *,
                                struct lls_error *err);
int lls_quantisation_modelopt(const struct lls_json *, struct lls_quantisation *,
                              struct lls_error *err);
int lls_quantisation_gptq(const struct lls_json *, struct lls_quantisation *,
                          struct lls_error *err);
int lls_quantisation_awq(const struct lls_json *, struct lls_quantisation *,
                         struct lls_error *err);
int lls_quantisation_auto_round(const struct lls_json *, struct lls_quantisation *,
                                struct lls_error *err);
int lls_quantisation_bitsandbytes(const struct lls_json *, struct lls_quantisation *,
                                  struct lls_error *err);

#endif
