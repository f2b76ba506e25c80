/* SPDX-License-Identifier: Apache-2.0 */
/* The tokeniser in a GGUF file, as the files of a model folder would describe it. */
#ifndef LLS_TOKENIZER_GGUF_TOKENIZER_H
#define LLS_TOKENIZER_GGUF_TOKENIZER_H

#include "core/base/error.h"

#include <jansson.h>

/* What tokenizer.json would say. */
int lls_gguf_tokenizer(const char *path, json_t **out, struct lls_error *err);

/* What tokenizer_config.json would: special tokens and the chat template. */
int lls_gguf_tokenizer_config(const char *path, json_t **out, struct lls_error *err);

#endif
