/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma 4's files, for the table in gguf_families.c: names of tensors, keys, and the keys
 * of config.json that follow from others. */
#ifndef LLS_MODEL_GGUF_GEMMA4_H
#define LLS_MODEL_GGUF_GEMMA4_H

#include "core/model/gguf.h"

extern const struct lls_gguf_pair lls_gguf_gemma4_tensors[];
extern const struct lls_gguf_pair lls_gguf_gemma4_keys[];

void lls_gguf_describe_gemma4(const struct lls_gguf *, json_t *config);

#endif
