/* SPDX-License-Identifier: Apache-2.0 */
/* The tokeniser in a GGUF file, as the files of a model folder would describe it. */
#ifndef LLS_TOKENIZER_GGUF_TOKENIZER_H
#define LLS_TOKENIZER_GGUF_TOKENIZER_H

#include "text/tokenizer/gguf_metadata.h"

#include <stdbool.h>

/* The content that tokenizer.json would have. */
int lls_gguf_tokenizer(const struct lls_gguf_metadata *, json_t **out,
                       struct lls_error *err);

/* The content that tokenizer_config.json would have: special tokens and the chat
 * template. */
int lls_gguf_tokenizer_config(const struct lls_gguf_metadata *, json_t **out,
                              struct lls_error *err);

/* True if a GGUF file leaves out what tells its tokens; then *sentence says so. */
bool lls_gguf_tokenizer_lacks(const struct lls_gguf_metadata *,
                              struct lls_error *sentence);

#endif
