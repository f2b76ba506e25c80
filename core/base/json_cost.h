/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that JSON takes as a tree, counted in its text before a byte is allocated.
 *
 * A tree of jansson takes some 130 bytes for `[]`, 270 for `{}`, 150 for a member and 50
 * for a number: up to a hundred times the text. Text of clients is refused where its tree
 * would take more than FREE_BYTES and TIMES the length of the text. The first
 * FREE_NUMBERS numbers are not counted: prompts may be lists of token ids.
 */
#ifndef LLS_BASE_JSON_COST_H
#define LLS_BASE_JSON_COST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The sums over some texts; zeroed before the first. */
struct lls_json_cost {
  size_t length;  /* bytes of the texts */
  size_t bytes;   /* estimate of their trees, but for numbers */
  size_t numbers; /* how many */
};

/* Adds a text. Of one that is no JSON, what a parser may allocate until it finds out. Any
 * thread. */
void lls_json_count(struct lls_json_cost *cost, const char *text, size_t length);

/* True if the trees would take too much. */
bool lls_json_is_costly(const struct lls_json_cost *cost);

/* Bytes of the trees, numbers included. */
size_t lls_json_cost_bytes(const struct lls_json_cost *cost);

/* lls_json_parse of what a client sent. NULL, too, where the tree would cost too much:
 * then the code is json_error_out_of_memory, and the text names the reason. `why` may be
 * NULL. Any thread. */
json_t *lls_json_load(const char *text, size_t length, size_t flags, json_error_t *why);

#endif
