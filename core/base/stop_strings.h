/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds stop strings, and the marks of tool calls, in an answer that grows piece by
 * piece. Bytes that may begin one are held back until it is certain that they do not.
 */
#ifndef LLS_BASE_STOP_STRINGS_H
#define LLS_BASE_STOP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>

struct lls_stop_string {
  char *text; /* (length), at least one byte */
  size_t length;
};

struct lls_stop_set {
  struct lls_stop_string *strings; /* (count) */
  size_t count;
};

/*
 * Finds the first stop string in text: its position in *at, its index in the set in
 * *which. Returns false if there is none. The first is the one that ends first (the
 * longest of several that end at the same place), so that the result does not depend on
 * how the text was divided into pieces.
 */
bool lls_stop_find(const struct lls_stop_set *set, const char *text, size_t length,
                   size_t *at, size_t *which);

/* Returns how many bytes at the end of text, which has no stop string, may begin one. */
size_t lls_stop_hold(const struct lls_stop_set *set, const char *text, size_t length);

void lls_stop_set_free(struct lls_stop_set *set);

#endif
