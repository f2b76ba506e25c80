/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Treats the names of special tokens in the content of users and tools as plain text:
 * "<|im_end|>" in a message does not end it. Before the chat template renders the
 * messages, a barrier (the noncharacter U+FDD0) is inserted into each such name; after
 * rendering, the prompt is tokenised piecewise between barriers, which are removed. All
 * functions are [any].
 *
 * Protected names are those of all tokens that the tokeniser marks as special, and of
 * other added tokens that occur in the chat template, such as <think>. [server]
 * escape_special_tokens = false turns the protection off.
 */
#ifndef LLS_API_PLAIN_TEXT_H
#define LLS_API_PLAIN_TEXT_H

#include "core/api/api.h"
#include "core/base/text.h"

#include <jansson.h>

/* Returns the value with barriers in all of its strings, as a new reference; NULL if
 * out of memory. */
json_t *lls_plain_guard(const struct lls_api_config *config, json_t *value);

/* Does the same as lls_tokenizer_encode for a text that may have barriers. */
int lls_plain_encode(const struct lls_tokenizer *tokenizer, const char *text,
                     size_t length, bool add_special, int32_t **ids, size_t *count,
                     struct lls_error *err);

/* Removes the barriers from a text of `length` bytes; returns the new length. */
size_t lls_plain_strip(char *text, size_t length);

#endif
