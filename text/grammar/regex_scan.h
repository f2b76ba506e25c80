/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a text that grows piece by piece for a regular expression. The match found
 * is the one that ends first, and among matches with the same end the one that begins
 * first: the pieces into which the text is cut make no difference. The time per byte is
 * proportional to the positions in the expression that are active, whatever text came
 * before.
 */
#ifndef LLS_GRAMMAR_REGEX_SCAN_H
#define LLS_GRAMMAR_REGEX_SCAN_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A compiled expression; immutable, shared by any number of scans. */
struct lls_regex_finder;
/* The search in one text. */
struct lls_regex_scan;

/* Compiles a pattern, which is copied. Returns 0; -EINVAL for a fault in the
 * expression, at the byte in err, or if it matches the empty text; -E2BIG; or -ENOMEM. */
int lls_regex_finder_create(const char *pattern, size_t length,
                            struct lls_regex_finder **out, struct lls_error *err);
void lls_regex_finder_destroy(struct lls_regex_finder *finder); /* NULL is allowed */
const char *lls_regex_finder_pattern(const struct lls_regex_finder *finder,
                                     size_t *length);

/* Begins a text. Returns NULL if out of memory. The finder must outlive the scan. */
struct lls_regex_scan *lls_regex_scan_create(const struct lls_regex_finder *finder);
void lls_regex_scan_destroy(struct lls_regex_scan *scan); /* NULL is allowed */

/* Appends n bytes to the text. Returns true if a match ends in them: *end is the number
 * of these bytes up to the match's end, *length the length of the match, which may
 * begin in earlier pieces. */
bool lls_regex_scan_push(struct lls_regex_scan *scan, const char *bytes, size_t n,
                         size_t *end, size_t *length);
/* Returns the number of bytes at the end of the text that may be the beginning of a
 * match. */
size_t lls_regex_scan_hold(const struct lls_regex_scan *scan);

#endif
