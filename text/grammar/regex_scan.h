/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A regular expression looked for in a text that grows piece by piece. The match is the
 * one that ends first, and of those that end there the one that begins first, so that it
 * does not matter in which pieces the text came. A byte takes time in proportion to the
 * places of the expression that it may be at, whatever came before.
 */
#ifndef LLS_GRAMMAR_REGEX_SCAN_H
#define LLS_GRAMMAR_REGEX_SCAN_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* An expression; it never changes, and any number of texts may be scanned for it. */
struct lls_regex_finder;
/* One text, as far as it has come. */
struct lls_regex_scan;

/* -EINVAL: the expression, at which byte, or it matches the empty text; -E2BIG; -ENOMEM.
 * The pattern is copied. */
int lls_regex_finder_create(const char *pattern, size_t length,
                            struct lls_regex_finder **out, struct lls_error *err);
void lls_regex_finder_destroy(struct lls_regex_finder *finder); /* NULL: nothing */
const char *lls_regex_finder_pattern(const struct lls_regex_finder *finder,
                                     size_t *length);

/* At the beginning of a text. NULL: no memory. The finder stays. */
struct lls_regex_scan *lls_regex_scan_create(const struct lls_regex_finder *finder);
void lls_regex_scan_destroy(struct lls_regex_scan *scan); /* NULL: nothing */

/* More of the text. True if a match ends in it: *end is where, from the first of these
 * bytes, and *length how many bytes it has, of which some may have come before. */
bool lls_regex_scan_push(struct lls_regex_scan *scan, const char *bytes, size_t n,
                         size_t *end, size_t *length);
/* Bytes at the end of the text that a match may begin with. */
size_t lls_regex_scan_hold(const struct lls_regex_scan *scan);

#endif
