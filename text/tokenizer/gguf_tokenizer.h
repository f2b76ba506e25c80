/* SPDX-License-Identifier: Apache-2.0 */
/* The tokeniser in a GGUF file, as the files of a model folder would describe it. */
#ifndef LLS_TOKENIZER_GGUF_TOKENIZER_H
#define LLS_TOKENIZER_GGUF_TOKENIZER_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* The content that tokenizer.json would have. */
int lls_gguf_tokenizer(const char *path, json_t **out, struct lls_error *err);

/* The content that tokenizer_config.json would have: special tokens and the chat
 * template. */
int lls_gguf_tokenizer_config(const char *path, json_t **out, struct lls_error *err);

/* True if a GGUF file leaves out what tells its tokens; then *sentence says so. */
bool lls_gguf_tokenizer_lacks(const char *path, struct lls_error *sentence);

#endif
