/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates the memory that JSON takes as a tree from its text, before a byte is
 * allocated.
 *
 * A tree of jansson takes about 130 bytes for `[]`, 270 for `{}`, 150 for a member and 50
 * for a number: up to a hundred times the text. A client's text is refused if its tree
 * would take more than FREE_BYTES plus TIMES the length of the text. The first
 * FREE_NUMBERS numbers are not counted, because prompts may be lists of token ids.
 */
#ifndef LLS_BASE_JSON_COST_H
#define LLS_BASE_JSON_COST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Sums over the texts counted so far; zeroed before the first. */
struct lls_json_cost {
  size_t length;  /* bytes of the texts */
  size_t bytes;   /* estimate of their trees, without numbers */
  size_t numbers; /* count of numbers */
};

/* Adds a text. For malformed JSON adds the memory that a parser may allocate before it
 * finds the error. Any thread. */
void lls_json_count(struct lls_json_cost *cost, const char *text, size_t length);

/* True if the trees would take too much. */
bool lls_json_is_costly(const struct lls_json_cost *cost);

/* Returns the bytes of the trees, with numbers. */
size_t lls_json_cost_bytes(const struct lls_json_cost *cost);

/* Parses a client's text with lls_json_parse. Returns NULL also if the tree would cost
 * too much: the code is then json_error_out_of_memory, and the text says why. `why` may
 * be NULL. Any thread. */
json_t *lls_json_load(const char *text, size_t length, size_t flags, json_error_t *why);

#endif
