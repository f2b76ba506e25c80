/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one reader of JSON text, for numbers of any size.
 *
 * JSON sets no limit to a number, and transformers writes 10^30 for "no limit". Jansson
 * refuses the whole text for an integer outside of 64 bits or a real above 1.8e308. Here
 * such a number is wide: it becomes a real, as it does in JavaScript. An integer becomes
 * the nearest double; what no double can hold becomes +-LLS_JSON_LARGEST. All other
 * numbers are Jansson's, integers of 64 bits exactly.
 *
 * A caller checks the type and range of a number that has to be small, as ever: a wide
 * one is a real, so json_is_integer() is false.
 */
#ifndef LLS_BASE_JSON_PARSE_H
#define LLS_BASE_JSON_PARSE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define LLS_JSON_LARGEST 9e307 /* replaces numbers above the largest double */

/* [any] Parses a text; `flags` are Jansson's. Returns NULL with *why (may be NULL) if the
 * text is not JSON, or without memory (lls_json_shortages tells which). Lines and columns
 * in *why refer to `text`. */
json_t *lls_json_parse(const char *text, size_t length, size_t flags, json_error_t *why);

/* Like lls_json_parse, for a string that ends with a NUL; NULL counts as malformed. */
json_t *lls_json_parse_string(const char *text, size_t flags, json_error_t *why);

/* Like lls_json_parse, for the rest of a file, which stays open. */
json_t *lls_json_parse_stream(FILE *file, size_t flags, json_error_t *why);

/* Like lls_json_parse, for a named file; why->line is -1 if it can't be opened. */
json_t *lls_json_parse_file(const char *path, size_t flags, json_error_t *why);

#endif
