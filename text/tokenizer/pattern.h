/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of tokenizer.json, run by PCRE2.
 *
 * The files are written for Oniguruma (Ruby syntax, Unicode classes). PCRE2 reads most of
 * it the same way; what it would read differently is rewritten when the meaning can be
 * kept (\s, \w, \v, \u) and refused otherwise, never taken silently.
 *
 * A pattern is immutable and shared by threads; a matcher is one caller's working memory.
 */
#ifndef LLS_TOKENIZER_PATTERN_H
#define LLS_TOKENIZER_PATTERN_H

#include "core/base/error.h"
#include "text/base/buffer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct lls_pattern;
struct lls_matcher;

/* Compiles a regular expression, or a literal string. */
int lls_pattern_compile(const char *text, bool literal, struct lls_pattern **out,
                        struct lls_error *err);
/* The same from {"Regex": "..."} or {"String": "..."}, member "pattern" of node. */
int lls_pattern_load(const json_t *node, struct lls_pattern **out, struct lls_error *err);
void lls_pattern_free(struct lls_pattern *pattern);

int lls_matcher_new(struct lls_matcher **out);
void lls_matcher_free(struct lls_matcher *matcher);

/*
 * Finds the first match in text (valid UTF-8) at or after offset: 1 and its bounds, 0 if
 * there is none, or a negative errno where the expression exceeds PCRE2's work limit.
 */
int lls_pattern_find(const struct lls_pattern *pattern, struct lls_matcher *matcher,
                     const char *text, size_t length, size_t offset, size_t *start,
                     size_t *end);

/* Appends text with content in place of every match; 0 or a negative errno. */
int lls_pattern_replace(const struct lls_pattern *pattern, struct lls_matcher *matcher,
                        const char *text, size_t length, const char *content,
                        struct lls_bytes *out);

#endif
