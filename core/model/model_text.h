/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the tokeniser and the chat template of a model in a folder or a GGUF file. */
#ifndef LLS_MODEL_MODEL_TEXT_H
#define LLS_MODEL_MODEL_TEXT_H

#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

/* Like lls_tokenizer_load. */
int lls_model_tokenizer(const char *path, struct lls_tokenizer **out,
                        struct lls_error *err);

/* Like lls_chat_template_load. */
int lls_model_chat_template(const char *path, const char *file,
                            struct lls_chat_template **out, struct lls_error *err);

/* Returns true if the model is a GGUF file without metadata that its tokeniser needs to
 * split text as in training; *sentence then names the metadata. */
bool lls_model_tokenizer_lacks(const char *path, struct lls_error *sentence);

#endif
