/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of special tokens in the content of users and tools are plain text: "<|im_end|>"
 * in a message does not end it. A barrier, a code point that no text has (U+FDD0), is put
 * into each such name before the chat template renders the messages; the rendered prompt
 * is cut there, and the barriers vanish. Any thread.
 *
 * Of these names are: all tokens that the tokeniser calls special, and other added ones
 * that the chat template names, such as <think>. [server] escape_special_tokens = false
 * lets them be tokens.
 */
#ifndef LLS_API_PLAIN_TEXT_H
#define LLS_API_PLAIN_TEXT_H

#include "core/api/api.h"
#include "core/base/text.h"

#include <jansson.h>

/* The value with barriers in each string of it: a new reference, or NULL without memory.
 */
json_t *lls_plain_guard(const struct lls_api_config *config, json_t *value);

/* As lls_tokenizer_encode, of a text that may have barriers. */
int lls_plain_encode(const struct lls_tokenizer *tokenizer, const char *text,
                     size_t length, bool add_special, int32_t **ids, size_t *count,
                     struct lls_error *err);

/* Takes the barriers out of a text of that many bytes; what is left. */
size_t lls_plain_strip(char *text, size_t length);

#endif
