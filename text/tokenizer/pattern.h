/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of tokenizer.json, executed by PCRE2.
 *
 * They are written for Oniguruma (Ruby syntax, Unicode classes). PCRE2 reads most of
 * this syntax the same way. Parts that it would read differently are rewritten if PCRE2
 * can express the meaning (\s, \w, \v, \u), and refused otherwise, so no pattern
 * silently changes its meaning.
 *
 * A pattern is immutable and shared by threads; a matcher is one caller's working
 * memory.
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
/* Like lls_pattern_compile, for {"Regex": "..."} or {"String": "..."} in the member
 * "pattern" of node. */
int lls_pattern_load(const json_t *node, struct lls_pattern **out, struct lls_error *err);
void lls_pattern_free(struct lls_pattern *pattern);

int lls_matcher_new(struct lls_matcher **out);
void lls_matcher_free(struct lls_matcher *matcher);

/*
 * Finds the first match in text (valid UTF-8) at or after offset. Returns 1 and sets
 * its bounds; 0 if there is none; or a negative errno if the expression exceeds PCRE2's
 * work limit.
 */
int lls_pattern_find(const struct lls_pattern *pattern, struct lls_matcher *matcher,
                     const char *text, size_t length, size_t offset, size_t *start,
                     size_t *end);

/* Appends text with every match replaced by content. Returns 0 or a negative errno. */
int lls_pattern_replace(const struct lls_pattern *pattern, struct lls_matcher *matcher,
                        const char *text, size_t length, const char *content,
                        struct lls_bytes *out);

#endif
