/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the tokeniser of a GGUF file in the form of a model folder's files. */
#ifndef LLS_TOKENIZER_GGUF_TOKENIZER_H
#define LLS_TOKENIZER_GGUF_TOKENIZER_H

#include "text/tokenizer/gguf_metadata.h"

#include <stdbool.h>

/* Makes the content that tokenizer.json would have. */
int lls_gguf_tokenizer(const struct lls_gguf_metadata *, json_t **out,
                       struct lls_error *err);

/* Makes the content that tokenizer_config.json would have: special tokens and the chat
 * template. */
int lls_gguf_tokenizer_config(const struct lls_gguf_metadata *, json_t **out,
                              struct lls_error *err);

/* Returns true if a GGUF file lacks keys that describe its tokens; *sentence then names
 * them. */
bool lls_gguf_tokenizer_lacks(const struct lls_gguf_metadata *,
                              struct lls_error *sentence);

#endif
